"""A backbone and search spaces over it, trained alike on one task with several seeds, in one folder that can be resumed."""

import dataclasses
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from xdops.backbones import Request, build_backbone
from xdops.backbones.build import is_foreign
from xdops.convert import XDConfig
from xdops.data.task import Reading, Task
from xdops.errors import XDError
from xdops.experiments.folder import SETTINGS, check_folder, read_settings, run_folder, write_settings
from xdops.experiments.trial import check_training
from xdops.measuring.duration import check_duration
from xdops.operations.domains import DEFAULT_DOMAIN, Domain, check_domain
from xdops.search import Progress, SearchResult, SearchSettings, search
from xdops.search.checkpoint import load_weights
from xdops.search.distributed import check_machine, under_torchrun
from xdops.search.folder import RESULT, RUN, SCORES, read_identity, read_result, read_scores
from xdops.search.scores import Scores
from xdops.spaces import SPACES, SpaceSettings, apply
from xdops.storage.documents import digest, make_sense, named_differences
from xdops.storage.files import check_room
from xdops.storage.lock import lock

#: Floats that a run keeps per parameter: two generations of weights and two Adam moments each, and the best weights.
COPIES = 2 * 3 + 2
#: Of K, L and M. Depth 4 holds every matrix with n nonzeros; products of four such are far beyond what can be learned.
DEEPEST = 16
MOST_SEEDS = 10_000


@dataclass(frozen=True)
class NetworkSettings:
    """Which network: all that is needed to build it again."""

    backbone: str
    depth: tuple[int, int, int]  # of K, L and M
    domain: Domain = DEFAULT_DOMAIN

    def __post_init__(self) -> None:
        if min(self.depth) < 1 or max(self.depth) > DEEPEST:
            raise XDError(f"--depth {' '.join(map(str, self.depth))}", f"three numbers from 1 to {DEEPEST}", "--depth 3 3 3")
        check_domain(self.domain)

    def build(self, request: Request, space: str, seed: int) -> nn.Module:
        """The backbone of this seed, relaxed into the space; the same start for every space."""
        network = build_backbone(self.backbone, request, seed)
        # Sequences of different lengths: the same at every position, and blind to the future, whatever is learned.
        config = XDConfig(depth=self.depth, domain=self.domain, shift_invariant=request.ragged, causal=request.ragged)
        settings = SpaceSettings(config, filter_fn=is_searchable)
        report = apply(space, network, torch.zeros(2, *request.input_shape), settings)
        if space != "backbone" and not report.converted:
            raise XDError(
                f"backbone {self.backbone}, in which no layer can be searched",
                "a convolution wider than one point",
                "--spaces backbone",
            )
        return network

    def to_dict(self) -> dict[str, Any]:
        return {"backbone": self.backbone, "depth": list(self.depth), "domain": self.domain}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "NetworkSettings":
        return cls(data["backbone"], tuple(data["depth"]), data.get("domain", "full"))


def is_searchable(name: str, module: nn.Module) -> bool:
    """All but 1x1 convolutions: these mix channels only, and there is no operation to find out about."""
    return not (isinstance(module, (nn.Conv1d, nn.Conv2d, nn.Conv3d)) and all(k == 1 for k in module.kernel_size))


def first_process() -> bool:
    """Under torchrun several processes run all of this; one of them keeps the folder."""
    return not under_torchrun() or os.environ["RANK"] == "0"


@dataclass(frozen=True)
class Experiment:
    task: Task
    network: NetworkSettings
    spaces: tuple[str, ...]
    seeds: int
    search: SearchSettings  # its seed is that of the first run
    backbone_lr: float  # the backbone's own best step size, so that the comparison is fair
    out: Path
    command: str

    def __post_init__(self) -> None:
        unknown = [space for space in self.spaces if space not in SPACES]
        if unknown or not self.spaces:
            raise XDError(f"--spaces {','.join(self.spaces)}", f"some of {', '.join(SPACES)}", "--spaces backbone,xd")
        if not 1 <= self.seeds <= MOST_SEEDS:
            raise XDError(f"--seeds {self.seeds}", f"from 1 to {MOST_SEEDS:,}; 3 or more to tell skill from chance", "--seeds 3")

    def identity(self) -> dict[str, Any]:
        """What must be the same for a folder to be continued; more spaces or seeds may be added to it."""
        facts = {
            "data": self.task.problem.signature(),
            "reading": self.task.reading.to_dict(),
            "network": self.network.to_dict(),
            "search": self.search.to_dict(),
            "backbone_lr": self.backbone_lr,
        }
        return json.loads(json.dumps(facts))

    def run(
        self, resume: bool, progress: Callable[[str, int], Progress | None], however_long: bool = False
    ) -> dict[str, list[SearchResult]]:
        """Every (space, seed) that is not finished yet, in order of seeds; results by space."""
        if not first_process():
            return self._run_all(progress)
        self.check(resume, however_long)
        with lock(self.out):
            check_folder(self.out, self.identity(), resume)  # again, now that nobody else can change it
            write_settings(self.out, self.settings())
            return self._run_all(progress)

    def check(self, resume: bool, however_long: bool) -> None:
        """All that can be refused, before anything is written: a corrected command then finds nothing in its way."""
        check_machine(self.search)
        check_folder(self.out, self.identity(), resume)
        check_room(self.out, 1)
        parameters, seconds = 0, 0.0
        for space in self.spaces:
            network = self.network.build(self.task.request, space, self.search.seed)
            parameters += sum(p.numel() for p in network.parameters())
            settings = self.settings_of(space, self.search)
            seconds += check_training(network, self.task.problem, settings, self.network.backbone)
        check_duration(seconds * self.search.epochs * self.seeds, however_long)
        check_room(self.out, 4 * COPIES * self.seeds * parameters)

    def _run_all(self, progress: Callable[[str, int], Progress | None]) -> dict[str, list[SearchResult]]:
        results: dict[str, list[SearchResult]] = {space: [] for space in self.spaces}
        for settings_of_run in self.run_settings():
            for space in self.spaces:
                results[space].append(self.run_one(space, settings_of_run, progress(space, settings_of_run.seed)))
        return results

    def settings(self) -> dict[str, Any]:
        """settings.json: spaces and seeds of earlier calls with --resume stay in it."""
        earlier = read_settings(self.out) if (self.out / SETTINGS).exists() else {"spaces": [], "seeds": []}
        return {
            "task": self.task.name,
            "notes": list(self.task.notes),
            "command": self.command,
            "spaces": list(dict.fromkeys([*earlier["spaces"], *self.spaces])),
            "seeds": sorted({*earlier["seeds"], *(s.seed for s in self.run_settings())}),
            "identity": self.identity(),
        }

    def run_settings(self) -> list[SearchSettings]:
        return [dataclasses.replace(self.search, seed=self.search.seed + i) for i in range(self.seeds)]

    def settings_of(self, space: str, settings: SearchSettings) -> SearchSettings:
        """The same for all, but for the step size of the plain backbone."""
        if space != "backbone":
            return settings
        return dataclasses.replace(settings, weights=dataclasses.replace(settings.weights, lr=self.backbone_lr))

    def run_one(self, space: str, settings: SearchSettings, progress: Progress | None) -> SearchResult:
        folder = run_folder(self.out, space, settings.seed)
        describe = describe_run(self.identity(), space)
        if (folder / RESULT).exists() and (folder / SCORES).exists():
            return finished_result(folder, describe, settings.seed)
        network = self.network.build(self.task.request, space, settings.seed)
        settings = self.settings_of(space, settings)
        return search(network, self.task.problem, settings, folder, resume=True, describe=describe, progress=progress)


