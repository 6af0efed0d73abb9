"""Settings, schedules, batches, seeds and progress by themselves."""

import dataclasses
import io
import json
import signal
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console
from search_support import SETTINGS, accuracy

from xdops.errors import XDError
from xdops.search import Metric, OptimizerSettings, PlainProgress, RichProgress, ScheduleSettings, SearchSettings, signals
from xdops.search.batches import step_count, steps_of_epoch
from xdops.search.loop import beats
from xdops.search.progress import clock
from xdops.search.results import EpochRecord
from xdops.search.schedule import schedule_factor
from xdops.search.seeds import derive_seed

ACCURACY = Metric("accuracy", accuracy, True)
LOSS = Metric("loss", accuracy, False)


def factors(schedule: ScheduleSettings, epochs: int) -> list[float]:
    return [schedule_factor(schedule, epochs, [0.0] * epoch, ACCURACY) for epoch in range(epochs)]


def test_settings_come_back_from_json() -> None:
    settings = dataclasses.replace(
        SETTINGS,
        schedule=ScheduleSettings("step", (0.5, 75), (0.5, 0.2)),
        architecture=OptimizerSettings("adamw", 1e-3, betas=(0.5, 0.9)),
        eval_batch_size=7,
    )
    assert SearchSettings.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings
    with pytest.raises(XDError, match="speed"):
        SearchSettings.from_dict(settings.to_dict() | {"speed": 3})


def test_step_schedules_take_fractions_epochs_and_a_factor_each() -> None:
    assert factors(ScheduleSettings("step", (0.5, 0.75), 0.1), 8) == pytest.approx([1, 1, 1, 1, 0.1, 0.1, 0.01, 0.01])
    assert factors(ScheduleSettings("step", (2, 3), (0.5, 0.2)), 4) == pytest.approx([1, 1, 0.5, 0.1])
    assert factors(ScheduleSettings("constant"), 3) == [1, 1, 1]
    with pytest.raises(XDError, match="one per milestone"):
        ScheduleSettings("step", (0.5,), (0.1, 0.1))


def test_the_cosine_goes_from_one_towards_its_floor() -> None:
    half = 0.5**0.5
    expected = [1, 0.2 + 0.4 * (1 + half), 0.6, 0.2 + 0.4 * (1 - half)]
    assert factors(ScheduleSettings("cosine", floor=0.2), 4) == pytest.approx(expected)


def test_a_plateau_is_an_epoch_worse_than_each_of_the_last_few() -> None:
    schedule = ScheduleSettings("plateau", factor=0.1, patience=3)
    losses = [3.0, 2.0, 2.5, 2.4, 2.6, 2.7, 1.0]
    #                            ^ not worse than 3   ^ worse than 2, 2.5, 2.4   ^ and again
    seen = [schedule_factor(schedule, 10, losses[:i], LOSS) for i in range(len(losses) + 1)]
    assert seen == pytest.approx([1, 1, 1, 1, 1, 0.1, 0.01, 0.01])
    upside_down = [schedule_factor(schedule, 10, [-x for x in losses[:i]], ACCURACY) for i in range(len(losses) + 1)]
    assert upside_down == seen


def test_an_epoch_sees_every_example_once_in_its_own_order() -> None:
    settings = dataclasses.replace(SETTINGS, batch_size=4, accumulate=3)
    steps = steps_of_epoch(37, settings, 0)
    assert [s.examples for s in steps] == [12, 12, 12, 1]
    assert len(steps) == step_count(37, settings)
    order = torch.cat([b for s in steps for b in s.batches])
    assert torch.equal(order.sort().values, torch.arange(37))
    again = torch.cat([b for s in steps_of_epoch(37, settings, 0) for b in s.batches])
    other = torch.cat([b for s in steps_of_epoch(37, settings, 1) for b in s.batches])
    assert torch.equal(order, again)
    assert not torch.equal(order, other)


def test_places_of_a_run_have_seeds_of_their_own() -> None:
    seeds = {derive_seed(seed, "step", epoch, step) for seed in range(5) for epoch in range(20) for step in range(20)}
    assert len(seeds) == 5 * 20 * 20


RECORD = EpochRecord(2, 0.5, 0.6, 0.875, 0.1, 0.01, 0.03, 1.25)


def test_plain_progress_is_a_line_per_epoch() -> None:
    stream = io.StringIO()
    progress = PlainProgress(stream)
    progress.start(4, 3, "accuracy", 1)
    for step in (1, 2, 3):
        progress.step(1, step, 0.5)
    progress.epoch(RECORD, True)
    first, second = stream.getvalue().splitlines()
    assert first == "continuing after epoch 1/4"
    assert second.startswith("epoch 2/4: train loss 0.5, validation loss 0.6, accuracy 0.875 (best), novelty 0.03, 1.2 s, 0:0")
    assert second.endswith("left")


def test_the_bar_shows_epoch_step_loss_and_time_left() -> None:
    stream = io.StringIO()
    progress = RichProgress(Console(file=stream, force_terminal=True, width=120))
    progress.start(4, 3, "accuracy", 0)
    progress.step(0, 1, 0.25)
    progress.step(0, 2, 0.125)
    progress.epoch(RECORD, False)
    progress.finish()
    shown = stream.getvalue()
    for part in ("epoch 1/4, step 2/3", "loss 0.125", "left", "accuracy 0.875"):
        assert part in shown


def test_times_are_written_as_on_a_clock() -> None:
    assert [clock(s) for s in (0, 61, 3723, float("nan"))] == ["0:00", "1:01", "1:02:03", "?"]


def test_of_epochs_with_the_same_metric_the_one_with_the_lower_loss_is_best() -> None:
    def record(metric: float, loss: float) -> EpochRecord:
        return EpochRecord(1, 0.0, loss, metric, 0.1, 0.1, 0.0, 0.0)

    accuracy = Metric("accuracy", lambda prediction, y: prediction.mean(), True)
    assert beats(record(0.9, 0.1), record(0.9, 0.2), accuracy)
    assert not beats(record(0.9, 0.2), record(0.9, 0.2), accuracy)
    assert not beats(record(0.8, 0.1), record(0.9, 0.2), accuracy)
    assert beats(record(0.9, 0.3), record(0.8, 0.2), accuracy)


def test_signals_close_together_are_one_wish_and_a_later_one_quits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal and a launcher both pass Ctrl-C on."""
    times = iter([10.0, 10.3, 10.6])
    monkeypatch.setattr(signals, "time", SimpleNamespace(monotonic=lambda: next(times)))
    request = signals.StopRequest(announce=False, forward=False)
    assert not request.requested
    request.receive(signal.SIGINT, None)
    request.receive(signal.SIGTERM, None)
    assert request.requested
    with pytest.raises(KeyboardInterrupt):
        request.receive(signal.SIGINT, None)
