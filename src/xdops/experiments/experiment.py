"""A backbone and search spaces over it, trained alike on one task with several seeds, in one folder that can be resumed."""

import dataclasses
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from xdops.backbones import Request, build_backbone
from xdops.convert import XDConfig
from xdops.data.task import Reading, Task
from xdops.errors import XDError
from xdops.experiments.folder import SETTINGS, check_folder, claim_folder, read_json, run_folder
from xdops.operations.domains import DEFAULT_DOMAIN, Domain, check_domain
from xdops.search import Progress, SearchResult, SearchSettings, search
from xdops.search.checkpoint import load_weights
from xdops.search.distributed import check_machine, under_torchrun
from xdops.spaces import SPACES, SpaceSettings, apply

#: Floats that a run keeps per parameter: two generations of weights and two Adam moments each, and the best weights.
COPIES = 2 * 3 + 2


@dataclass(frozen=True)
class NetworkSettings:
    """Which network: all that is needed to build it again."""

    backbone: str
    depth: tuple[int, int, int]  # of K, L and M
    domain: Domain = DEFAULT_DOMAIN

    def __post_init__(self) -> None:
        if min(self.depth) < 1:
            raise XDError(f"--depth {' '.join(map(str, self.depth))}", "three numbers of at least 1", "--depth 3 3 3")
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
        if self.seeds < 1:
            raise XDError(f"--seeds {self.seeds}", "at least 1; 3 or more to tell skill from chance", "--seeds 3")

    def identity(self) -> dict[str, Any]:
        """What must be the same for a folder to be continued; more spaces or seeds may be added to it."""
        return {
            "data": self.task.problem.signature(),
            "reading": self.task.reading.to_dict(),
            "network": self.network.to_dict(),
            "search": self.search.to_dict(),
            "backbone_lr": self.backbone_lr,
        }

    def run(self, resume: bool, progress: Callable[[str, int], Progress | None]) -> dict[str, list[SearchResult]]:
        """Every (space, seed) that is not finished yet, in order of seeds; results by space."""
        if first_process():
            check_machine(self.search)
            check_folder(self.out, self.identity(), resume)
            networks = [self.network.build(self.task.request, space, self.search.seed) for space in self.spaces]
            parameters = sum(p.numel() for network in networks for p in network.parameters())
            claim_folder(self.out, self.settings(), needed=4 * COPIES * self.seeds * parameters)
        results: dict[str, list[SearchResult]] = {space: [] for space in self.spaces}
        for settings_of_run in self.run_settings():
            for space in self.spaces:
                results[space].append(self.run_one(space, settings_of_run, progress(space, settings_of_run.seed)))
        return results

    def settings(self) -> dict[str, Any]:
        """settings.json: spaces and seeds of earlier calls with --resume stay in it."""
        earlier = read_json(self.out / SETTINGS, "another --out") if (self.out / SETTINGS).exists() else {"spaces": [], "seeds": []}
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

    def run_one(self, space: str, settings: SearchSettings, progress: Progress | None) -> SearchResult:
        folder = run_folder(self.out, space, settings.seed)
        if (folder / "result.json").exists():
            return SearchResult.from_dict(read_json(folder / "result.json", "another --out"))
        network = self.network.build(self.task.request, space, settings.seed)
        describe = {"space": space, **self.network.to_dict()}
        if space == "backbone":
            settings = dataclasses.replace(settings, weights=dataclasses.replace(settings.weights, lr=self.backbone_lr))
        return search(network, self.task.problem, settings, folder, resume=True, describe=describe, progress=progress)


@dataclass(frozen=True)
class Finished:
    """A folder that `Experiment.run` made, read back."""

    out: Path
    reading: Reading
    network: NetworkSettings
    settings: dict[str, Any]

    @classmethod
    def open(cls, out: Path) -> "Finished":
        if not (out / SETTINGS).exists():
            raise XDError(
                f"{out}, which holds no {SETTINGS}", "the --out folder of `xdops search`", "xdops search DATA --out runs/mine"
            )
        settings = read_json(out / SETTINGS, "the --out folder of a search")
        try:
            identity = settings["identity"]
            return cls(out, Reading.from_dict(identity["reading"]), NetworkSettings.from_dict(identity["network"]), settings)
        except (KeyError, TypeError) as error:
            raise XDError(
                f"{out / SETTINGS}, in which {error} is missing", "a file that `xdops search` wrote", "search again"
            ) from error

    def runs(self) -> list[tuple[str, int]]:
        """Every (space, seed) that is finished."""
        pairs = [(space, seed) for space in self.settings["spaces"] for seed in self.settings["seeds"]]
        return [(space, seed) for space, seed in pairs if (run_folder(self.out, space, seed) / "result.json").exists()]

    def result(self, space: str, seed: int) -> SearchResult:
        return SearchResult.from_dict(read_json(run_folder(self.out, space, seed) / "result.json", "search again"))

    def start(self, space: str, seed: int) -> nn.Module:
        """The network as the search began."""
        return self.network.build(self.reading.request, space, seed)

    def best(self, space: str, seed: int) -> nn.Module:
        """The network at its best epoch on validation."""
        network = self.start(space, seed)
        load_weights(run_folder(self.out, space, seed), network)
        return network.eval()