def describe_run(identity: dict[str, Any], space: str) -> dict[str, Any]:
    """What a run of an experiment says of itself beside its settings: it is part of this experiment, and of no other."""
    return {"space": space, **identity["network"], "experiment": digest(identity)}


def finished_result(folder: Path, describe: dict[str, Any], seed: int) -> SearchResult:
    """The result in a run's folder, refused if it is that of another experiment, space or seed."""
    identity = read_identity(folder)
    differing = named_differences({"describe": describe, "seed": seed}, make_sense(folder / RUN, identity, _describe_and_seed))
    if differing:
        raise XDError(f"{folder}, which holds another run ({differing})", "the run of this experiment", "the folder as it was")
    return read_result(folder)


def _describe_and_seed(identity: dict[str, Any]) -> dict[str, Any]:
    return {"describe": identity["describe"], "seed": identity["settings"]["seed"]}


@dataclass(frozen=True)
class Finished:
    """A folder that `Experiment.run` made, read back."""

    out: Path
    reading: Reading
    network: NetworkSettings
    settings: dict[str, Any]

    @classmethod
    def open(cls, out: Path, allowed: str | None = None) -> "Finished":
        """allowed: the backbone, module:function, that the user has named and that may therefore be imported; ours always may."""
        settings = read_settings(out)
        finished = make_sense(out / SETTINGS, settings, partial(cls._read, out))
        if is_foreign(finished.network.backbone) and finished.network.backbone != allowed:
            raise XDError(
                f"{out}, whose backbone {finished.network.backbone!r} is code that is not part of xdops",
                f"--backbone {finished.network.backbone}, which says that you trust it"
                + ("" if allowed is None else f", instead of {allowed}"),
                "to name it, or --trust-run to import whatever the run names; only for runs whose author you trust",
            )
        return finished

    @classmethod
    def named_backbone(cls, out: Path) -> str:
        """The backbone that the run in the folder names; nothing is imported."""
        return make_sense(out / SETTINGS, read_settings(out), partial(cls._read, out)).network.backbone

    @classmethod
    def _read(cls, out: Path, settings: dict[str, Any]) -> "Finished":
        identity = settings["identity"]
        spaces, seeds = settings["spaces"], settings["seeds"]
        if not set(spaces) <= set(SPACES) or any(type(seed) is not int for seed in seeds):
            raise ValueError(f"spaces {spaces} and seeds {seeds}")
        return cls(out, Reading.from_dict(identity["reading"]), NetworkSettings.from_dict(identity["network"]), settings)

    def runs(self) -> list[tuple[str, int]]:
        """Every (space, seed) that is finished."""
        pairs = [(space, seed) for space in self.settings["spaces"] for seed in self.settings["seeds"]]
        return [(space, seed) for space, seed in pairs if (run_folder(self.out, space, seed) / RESULT).exists()]

    def result(self, space: str, seed: int) -> SearchResult:
        describe = describe_run(self.settings["identity"], space)
        return finished_result(run_folder(self.out, space, seed), describe, seed)

    def scores(self, space: str) -> dict[int, Scores]:
        """Of every finished run of the space, by seed."""
        seeds = [seed for name, seed in self.runs() if name == space]
        folders = {seed: run_folder(self.out, space, seed) for seed in seeds}
        return {seed: read_scores(folder) for seed, folder in folders.items() if (folder / SCORES).exists()}

    def start(self, space: str, seed: int) -> nn.Module:
        """The network as the search began."""
        return self.network.build(self.reading.request, space, seed)

    def best(self, space: str, seed: int) -> nn.Module:
        """The network at its best epoch on validation: exactly the checkpoint that the result names."""
        self.result(space, seed)
        network = self.start(space, seed)
        load_weights(run_folder(self.out, space, seed), network)
        return network.eval()
