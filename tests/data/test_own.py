"""Users' arrays are understood, split, scaled and checked."""

import json
import pickle

import numpy as np
import pytest
import torch

from xdops.data.layout import guess_layout
from xdops.data.own import DataSettings, task_from_arrays
from xdops.data.split import split_indices
from xdops.data.task import Reading
from xdops.errors import XDError
from xdops.search import Batch, MeanMetric

RNG = np.random.default_rng(0)


def measured(metric: MeanMetric, prediction: torch.Tensor, y: torch.Tensor) -> float:
    """The metric of all examples in one batch."""
    total, count = metric.function(prediction, Batch(prediction, y))
    return metric.of(float(total), count)


def make(x: np.ndarray, y: np.ndarray, **settings):
    return task_from_arrays({"all": (x, y)}, "test", DataSettings(**settings))


@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ((100, 187), "NL"),
        ((100, 12, 1000), "NCL"),
        ((100, 1, 64), "NCL"),
        ((100, 1000, 12), "NLC"),
        ((100, 28, 28), "NHW"),
        ((100, 40, 60), "NHW"),
        ((100, 3, 32, 32), "NCHW"),
        ((100, 1, 8, 8), "NCHW"),
        ((100, 32, 32, 3), "NHWC"),
        ((100, 57, 256, 256), "NCHW"),
        ((100, 16, 20, 16), "NDHW"),
        ((100, 1, 16, 16, 16), "NCDHW"),
        ((100, 16, 16, 16, 2), "NDHWC"),
    ],
)
def test_layouts_are_guessed_as_a_person_would(shape: tuple[int, ...], layout: str) -> None:
    assert guess_layout(shape) == layout


@pytest.mark.parametrize(
    ("x_shape", "y", "kind", "outputs"),
    [
        ((40, 16), RNG.integers(0, 3, 40), "classification", 3),
        ((40, 16), RNG.integers(0, 2, (40, 1)).astype(np.uint8), "classification", 2),
        ((40, 16), np.array(["a", "b"] * 20), "classification", 2),
        ((40, 16), np.array([True, False] * 20), "classification", 2),
        ((40, 16), RNG.normal(size=40), "regression", 1),
        ((40, 16), RNG.normal(size=(40, 4)), "regression", 4),
        ((40, 16), RNG.normal(size=(40, 16)), "dense", 1),
        ((40, 2, 16), RNG.normal(size=(40, 3, 16)), "dense", 3),
        ((40, 9, 8), RNG.normal(size=(40, 9, 8)), "dense", 1),
        ((40, 9, 8, 3), RNG.normal(size=(40, 9, 8, 2)), "dense", 2),
        ((40, 9, 8, 3), RNG.normal(size=(40, 9, 8)), "dense", 1),
    ],
)
def test_the_kind_of_task_is_detected_from_the_targets(x_shape, y, kind: str, outputs: int) -> None:
    task = make(RNG.normal(size=x_shape), y)
    assert (task.kind, task.request.outputs) == (kind, outputs)
    assert any(f"{kind}" in note and "--kind overrules" in note for note in task.notes)


def test_matlab_labels_as_a_row_of_doubles_are_classes_when_asked_for() -> None:
    x, y = RNG.normal(size=(40, 16)), RNG.integers(1, 4, (1, 40)).astype(float)
    assert make(x, y).kind == "regression"
    assert "if they are classes, say --kind classification" in make(x, y).notes[-1]
    assert make(x, y, kind="classification").reading.classes == (1, 2, 3)


def test_channels_last_inputs_and_grids_are_turned_alike() -> None:
    x = RNG.normal(size=(40, 9, 8, 3)).astype(np.float32)
    task = make(x, x[..., :2])
    assert task.request.input_shape == (3, 9, 8)
    inputs = task.reading.x_scaling.undo(task.problem.train.x)
    torch.testing.assert_close(inputs[:, :2], task.problem.train.y, rtol=1e-4, atol=1e-5)


def test_splits_are_seeded_disjoint_complete_and_keep_every_class_in_proportion() -> None:
    labels = np.repeat([0, 1, 2, 3], [100, 40, 20, 1])
    parts = split_indices(labels, (0.7, 0.15, 0.15), seed=5)
    assert sorted(np.concatenate(parts).tolist()) == list(range(161))
    assert [np.bincount(labels[p], minlength=4).tolist() for p in parts] == [[70, 28, 14, 1], [15, 6, 3, 0], [15, 6, 3, 0]]
    again, other = split_indices(labels, (0.7, 0.15, 0.15), seed=5), split_indices(labels, (0.7, 0.15, 0.15), seed=6)
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(parts, other, strict=True))


