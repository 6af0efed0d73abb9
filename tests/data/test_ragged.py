"""Sequences of different lengths from a user's file: what is understood, and what is refused."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import torch

from xdops.cli.main import main
from xdops.data.own import DataSettings, load_task
from xdops.data.ragged import separate_inputs
from xdops.errors import XDError

LENGTHS = np.array([5, 3, 8, 4, 6, 7, 3, 9, 5, 4, 6, 8])


def write(path: Path, **changes) -> Path:
    rng = np.random.default_rng(0)
    arrays = {"x": (rng.random((LENGTHS.sum(), 3)) < 0.3).astype(np.uint8), "length": LENGTHS} | changes
    arrays = {name: array for name, array in arrays.items() if array is not None}
    if path.suffix == ".mat":
        scipy.io.savemat(path, arrays)
    else:
        np.savez(path, **arrays)
    return path


@pytest.mark.parametrize("ending", [".npz", ".mat"])
def test_zeros_and_ones_without_labels_are_predicted_step_by_step(tmp_path, ending):
    task = load_task(write(tmp_path / f"d{ending}"), DataSettings())
    assert task.kind == "next-step"
    assert any("the next step, zeros and ones (detected; --kind overrules)" in note for note in task.notes)
    assert (len(task.problem.train), len(task.problem.validation), len(task.problem.test)) == (8, 2, 2)
    batch = task.problem.train.batch(torch.tensor([0, 1]))
    assert torch.equal(batch.x[0, :, 1], batch.y[0, 0])
    given, y = batch.counted(torch.zeros(2, 3, batch.x.shape[2]))
    assert float(task.problem.loss(given, y)) == pytest.approx(3 * np.log(2), rel=1e-5)  # a coin for each of three notes


def test_numbers_are_scaled_by_the_training_part_and_judged_in_their_deviations(tmp_path):
    x = np.random.default_rng(0).normal(5, 3, LENGTHS.sum())
    task = load_task(write(tmp_path / "d.npz", x=x), DataSettings())
    assert task.reading.request.in_channels == 1
    assert task.reading.y_scaling is not None
    train = task.problem.train
    assert abs(float(train.x.mean())) < 0.2
    total, steps = task.problem.metric.function(torch.zeros(8, 1, 8), train.batch(torch.arange(8)))
    assert task.problem.metric.of(float(total), steps) == pytest.approx(1, abs=0.2)


def test_labels_count_at_the_last_step(tmp_path):
    y = np.array(["left", "right"] * 6)
    task = load_task(write(tmp_path / "d.npz", y=y), DataSettings())
    assert task.kind == "sequence-class"
    assert task.reading.classes == ("left", "right")
    train = task.problem.train
    batch = train.batch(torch.arange(len(train)))
    assert batch.mask.sum(1).tolist() == [1] * len(train)
    assert [int(m.nonzero()[0]) + 1 for m in batch.mask] == list(train.lengths)
    assert load_task(tmp_path / "d.npz", DataSettings(kind="next-step")).kind == "next-step"


def test_a_single_channel_from_matlab_is_a_row_that_is_read_as_one(tmp_path):
    x = np.random.default_rng(0).random(LENGTHS.sum())
    flat, row = (load_task(write(tmp_path / name, x=x), DataSettings()) for name in ("d.npz", "d.mat"))
    assert row.reading.request == flat.reading.request
    assert torch.equal(row.problem.train.x, flat.problem.train.x)
    inputs = separate_inputs(flat.reading, x[None], LENGTHS, "x")
    assert [part.shape for part in inputs] == [(1, 1, length) for length in LENGTHS]
    assert torch.equal(torch.cat(inputs, dim=2), torch.cat(separate_inputs(flat.reading, x, LENGTHS, "x"), dim=2))


@pytest.mark.parametrize(
    ("changes", "settings", "message"),
    [
        ({"length": LENGTHS - 1}, {}, "add up to 56"),
        ({"length": np.append(LENGTHS, 0)}, {}, "sequence 12 of length 0"),
        ({"length": LENGTHS + 0.5}, {}, "length with 5.5 for sequence 0; expected one whole number per sequence"),
        (
            {"x": None, "length": None, "x_test": np.arange(68), "length_test": LENGTHS},
            {},
            "parts test; expected length_train and length_test",
        ),
        ({"length": None}, {}, "'x' and 'length', sequences one after the other"),
        ({"length": np.append(LENGTHS[:-1], (7, 1))}, {}, "sequence 12 of x, 1 step long"),
        ({"x": np.full((LENGTHS.sum(), 3), np.nan)}, {}, f"in {LENGTHS.sum()} of {LENGTHS.sum()} steps"),
        ({"x": np.zeros((LENGTHS.sum(), 3, 2))}, {}, r"\(steps, channels\)"),
        ({"y": np.arange(11)}, {}, r"y of shape \(11,\) for 12 sequences"),
        ({"y": np.zeros(LENGTHS.sum())}, {}, r"y of shape \(68,\) for 12 sequences.*--kind next-step"),
        ({"y": np.linspace(0, 1, 12)}, {}, "y with fractions, as classes; expected whole numbers; try: --kind next-step"),
        ({"y": np.int64(1)}, {}, "one class per example"),
        (
            {"y": np.zeros(12, int)},
            {},
            "at least two classes; try: --y-name, or --kind next-step",
        ),
        ({}, {"kind": "regression"}, "--kind regression for sequences of different lengths"),
        ({}, {"kind": "sequence-class"}, "array 'y'"),
        ({"x": np.zeros((8, 2)), "length": np.array([4, 4])}, {}, "2 sequences; expected at least 10; try: more data, or long"),
        ({"x": np.arange(LENGTHS.sum()) * 1e199}, {}, "values up to 6.7e+200"),
        ({"x": np.full(LENGTHS.sum(), 3.0)}, {}, "all the same"),
        ({"length": np.append(LENGTHS[1:], np.inf)}, {}, "one whole number per sequence"),
        ({"length": np.int64(68)}, {}, "one whole number per sequence"),
        ({"length_train": LENGTHS}, {}, "with both 'length' and 'length_train'"),
        ({"length": None, "y": np.zeros(68)}, {"kind": "next-step"}, "no array 'length'"),
    ],
)
def test_sequences_that_make_no_sense_are_refused(tmp_path, changes, settings, message):
    path = write(tmp_path / "d.npz", **changes)
    with pytest.raises(XDError, match=re.escape(message) if "(" not in message else message):
        load_task(path, DataSettings(**settings))


def test_the_command_says_so_in_one_line_and_exits_with_2(tmp_path, capsys):
    path = write(tmp_path / "d.npz", length=LENGTHS - 1)
    assert main(["search", str(path), "--out", str(tmp_path / "out")]) == 2
    assert "add up to 56" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


#: For `predict`, and a word of the complaint.
BAD_INPUTS = (
    ({"length": LENGTHS - 1}, "add up to 56"),
    ({"length": LENGTHS + 0.5}, "one whole number per sequence"),
    ({"length": np.append(LENGTHS[1:], np.inf)}, "one whole number per sequence"),
    ({"length": np.array(["five"] * 12)}, "one whole number per sequence"),
    ({"length": np.int64(68)}, "one whole number per sequence"),
    ({"length": None}, "no array 'length'"),
    ({"x": np.zeros((LENGTHS.sum(), 1, 3))}, "(steps, channels)"),
    ({"x": np.zeros((LENGTHS.sum(), 2))}, "with 2 channels"),
    ({"x": np.full((LENGTHS.sum(), 3), 1e60)}, "too large when scaled"),
)


def test_predictions_are_counted_by_sequence_where_each_has_one_label(tmp_path, capsys):
    path = write(tmp_path / "d.npz", y=np.arange(12) % 2)
    arguments = ["--spaces", "backbone", "--seeds", "1", "--epochs", "1", "-q"]
    assert main(["search", str(path), *arguments, "--out", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    assert main(["predict", str(tmp_path / "out"), str(path), "-o", str(tmp_path / "p.npz")]) == 0
    assert capsys.readouterr().out.startswith("12 predictions by backbone")


def test_a_search_over_sequences_runs_and_says_what_it_predicts(tmp_path, capsys):
    path = write(tmp_path / "d.npz")
    arguments = [
        "search",
        str(path),
        "--spaces",
        "backbone,darts,xd",
        "--seeds",
        "1",
        "--epochs",
        "1",
        "-q",
        "--depth",
        "1",
        "1",
        "1",
    ]
    assert main([*arguments, "--out", str(tmp_path / "out")]) == 0
    told = capsys.readouterr().out
    assert "12 sequences of 3 to 9 steps, 3 channels" in told
    assert "loss per step" in told
    assert (tmp_path / "out" / "report.html").exists()
    assert main(["predict", str(tmp_path / "out"), str(path), "-o", str(tmp_path / "p.npz")]) == 0
    with np.load(tmp_path / "p.npz") as found:
        assert found["prediction"].shape == (LENGTHS.sum(), 3)
        assert 0 < found["prediction"].min() < found["prediction"].max() < 1
        assert found["length"].tolist() == LENGTHS.tolist()
    predict = ["predict", str(tmp_path / "out"), "new.npz", "-o", str(tmp_path / "p.npz")]
    for changes, message in BAD_INPUTS:
        predict[2] = str(write(tmp_path / "new.npz", **changes))
        assert main(predict) == 2
        assert message in capsys.readouterr().err
    notes = write(tmp_path / "new.npz", x=None, my_notes=np.ones((LENGTHS.sum(), 3)))
    assert main([*predict[:2], str(notes), *predict[3:], "--x-name", "my_notes"]) == 0


@pytest.mark.parametrize("causal", ["direct", "windows"])
def test_other_ways_to_be_causal_are_chosen_by_name_and_never_see_the_future(tmp_path, capsys, monkeypatch, causal):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "narrow", raising=False)
    Path("narrow.py").write_text(
        "from xdops.backbones.tcn import TCN\ndef build(request):\n    return TCN(request, 1, 2, 4, 0.0)\n"
    )
    write(Path("d.npz"))
    words = f"search d.npz --out out --causal {causal} --spaces xd --seeds 1 --epochs 2 --arch-lr 0.1 -q --depth 1 1 1"
    assert main([*words.split(), "--backbone", "narrow:build"]) == 0
    rng = np.random.default_rng(1)
    whole = (rng.random((9, 3)) < 0.5).astype(np.uint8)
    found = {}
    for steps in (9, 4):
        np.savez("new.npz", x=whole[:steps], length=np.array([steps]))
        assert main(f"predict out new.npz -o {steps}.npz --backbone narrow:build".split()) == 0
        with np.load(f"{steps}.npz") as file:
            found[steps] = file["prediction"]
    np.testing.assert_allclose(found[4], found[9][:4], rtol=1e-5)
    assert len({row.tobytes() for row in found[9]}) == 9
    for longer in (10, 99):  # 9 is the longest of the search
        np.savez("new.npz", x=np.zeros((3 + longer, 3), np.uint8), length=np.array([3, longer]))
        capsys.readouterr()
        code = main(["predict", "out", "new.npz", "-o", "long.npz", "--backbone", "narrow:build"])
        assert code == (2 if causal == "direct" else 0)
        told = capsys.readouterr().err
        said = f"sequence 1 with {longer} steps, for operations of --causal direct; expected at most 9 steps"
        assert (said in told and f"a sequence of {longer} steps, or one with --causal filters" in told) == (causal == "direct")


@pytest.mark.filterwarnings("ignore:xdops converted nothing")
def test_a_space_that_can_search_no_layer_is_named_with_the_reason(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "normed", raising=False)
    Path("normed.py").write_text(
        "from xdops.backbones.tcn import TCN\ndef build(request):\n    return TCN(request, 1, 2, 4, 0.0)\n"
    )
    write(Path("d.npz"))
    words = "search d.npz --out out --spaces xd,darts --seeds 1 --epochs 1 -q --depth 1 1 1 --backbone normed:build"
    assert main(words.split()) == 2
    told = capsys.readouterr().err
    assert "in which darts can search no layer: levels.0.conv1, its weight is shared or computed" in told
    assert "--spaces without darts" in told
    assert not Path("out").exists()


def test_sequences_of_one_length_are_described_by_it(tmp_path):
    path = write(tmp_path / "d.npz", x=np.arange(24.0).reshape(12, 2), length=np.ones(12, int), y=np.arange(12) % 2)
    assert load_task(path, DataSettings()).notes[0] == "12 sequences of 1 step, 2 channels"
