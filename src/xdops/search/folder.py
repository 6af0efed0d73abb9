"""The folder of one run. Every file that is read again is sealed with the digest of the run's identity.

run.json        the identity: settings, network, data
checkpoints/    see `xdops.search.checkpoint`
metrics.jsonl   one line per epoch, written again from the checkpoint by every start; tensorboard/ likewise
scores.json     the best weights on every test example, if the metric is a mean over examples
result.json     the outcome, written last: with it the run is finished
"""

from pathlib import Path
from typing import Any

from xdops.errors import XDError
from xdops.search.results import SearchResult
from xdops.search.scores import Scores
from xdops.storage.documents import digest, make_sense, named_differences, read_sealed, write_sealed
from xdops.storage.files import is_temporary

RUN, SCORES, RESULT, CHECKPOINTS = "run.json", "scores.json", "result.json", "checkpoints"
METRICS, TENSORBOARD = "metrics.jsonl", "tensorboard"
#: All of a run, in the order in which it is written.
WRITTEN = (RUN, CHECKPOINTS, METRICS, TENSORBOARD, SCORES, RESULT)
_HINT = "another --out (out=...)"


def check_folder(out: Path, identity: dict[str, Any], resume: bool) -> bool:
    """Whether the folder holds this run, to be continued. Refuses any other."""
    path = out / RUN
    if not path.exists():
        if (out / CHECKPOINTS).exists() and any(not is_temporary(p) for p in (out / CHECKPOINTS).iterdir()):
            raise XDError(f"{out}, which holds checkpoints but no {RUN}", "a new folder, or a whole run", _HINT)
        others = [name for name in (METRICS, SCORES, RESULT) if (out / name).exists()]
        if others:
            raise XDError(f"{out}, which holds {others[0]} but no {RUN}", "a new folder: it would be overwritten", _HINT)
        return False
    if not resume:
        raise XDError(
            f"{out}, which already holds a run", "a new folder", "another --out (out=...), or --resume (resume=True) to continue it"
        )
    differing = named_differences(read_identity(out), identity)
    if differing:
        raise XDError(
            f"a run of another configuration in {out}: {differing}",
            "the same settings, network and data",
            f"the settings in {RUN}, or another --out",
        )
    return True


def write_identity(out: Path, identity: dict[str, Any]) -> None:
    write_sealed(out / RUN, "identity", digest(identity), identity)


def read_identity(out: Path) -> dict[str, Any]:
    """The identity in a run's folder, verified."""
    return read_sealed(out / RUN, "identity", hint=_HINT)


def run_digest(out: Path) -> str:
    """What every file of the run in this folder carries."""
    return digest(read_identity(out))


def write_scores(out: Path, identity: dict[str, Any], scores: Scores) -> None:
    write_sealed(out / SCORES, "scores", digest(identity), scores.to_dict())


def read_scores(out: Path) -> Scores:
    """The scores of a finished run, verified, and of the run that the folder holds."""
    content = read_sealed(out / SCORES, "scores", run_digest(out), _HINT)
    return make_sense(out / SCORES, content, Scores.from_dict, _HINT)


def write_result(out: Path, identity: dict[str, Any], result: SearchResult) -> None:
    write_sealed(out / RESULT, "result", digest(identity), result.to_dict())


def read_result(out: Path) -> SearchResult:
    """The outcome of a finished run, verified, and of the run that the folder holds."""
    content = read_sealed(out / RESULT, "result", run_digest(out), _HINT)
    return make_sense(out / RESULT, content, SearchResult.from_dict, _HINT)