def test_scaling_comes_from_the_training_part_alone_and_is_undone_exactly() -> None:
    parts = {
        part: (RNG.normal(7 * i, 1 + i, size=(30, 2, 32)), RNG.normal(5 * i, 2, size=(30, 2)))
        for i, part in enumerate(("train", "val", "test"))
    }
    task = task_from_arrays(parts, "test", DataSettings())
    problem, reading = task.problem, task.reading
    torch.testing.assert_close(problem.train.x.mean((0, 2)), torch.zeros(2), atol=1e-5, rtol=0)
    torch.testing.assert_close(problem.train.x.std((0, 2), correction=0), torch.ones(2), atol=1e-4, rtol=0)
    assert problem.test.x.mean() > 5  # far from the training part, and left so
    y = parts["test"][1].astype(np.float32)
    torch.testing.assert_close(reading.y_scaling.undo(torch.from_numpy(reading.y_scaling.apply(y))), torch.from_numpy(y))


def test_a_constant_channel_is_centred_and_does_not_divide_by_zero() -> None:
    x = RNG.normal(size=(40, 2, 32))
    x[:, 1] = 3.0
    task = make(x, RNG.normal(size=40))
    assert torch.isfinite(task.problem.train.x).all()
    assert task.problem.train.x[:, 1].abs().max() == 0


def test_numbers_whose_squares_vanish_are_scaled_like_others() -> None:
    x = RNG.normal(size=(40, 2, 32))
    x[:, 1] *= 1e-200
    inputs = make(x, RNG.normal(size=40)).problem.train.x
    torch.testing.assert_close(inputs.std((0, 2), correction=0), torch.ones(2), atol=1e-4, rtol=0)


def test_targets_are_judged_by_their_training_part_where_digits_are_few() -> None:
    y = 1e4 + RNG.normal(size=60)
    parts = {part: (RNG.normal(size=(20, 32)), y[20 * i : 20 * i + 20]) for i, part in enumerate(("train", "val", "test"))}
    parts["test"] = (parts["test"][0], np.full(20, 1e4) + 1e-9 * np.arange(20))  # these alone, single precision does not tell
    assert task_from_arrays(parts, "test", DataSettings()).kind == "regression"


def test_the_regression_metric_is_in_the_units_of_the_data() -> None:
    task = make(RNG.normal(size=(40, 16)), RNG.normal(100, 20, size=40))
    y = task.problem.test.y
    off_by_two = torch.from_numpy(task.reading.y_scaling.apply((y + 2).numpy()))
    assert measured(task.problem.metric, off_by_two, y) == pytest.approx(2, rel=1e-4)


def test_the_dense_metric_is_the_mean_relative_error_and_survives_targets_of_zero() -> None:
    y = RNG.normal(size=(40, 16)).astype(np.float32)
    y[:20] = 0
    task = make(RNG.normal(size=(40, 16)), y)
    target = torch.tensor([[[3.0, 4.0] + [0.0] * 14]])
    prediction = torch.from_numpy(task.reading.y_scaling.apply(target.numpy() * 1.1))
    assert measured(task.problem.metric, prediction, target) == pytest.approx(0.1, rel=1e-3)
    assert np.isfinite(measured(task.problem.metric, torch.zeros_like(task.problem.train.y), task.problem.train.y))


def test_validation_is_taken_from_training_where_only_training_and_test_are_given() -> None:
    arrays = {p: (RNG.normal(size=(n, 16)), RNG.integers(0, 2, n)) for p, n in (("train", 85), ("test", 20))}
    problem = task_from_arrays(arrays, "test", DataSettings()).problem
    assert (len(problem.train), len(problem.validation), len(problem.test)) == (70, 15, 20)


def test_how_arrays_are_read_survives_json() -> None:
    for y in (np.array(["a", "b"] * 20), RNG.normal(size=(40, 3)), RNG.normal(size=(40, 16))):
        reading = make(RNG.normal(size=(40, 16)), y).reading
        assert Reading.from_dict(json.loads(json.dumps(reading.to_dict()))) == reading


def test_losses_and_metrics_can_be_sent_to_other_processes() -> None:
    for y in (RNG.integers(0, 2, 40), RNG.normal(size=(40, 3)), RNG.normal(size=(40, 16))):
        problem = make(RNG.normal(size=(40, 16)), y).problem
        loss, metric = pickle.loads(pickle.dumps((problem.loss, problem.metric)))
        prediction = torch.randn(len(problem.test), *((2,) if y.ndim == 1 else problem.test.y.shape[1:]))
        assert loss(prediction, problem.test.y) == problem.loss(prediction, problem.test.y)
        assert measured(metric, prediction, problem.test.y) == measured(problem.metric, prediction, problem.test.y)


def test_complex_inputs_are_refused_with_what_to_do() -> None:
    with pytest.raises(XDError, match="real and imaginary parts as channels"):
        make(RNG.normal(size=(40, 16)) + 1j, RNG.normal(size=40))


def test_a_layout_that_does_not_fit_is_refused_with_those_that_do() -> None:
    with pytest.raises(XDError, match=r"NCHW for x of shape \(40, 9, 8\).*NCL, NLC, NHW"):
        make(RNG.normal(size=(40, 9, 8)), RNG.normal(size=40), layout="NCHW")
