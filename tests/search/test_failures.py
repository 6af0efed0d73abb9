"""What can go wrong ends in one clear message and a good checkpoint."""

import dataclasses
import errno
import json
from pathlib import Path

import pytest
import torch
from search_support import SETTINGS, make_network, make_problem, make_split
from torch import Tensor, nn

from xdops.errors import XDError
from xdops.search import Diverged, Metric, OptimizerSettings, Silent, load_checkpoint, load_weights, save_checkpoint, search
from xdops.search.checkpoint import newest, save_generation
from xdops.storage import files as search_files


class NaNFrom:
    """A loss that turns bad at one call, as a division by zero would."""

    def __init__(self, call: int, bad: float) -> None:
        self.calls, self.at, self.bad = 0, call, bad

    def __call__(self, prediction: Tensor, y: Tensor) -> Tensor:
        self.calls += 1
        return nn.functional.cross_entropy(prediction, y) * (self.bad if self.calls == self.at else 1)


# Per epoch 5 training losses and 1 on validation.
@pytest.mark.parametrize(
    ("call", "bad", "what", "epochs_kept"),
    [
        (3, float("nan"), "training loss of nan in epoch 1, step 3", 0),
        (8, float("inf"), "training loss of inf in epoch 2, step 2", 1),
        (9, 1e9, "training loss of", 1),
        (12, float("nan"), "validation loss of nan in epoch 2", 1),
    ],
)
def test_a_bad_loss_stops_with_its_place_and_keeps_the_last_good_state(
    tmp_path: Path, call, bad, what: str, epochs_kept: int
) -> None:
    out = tmp_path / "run"
    with pytest.raises(Diverged, match="smaller step size") as stopped:
        search(make_network(), make_problem(loss=NaNFrom(call, bad)), SETTINGS, out, progress=Silent())
    assert what in str(stopped.value)
    kept = newest(out / "checkpoints")
    assert kept is not None
    assert kept.facts["position"]["epoch"] == epochs_kept
    assert all(torch.isfinite(t).all() for t in kept.tensors.values())


def test_a_search_that_really_diverges_is_stopped_and_the_architecture_suspected(tmp_path: Path) -> None:
    settings = dataclasses.replace(SETTINGS, warmup=0, clip=None, architecture=OptimizerSettings("sgd", 1e4), epochs=20)
    with pytest.raises(Diverged, match="smaller step size of the architecture"):
        search(make_network(), make_problem(), settings, tmp_path / "run", progress=Silent())
    kept = newest(tmp_path / "run" / "checkpoints")
    assert kept is not None
    assert all(torch.isfinite(t).all() for t in kept.tensors.values())


def test_the_larger_step_size_is_suspected(tmp_path: Path) -> None:
    settings = dataclasses.replace(SETTINGS, warmup=0, weights=OptimizerSettings("sgd", 2.0))
    with pytest.raises(Diverged, match=r"smaller step size of the weights \(0.2 instead of 2\)"):
        search(make_network(), make_problem(loss=NaNFrom(1, float("nan"))), settings, tmp_path / "run", progress=Silent())


class _BadGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        return gradient * float("nan")


def test_a_gradient_that_is_not_finite_stops_before_it_reaches_the_weights(tmp_path: Path) -> None:
    network = make_network()
    problem = make_problem(loss=lambda p, y: nn.functional.cross_entropy(_BadGradient.apply(p), y))
    with pytest.raises(Diverged, match="gradient of the weights that is nan in epoch 1, step 1"):
        search(network, problem, SETTINGS, tmp_path / "run", progress=Silent())
    assert all(torch.isfinite(p).all() for p in network.parameters())


