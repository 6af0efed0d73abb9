"""The folder of an experiment, read back."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from xdops.arguments import check
from xdops.backbones.build import is_foreign
from xdops.data.task import Reading
from xdops.errors import XDError
from xdops.experiments.folder import SETTINGS, read_settings, run_folder, tuning_path
from xdops.experiments.network import TRAINED, NetworkSettings
from xdops.experiments.tuning import Tuned
from xdops.search import SearchResult
from xdops.search.checkpoint import load_weights
from xdops.search.folder import RESULT, RUN, SCORES, read_identity, read_result, read_scores
from xdops.search.scores import Scores
from xdops.storage.documents import digest, make_sense, named_differences


def describe_run(identity: dict[str, Any], space: str) -> dict[str, Any]:
    """What a run of an experiment says of itself beside its settings: it is part of this experiment, and of no other."""
    return {"space": space, **identity["network"], "experiment": digest(identity)}


def finished_result(folder: Path, describe: dict[str, Any], seed: int) -> SearchResult:
    """The result in a run's folder, refused if it is that of another experiment, space or seed."""
    check_run(folder, describe, seed)
    return read_result(folder)


def check_run(folder: Path, describe: dict[str, Any], seed: int) -> None:
    """Refuse the run in a folder if it is that of another experiment, space or seed."""
    identity = read_identity(folder)
    differing = named_differences({"describe": describe, "seed": seed}, make_sense(folder / RUN, identity, _describe_and_seed))
    if differing:
        raise XDError(f"{folder}, which holds another run ({differing})", "the run of this experiment", "the folder as it was")


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
        check("out", out, Path, "Finished.open")
        out = Path(out)
        settings = read_settings(out)
        finished = make_sense(out / SETTINGS, settings, partial(cls._read, out))
        if allowed is not None and not is_foreign(finished.network.backbone) and finished.network.backbone != allowed:
            raise XDError(
                f"--backbone {allowed} for {out}, whose backbone is {finished.network.backbone}",
                "the network that the run was made with",
                "without --backbone, which only networks that are not part of xdops need",
            )
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
        if not set(spaces) <= set(TRAINED) or any(type(seed) is not int for seed in seeds):
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

    def tuned(self) -> dict[str, Tuned]:
        """What was tried and chosen, by space; empty if nothing was tuned."""
        paths = {space: tuning_path(self.out, space) for space in self.settings["spaces"]}
        experiment = digest(self.settings["identity"])
        return {space: Tuned.read(path, experiment) for space, path in paths.items() if path.exists()}

    def start(self, space: str, seed: int) -> nn.Module:
        """The network as the search began."""
        return self.network.build(self.reading.request, space, seed)

    def best(self, space: str, seed: int) -> nn.Module:
        """The network at its best epoch on validation: exactly the checkpoint that the result names."""
        self.result(space, seed)
        network = self.start(space, seed)
        load_weights(run_folder(self.out, space, seed), network)
        return network.eval()
