"""Every space gets the same points and the same budget, and the choice is made on validation alone."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from search_data import signals

from xdops.cli.main import main
from xdops.errors import XDError
from xdops.experiments.experiment import Experiment
from xdops.experiments.finished import Finished
from xdops.experiments.ranges import Ranges, matter, read_ranges, with_values
from xdops.experiments.tuning import Trial, Tuning, choose, halve
from xdops.report.tuning import step_size_figure
from xdops.search import EpochRecord, MeanMetric, SearchSettings

ACCURACY = MeanMetric("accuracy", lambda prediction, batch: (0.0, 1), True)


def record(epoch: int, value: float, loss: float = 1.0) -> EpochRecord:
    return EpochRecord(epoch, 1.0, loss, value, 0.1, 0.1, 0.0, 1.0)


def test_spaces_try_the_same_points_and_more_trials_add_to_them() -> None:
    points = read_ranges(None).points(16, seed=3)
    assert points[:8] == read_ranges(None).points(8, seed=3)
    assert points != read_ranges(None).points(16, seed=4)
    assert matter(points[0], architecture=False) == {n: points[0][n] for n in ("lr", "weight_decay", "batch_size")}
    for name, (low, high) in read_ranges(None).bounds.items():
        assert all(low <= point[name] <= high for point in points)


def test_points_are_spread_evenly_over_orders_of_magnitude() -> None:
    shares = np.log10([point["lr"] for point in Ranges({"lr": (1e-4, 1.0)}).points(64, seed=0)]) / 4 + 1
    counts = np.histogram(shares, bins=8, range=(0, 1))[0]
    assert counts.min() >= 7
    assert counts.max() <= 9


def test_values_find_their_places() -> None:
    values = {"lr": 0.2, "weight_decay": 0.1, "batch_size": 31.6, "arch_lr": 0.3, "warmup": 0.26}
    found = with_values(SearchSettings(epochs=10), values)
    assert (found.weights.lr, found.weights.weight_decay, found.batch_size) == (0.2, 0.1, 32)
    assert (found.architecture.lr, found.warmup) == (0.3, 3)
    assert with_values(SearchSettings(epochs=10, warmup=2), {"lr": 0.2}).warmup == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rl = [0.1, 1]", "ranges of rl.*some of lr"),
        ("lr = [1.0, 0.1]", "upside down.*lr = .0.1, 1.0"),
        ("batch_size = [1.5, 3.7]", "whole numbers of examples"),
        ("lr = 3", "range lr = 3.*two numbers"),
        ('lr = ["a", "b"]', r"range lr = \['a', 'b'\].*two numbers"),
        ("lr = [0.0, 0.1]", "range lr = .0.0, 0.1.*1e-12"),
        ("batch_size = [0.5, 4]", "numbers from 1 to 1048576;"),
        ("lr = [", "cannot be read"),
        ("", "ranges of nothing"),
    ],
)
def test_a_ranges_file_that_makes_no_sense_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "ranges.toml").write_text(text)
    with pytest.raises(XDError, match=message):
        read_ranges(tmp_path / "ranges.toml")


def test_ranges_may_be_json(tmp_path: Path) -> None:
    (tmp_path / "ranges.json").write_text('{"lr": [0.1, 1]}')
    assert read_ranges(tmp_path / "ranges.json").bounds == {"lr": (0.1, 1)}


def test_halving_trains_the_better_third_further_in_every_space_alike() -> None:
    tuning = Tuning(9, Ranges({"lr": (0.1, 1.0)}))
    asked = []

    def advance(trials, epochs: int) -> list[Trial]:
        asked.append((list(trials), epochs))
        # The larger the number the better, but for trial 8, which looks best at first and blows up later.
        return [
            Trial(n, {}, epochs, None if n == 8 and epochs > 2 else record(epochs, n / 10 + (space == "xd")), 1.0)
            for space, n in trials
        ]

    found = halve(["backbone", "xd"], tuning, 18, ACCURACY, advance)
    assert asked[0] == ([(space, n) for space in ("backbone", "xd") for n in range(9)], 2)
    assert asked[1] == ([(space, n) for space in ("backbone", "xd") for n in (6, 7, 8)], 6)
    assert asked[2] == ([("backbone", 7), ("xd", 7)], 18)
    assert sum(trial.epochs for trial in found["xd"]) == sum(trial.epochs for trial in found["backbone"])
    assert tuning.epochs(18) == 9 * 2 + 3 * 4 + 12
    assert choose("xd", found["xd"], ACCURACY).chosen == 7


def test_whole_trials_are_all_trained_to_the_end() -> None:
    tuning = Tuning(16, read_ranges(None), whole=True)
    assert tuning.rungs(20) == [(16, 20)]
    assert tuning.epochs(20) == 320


def test_the_loss_tells_between_equal_metrics_and_divergence_loses() -> None:
    trials = [Trial(0, {}, 5, record(5, 0.9, 0.3), 1.0), Trial(1, {}, 5, record(5, 0.9, 0.2), 1.0), Trial(2, {}, 5, None, 0.0)]
    assert choose("xd", trials, ACCURACY).chosen == 1
    with pytest.raises(XDError, match="blew up in every trial"):
        choose("xd", trials[2:], ACCURACY)


@pytest.mark.parametrize("high", [0.003, 0.02, 0.082, 0.5, 10.0, 1000.0])
def test_labels_of_step_sizes_do_not_run_into_each_other(high: float) -> None:
    trials = [Trial(i, {"lr": lr, "arch_lr": lr}, 5, record(5, 0.9, 0.3), 1.0) for i, lr in enumerate((0.0012, high))]
    figure = step_size_figure({"xd": choose("xd", trials, ACCURACY)}, "accuracy")
    assert figure is not None
    figure.draw_without_rendering()
    for axes in figure.axes:
        low, top = axes.get_xlim()
        ticks = [*axes.xaxis.get_major_ticks(), *axes.xaxis.get_minor_ticks()]
        labels = [tick.label1 for tick in ticks if tick.label1.get_text() and low <= tick.get_loc() <= top]
        boxes = sorted((label.get_window_extent() for label in labels), key=lambda box: box.x0)
        assert boxes
        assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


FLAGS = ["--seeds", "1", "--epochs", "3", "--depth", "1", "1", "1", "--backbone", "small", "-q", "--spaces", "backbone,xd"]


def test_a_tuned_search_stopped_in_the_middle_goes_on_to_the_same_choice(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("data.npz", **signals())
    words = ["search", "data.npz", *FLAGS, "--trials", "3"]
    assert main([*words, "--out", "whole"]) == 0
    whole = Finished.open(Path("whole"))
    tuned = whole.tuned()
    assert tuned["backbone"].epochs == tuned["xd"].epochs == 3 * 1 + 2
    chosen = tuned["xd"].values
    settings = json.loads((tmp_path / "whole/runs/xd-seed0/run.json").read_text())["settings"]
    assert settings["weights"]["lr"] == chosen["lr"]
    assert settings["architecture"]["lr"] == chosen["arch_lr"]
    assert not list(Path("whole/tuning").rglob("scores.json"))  # no trial has seen the test part
    html = Path("whole/report.html").read_text()
    assert 'alt="validation against step size"' in html
    assert "Nothing was tuned" not in html
    assert "<dt>batch size</dt><dd>as tuned</dd>" in html
    assert "adam, step size as tuned, cosine schedule" in html

    try_one, tried = Experiment.try_one, []

    def stop_at_the_fifth(*arguments):
        tried.append(arguments)
        if len(tried) == 5:
            raise KeyboardInterrupt
        return try_one(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Experiment, "try_one", stop_at_the_fifth)
        assert main([*words, "--out", "stopped"]) == 130
    assert main([*words, "--out", "stopped", "--resume"]) == 0
    again = Finished.open(Path("stopped"))
    assert again.tuned()["xd"].values == chosen
    assert again.result("xd", 0).best_sha256 == whole.result("xd", 0).best_sha256
    capsys.readouterr()
    assert main([*words, "--out", "new", "--lr", "0.1"]) == 2
    assert "--lr with --trials, which tunes it" in " ".join(capsys.readouterr().err.split())
    assert not Path("new").exists()