def test_a_full_disk_is_told_and_the_checkpoint_before_is_intact_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, written = tmp_path / "run", []
    real = search_files._write

    def fills_up(file, data: bytes) -> None:
        written.append(file.name)
        if len(written) > 14:
            file.write(data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        real(file, data)

    with monkeypatch.context() as patch:
        patch.setattr(search_files, "_write", fills_up)
        with pytest.raises(XDError, match="full disk") as stopped:
            search(make_network(), make_problem(), SETTINGS, out, progress=Silent())
    assert "what was written before is intact" in str(stopped.value)
    assert not list(out.rglob("*.tmp"))
    kept = newest(out / "checkpoints")
    assert kept is not None
    assert 0 < kept.facts["position"]["epoch"] < 4
    result = search(make_network(), make_problem(), SETTINGS, out, resume=True, progress=Silent())
    whole = search(make_network(), make_problem(), SETTINGS, tmp_path / "whole", progress=Silent())
    assert [r.train_loss for r in result.history] == [r.train_loss for r in whole.history]


@pytest.mark.parametrize("suffix", ["json", "safetensors"])
@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing"])
def test_a_damaged_checkpoint_is_noticed_and_the_one_before_taken(tmp_path: Path, suffix: str, damage: str) -> None:
    search(make_network(), make_problem(), dataclasses.replace(SETTINGS, epochs=2), tmp_path, progress=Silent())
    folder = tmp_path / "checkpoints"
    last = max(folder.glob(f"last-*.{suffix}"))
    data = last.read_bytes()
    if damage == "missing":
        last.unlink()
    else:
        half = len(data) // 2
        last.write_bytes(data[:half] if damage == "truncated" else data[:half] + bytes([data[half] ^ 1]) + data[half + 1 :])
        with pytest.raises(XDError, match="does not verify"):
            load_checkpoint(last)
    before = newest(folder)
    assert before is not None
    assert before.facts["position"]["epoch"] == 1
    load_weights(tmp_path, make_network())


def test_two_generations_and_the_best_weights_are_kept(tmp_path: Path) -> None:
    result = search(make_network(), make_problem(), SETTINGS, tmp_path, progress=Silent())
    names = {p.stem for p in (tmp_path / "checkpoints").iterdir()}
    assert sum(n.startswith("last-") for n in names) == 2
    assert Path(result.best_checkpoint).stem in names
    assert sum(n.startswith("best-") for n in names) <= 2


def test_tensors_of_every_kind_come_back_bit_for_bit(tmp_path: Path) -> None:
    shared = torch.randn(4, 6)
    tensors = {
        "a": shared, "view": shared.t(), "scalar": torch.tensor(3.5, dtype=torch.float64), "flag": torch.tensor([True, False]),
        "whole": torch.arange(5), "complex": torch.randn(3, 2, dtype=torch.complex128), "half": torch.randn(3).bfloat16(),
        "empty": torch.zeros(0, 3), "odd": torch.tensor([float("inf"), -0.0]),
    }  # fmt: skip
    path = save_checkpoint(tmp_path, "name", tensors, {"number": 0.1})
    loaded = load_checkpoint(path)
    assert loaded.facts == {"number": 0.1}
    for name, tensor in tensors.items():
        assert loaded.tensors[name].dtype == tensor.dtype
        assert torch.equal(loaded.tensors[name], tensor)


def test_weights_of_another_network_are_refused_by_name(tmp_path: Path) -> None:
    search(make_network(), make_problem(), dataclasses.replace(SETTINGS, epochs=1), tmp_path, progress=Silent())
    with pytest.raises(XDError, match=r"another network: 0\.K"):
        load_weights(tmp_path, make_network(searched=False))
    with pytest.raises(XDError, match="does not exist"):
        load_weights(tmp_path / "nowhere", make_network())
    (tmp_path / "empty").mkdir()
    with pytest.raises(XDError, match="no checkpoint"):
        load_weights(tmp_path / "empty", make_network())


def test_an_out_that_cannot_be_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(XDError, match="could not be written"):
        search(make_network(), make_problem(), SETTINGS, tmp_path / "file" / "run", progress=Silent())


def test_settings_and_data_that_make_no_sense_are_refused() -> None:
    with pytest.raises(XDError, match="epochs=0"):
        dataclasses.replace(SETTINGS, epochs=0)
    with pytest.raises(XDError, match="lr=nan"):
        OptimizerSettings("sgd", float("nan"))
    with pytest.raises(XDError, match="whole number"):
        dataclasses.replace(SETTINGS, batch_size=2.5)
    with pytest.raises(XDError, match="'sgd', 'adam', 'adamw' or 'rmsprop'"):
        OptimizerSettings("lion", 0.1)
    with pytest.raises(XDError, match="as many targets"):
        type(make_split(3, 0))(torch.zeros(3, 1), torch.zeros(4))
    with pytest.raises(XDError, match="betas"):
        OptimizerSettings("adam", 0.1, momentum=0.9)


def test_a_double_network_needs_double_precision(tmp_path: Path) -> None:
    with pytest.raises(XDError, match="64-true"):
        search(make_network().double(), make_problem(), SETTINGS, tmp_path / "run", progress=Silent())
    assert not (tmp_path / "run").exists()


def test_a_folder_in_the_place_of_an_older_generation_stops_nothing(tmp_path: Path) -> None:
    for name in ("last-000000.json", "best-000001.safetensors"):
        (tmp_path / name).mkdir()
    for _ in range(3):
        save_generation(tmp_path, {"a": torch.zeros(1)}, {"best": None})
    assert (tmp_path / "best-000001.safetensors").is_dir()
    assert newest(tmp_path) is not None


def test_a_network_without_values_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(XDError, match="weight on the meta device, without values"):
        search(make_network().to("meta"), make_problem(), SETTINGS, tmp_path / "run", progress=Silent())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("best", ["seven", [1], {"a": 1}, 1.5])
def test_an_older_generation_that_is_damaged_does_not_stop_the_next_one(tmp_path: Path, best: object) -> None:
    for name in ("last-000001.json", "last-000002.json"):
        (tmp_path / name).write_text(json.dumps({"facts": {"best": best}}))
    save_generation(tmp_path, {"a": torch.zeros(1)}, {"best": None})
    assert newest(tmp_path) is not None


def fails(*arguments: object) -> Tensor:
    raise KeyError("no such thing")


@pytest.mark.parametrize(
    ("network", "problem"),
    [
        (nn.Linear(5, 3), make_problem()),  # signals have 12 points
        (make_network(), make_problem(loss=fails)),
        (make_network(), make_problem(metric=Metric("broken", fails, True))),
    ],
    ids=["network", "loss", "metric"],
)
@pytest.mark.parametrize("resume", [False, True])
def test_what_fails_in_the_first_epoch_leaves_nothing_in_the_way(tmp_path: Path, network, problem, resume: bool) -> None:
    out, settings = tmp_path / "new" / "run", dataclasses.replace(SETTINGS, epochs=1)
    with pytest.raises((RuntimeError, KeyError)):
        search(network, problem, settings, out, resume=resume, progress=Silent())
    assert not (tmp_path / "new").exists()
    search(make_network(), make_problem(), settings, out, progress=Silent())


def test_what_fails_first_leaves_other_files_alone(tmp_path: Path) -> None:
    (tmp_path / "tensorboard").mkdir()
    for name in ("notes.txt", "tensorboard/mine"):
        (tmp_path / name).write_text("mine")
    with pytest.raises(KeyError):
        search(make_network(), make_problem(loss=fails), SETTINGS, tmp_path, progress=Silent())
    assert {path.name for path in tmp_path.iterdir()} == {"notes.txt", "tensorboard"}
    assert (tmp_path / "tensorboard" / "mine").exists()


def test_what_fails_later_keeps_the_epochs_before(tmp_path: Path) -> None:
    calls = []

    def later(prediction: Tensor, y: Tensor) -> Tensor:
        calls.append(1)
        return fails() if len(calls) == 9 else nn.functional.cross_entropy(prediction, y)

    with pytest.raises(KeyError):
        search(make_network(), make_problem(loss=later), SETTINGS, tmp_path / "run", progress=Silent())
    kept = newest(tmp_path / "run" / "checkpoints")
    assert kept is not None
    assert kept.facts["position"]["epoch"] == 1


@pytest.mark.parametrize("name", ["metrics.jsonl", "scores.json", "result.json"])
def test_a_file_that_a_run_would_overwrite_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(XDError, match=f"holds {name} but no run.json"):
        search(make_network(), make_problem(), SETTINGS, tmp_path, progress=Silent())
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_file_that_could_not_be_written_in_the_end_is_refused_in_the_beginning(tmp_path: Path) -> None:
    settings = dataclasses.replace(SETTINGS, epochs=1)
    search(make_network(), make_problem(), settings, tmp_path, progress=Silent())
    (tmp_path / "result.json").unlink()
    (tmp_path / "result.json").symlink_to("result.json")
    before = {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*") if not path.is_dir()}
    with pytest.raises(XDError, match=r"result.json, which could not be written"):
        search(make_network(), make_problem(), settings, tmp_path, resume=True, progress=Silent())
    assert {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*") if not path.is_dir()} == before
