"""Music, digits and words as the paper's tables have them, on small data."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import torch
import torch.nn.functional as F

from xdops.backbones.windows import InWindows
from xdops.errors import XDError
from xdops.operations import ShiftInvariantOperation, XDOperation
from xdops.reproduce.sequences import problems
from xdops.reproduce.sequences.networks import build_network
from xdops.reproduce.sequences.presets import JSB, MNIST, NOTTINGHAM, PRESETS, TREEBANK, Preset
from xdops.reproduce.tables import Context, find_table
from xdops.reproduce.tables.sequences import MUSIC, rows
from xdops.search import Silent, search


def piece(steps: int, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).random((steps, 88)) < 0.05).astype(np.uint8)


@pytest.fixture
def music(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cells = {}
    for name, lengths in (("traindata", (9, 5)), ("validdata", (7,)), ("testdata", (6, 12))):
        cells[name] = np.empty((1, len(lengths)), dtype=object)
        for i, steps in enumerate(lengths):
            cells[name][0, i] = piece(steps, i)
    scipy.io.savemat(tmp_path / "JSB_Chorales.mat", cells)
    monkeypatch.setattr("xdops.data.music.PIECES", {JSB: (2, 1, 2)})
    return tmp_path


def small(**changes) -> Preset:
    preset = next(p for p in PRESETS["laptop"] if p.data == JSB)
    return dataclasses.replace(preset, width=6, epochs=2, span=8, window=4, **changes)


def test_targets_are_the_notes_of_the_next_step_and_long_pieces_are_cut():
    sequences = problems.next_steps([piece(9), piece(5, 1)], longest=6)
    assert sequences.lengths == (6, 4)
    assert torch.equal(sequences.x[1:6], sequences.y[:5])
    assert sequences.y[9].tolist() == piece(5, 1)[4].tolist()


def test_the_loss_is_summed_over_notes_and_the_metric_is_per_step(music):
    problem = problems.make_problem(small(), music, 0)
    batch = problem.train.batch(torch.tensor([0, 1]))
    prediction = torch.randn(2, 88, 8)
    total, steps = problem.metric.function(prediction, batch)
    assert steps == 12
    likelihood = torch.distributions.Bernoulli(logits=prediction[0].T).log_prob(batch.y[0]).sum()
    likelihood += torch.distributions.Bernoulli(logits=prediction[1, :, :4].T).log_prob(batch.y[1, :4]).sum()
    assert float(total) == pytest.approx(-float(likelihood), rel=1e-5)
    assert float(problem.loss(*batch.counted(prediction))) == pytest.approx(-float(likelihood), rel=1e-5)


@pytest.mark.parametrize("method", ["undilated TCN XD", "undilated TCN, direct XD", "undilated TCN, windows XD"])
def test_every_way_is_causal_and_starts_as_its_backbone(music, method):
    preset = small()
    problem = problems.make_problem(preset, music, 0)
    network, plain = (build_network(preset, m, problem, 3).eval() for m in (method, "undilated TCN"))
    x = torch.randn(1, 88, 11, requires_grad=True)
    expected = InWindows(plain, preset.window)(x) if "windows" in method else plain(x)
    torch.testing.assert_close(network(x), expected, rtol=1e-4, atol=1e-5)
    kind = ShiftInvariantOperation if method == "undilated TCN XD" else XDOperation
    operations = [m for m in network.modules() if isinstance(m, kind)]
    assert len(operations) == 2 * preset.levels
    with torch.no_grad():
        for op in operations:
            for p in op.arch_parameters():
                p.add_(0.1 * torch.randn_like(p))
    seen = torch.autograd.grad(network(x)[0, :, 6].sum(), x)[0][0].abs().sum(0)
    assert seen[7:].max() == 0
    assert seen[6] > 0


def test_a_piece_longer_than_a_direct_operation_is_refused_with_the_size_to_ask_for(music):
    preset = small()
    network = build_network(preset, "undilated TCN, direct XD", problems.make_problem(preset, music, 0), 0).eval()
    with pytest.raises(XDError, match=r"length 99 .*input_size=99"):
        network(torch.zeros(1, 88, 99))


def test_a_row_searches_music_from_start_to_end(music, tmp_path):
    found = rows(Context("laptop", music), {"laptop": (small(more=()),)})
    [row, *others] = next(r for r in found if r.method == "undilated TCN XD" and r.seeds).candidates.values()
    assert len(others) == 2
    assert (row.report, row.paper) == ("best", 8.07)
    prepared = row.prepare(0)
    result = search(prepared.network, prepared.problem, prepared.settings, tmp_path / "run", progress=Silent())
    assert math.isfinite(result.test_at_best)
    assert not result.higher_is_better


def test_digits_are_averaged_down_and_all_have_the_same_order_of_pixels():
    images = np.random.default_rng(0).integers(0, 256, (3, 28, 28)).astype(np.uint8)
    order = torch.randperm(196)
    split = problems.pixels(images, np.array([1, 2, 3]), 14, order)
    assert split.x.shape == (3, 1, 196)
    first = (images[1, :2, :2].mean() / 255 - 0.1307) / 0.3081
    assert float(split.x[1, 0, order.argsort()[0]]) == pytest.approx(first, rel=1e-4)
    assert float(problems.error_percent(torch.eye(4)[:3], torch.tensor([0, 1, 3]))) == pytest.approx(100 / 3)


def test_every_word_is_predicted_once_from_those_before_it():
    words = torch.arange(100)
    split = problems.word_windows(words, 10)
    assert torch.equal(split.x[:, 10:] + 1, split.y)
    assert split.y.flatten().tolist() == list(range(11, 91))
    assert split.x[0].tolist() == list(range(20))


def test_the_word_metric_is_the_cross_entropy_over_all_words_that_count():
    prediction, y = torch.randn(2, 7, 5), torch.randint(7, (2, 5))
    total, count = problems.word_metric(prediction, problems.Batch(prediction, y))
    assert count == 10
    assert float(total) == pytest.approx(float(F.cross_entropy(prediction, y)) * 10, rel=1e-5)


def test_the_papers_scale_has_the_papers_settings():
    jsb, nottingham, mnist, treebank = PRESETS["paper"]
    assert [p.data for p in PRESETS["paper"]] == [JSB, NOTTINGHAM, MNIST, TREEBANK]
    assert [(p.kernel, p.levels, p.width, p.dropout) for p in PRESETS["paper"]] == [
        (2, 3, 150, 0.5), (6, 4, 150, 0.2), (7, 8, 25, 0.0), (3, 4, 600, 0.5),
    ]  # fmt: skip
    steps = [(p.search("TCN XD").architecture.lr, p.search("TCN XD").warmup) for p in PRESETS["paper"]]
    assert steps == [(2e-4, 25), (2e-3, 0), (2e-4, 0), (2e-6, 0)]  # Table 12
    assert (jsb.clip, jsb.search("TCN").clip_architecture, mnist.depth, treebank.depth) == (0.4, False, (3, 3, 3), (1, 3, 1))
    assert (jsb.epochs, nottingham.epochs, mnist.epochs, treebank.weights.lr) == (100, 100, 20, 4.0)


def test_the_tables_have_the_papers_rows_and_what_others_published():
    for scale in ("paper", "laptop"):
        found = MUSIC.rows(Context(scale))
        assert {r.method for r in found if r.seeds} >= {"TCN", "TCN XD", "undilated TCN", "undilated TCN XD"}
        assert len({r.slug for r in found}) == len(found)
    everything = find_table("sequences").rows(Context("paper"))
    published = {(r.method, r.setting["data"]): r.paper for r in everything if not r.seeds}
    assert published["R-Transformer (Wang et al. 2020)", "Nottingham (loss)"] == 2.37
    assert published["HiPPO-LegS (Gu et al. 2020)", "permuted MNIST (error %)"] == 1.7
    small = [r for r in find_table("sequences").rows(Context("laptop")) if r.seeds and not r.setting["data"].startswith("JSB")]
    assert all(r.paper is None for r in small)  # a part of the data is another task
    assert find_table("music").runs == find_table("sequences").runs


@pytest.mark.parametrize("preset", PRESETS["laptop"], ids=lambda preset: preset.data)
def test_every_row_chooses_among_as_many_candidates_that_differ_in_one_step_size(preset):
    for method in preset.methods():
        searched = [own.search(method) for own in preset.candidates(method).values()]
        assert len({(s.weights.lr, s.architecture.lr) for s in searched}) == 3
        assert len({s.architecture.lr if preset.way_of(method) is None else s.weights.lr for s in searched}) == 1
