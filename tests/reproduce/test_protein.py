"""The protein experiments: fixed folds, the loss, the networks, and a whole table on tiny proteins."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from xdops.data.proteins import load_domains
from xdops.errors import XDError
from xdops.report.distance_maps import draw_distance_maps
from xdops.report.paired import paired_rows
from xdops.report.result_page import write_page
from xdops.reproduce.candidates import Tried
from xdops.reproduce.protein import DILATED, METHODS, PRESETS, RESNET, XD, build_network, domain_parts, log_cosh, problem
from xdops.reproduce.protein.presets import Architecture
from xdops.reproduce.protein.problem import FOLDS, fixed_folds
from xdops.reproduce.reproduction import Reproduction
from xdops.reproduce.tables import Context, find_table
from xdops.reproduce.tables.protein import load_parts, rows
from xdops.search import OptimizerSettings, Silent


def write_domains(root: Path, count: int) -> None:
    """Chains that fold back on themselves, so that their ends are in contact; features tell how near two residues are."""
    rng = np.random.default_rng(0)
    arrays = {}
    for i in range(count):
        length = 28 + i
        turn = 2 * np.pi * np.arange(length) / (length + 1)
        places = 12 * np.stack([np.cos(turn), np.sin(turn), 0 * turn], axis=1) + 0.2 * rng.normal(size=(length, 3))
        cb = np.linalg.norm(places[:, None] - places[None], axis=-1)
        pair = dict.fromkeys(("mfdca", "freecon", "potential"), 1 / (1 + cb))
        one = {"seq": np.array("A" * length), "cb": cb, "pssm": rng.normal(size=(length, 22)), "entropy": rng.normal(size=length)}
        arrays |= {f"{i:02d}_A/{key}": value for key, value in (one | pair).items()}
    np.savez(root / "kortemme40_features.npz", **arrays)


@pytest.fixture
def domains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_domains(tmp_path, 10)
    monkeypatch.setattr(problem, "DOMAINS", 10)
    load_parts.cache_clear()
    return tmp_path


def test_every_protein_is_tested_once_and_never_trained_on_in_its_fold(domains: Path) -> None:
    parts = [domain_parts(domains, fold) for fold in range(FOLDS)]
    tested = [p.id for part in parts for p in part.test]
    assert sorted(tested) == sorted(p.id for p in load_domains(domains))
    for part in parts:
        ids = [p.id for group in (part.train, part.validation, part.test) for p in group]
        assert len(set(ids)) == len(ids)
        assert len(part.train) == 6


def test_a_part_of_the_domains_is_refused_since_folds_would_be_others(domains: Path) -> None:
    write_domains(domains, 9)
    with pytest.raises(XDError, match="9 domains; expected 10"):
        domain_parts(domains, 0)


def test_a_list_that_leaves_nothing_to_train_on_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problem, "load_pdnet", lambda data_dir, name: [None] * problem.VALIDATION)
    with pytest.raises(XDError, match=r"100 proteins in deepcov.lst; expected more than 100"):
        problem.pdnet_parts(None)


def test_folds_do_not_depend_on_the_order_of_the_proteins_and_hold_all_lengths(domains: Path) -> None:
    proteins = load_domains(domains)
    folds, again = fixed_folds(proteins), fixed_folds(proteins[::-1])
    assert [[p.id for p in f] for f in folds] == [[p.id for p in f] for f in again]
    assert [[len(p) for p in f] for f in folds] == [[28 + i, 33 + i] for i in range(5)]


def test_the_loss_is_log_cosh_on_distances_clipped_at_16() -> None:
    prediction, distances = torch.tensor([[3.0], [10.0], [15.0]]), torch.tensor([[4.0], [8.5], [40.0]])
    expected = (math.log(math.cosh(1.0)) + math.log(math.cosh(1.5)) + math.log(math.cosh(1.0))) / 3
    assert float(log_cosh(prediction, distances)) == pytest.approx(expected, rel=1e-6)
    assert float(log_cosh(torch.tensor([[500.0]]), torch.tensor([[0.0]]))) == pytest.approx(500 - math.log(2))
    assert float(log_cosh(torch.zeros(0, 1), torch.zeros(0, 1))) == 0


def test_xd_starts_as_the_residual_network_of_the_same_seed() -> None:
    x = torch.randn(1, 57, 20, 20)
    plain, searched = (build_network(method, 6, 20, seed=3).eval() for method in (RESNET, XD))
    torch.testing.assert_close(searched(x), plain(x), rtol=1e-4, atol=1e-5)
    assert sum(p.numel() for p in searched.parameters()) > sum(p.numel() for p in plain.parameters())


def test_the_papers_settings_are_those_of_table_10(tmp_path: Path) -> None:
    found = {(r.method, r.setting["depth"]): r for r in rows(Context("paper", tmp_path)) if r.seeds}
    assert set(found) == {(method, depth) for method in METHODS for depth in (4, 6, 10, 18, 34)}
    search = found[XD, 10].settings["search"]
    assert search["weights"] | {"name": "rmsprop", "lr": 1e-3, "alpha": 0.9, "eps": 1e-7} == search["weights"]
    assert (search["architecture"]["name"], search["architecture"]["momentum"], search["architecture"]["lr"]) == ("sgd", 0.99, 1e-3)
    assert (search["batch_size"], search["warmup"], found[XD, 10].settings["crop"]) == (2, 2, 128)
    assert found[XD, 34].paper == 4.00
    published = {(r.method, r.setting["depth"]): r.paper for r in rows(Context("paper", tmp_path)) if not r.seeds}
    assert published == {(DILATED, 258): 3.5, (f"{DILATED} (Adhikari 2020)", 258): 4.1}


def test_a_whole_table_on_tiny_proteins(domains: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = dataclasses.replace(
        PRESETS["laptop"],
        depths=(4,),
        crop=24,
        epochs=1,
        lr=dict.fromkeys(METHODS, 1e-3),
        tried=Tried(),
        architecture={4: Architecture(OptimizerSettings("adam", 1e-3), 0)},
        seeds=(0, 1),
    )
    monkeypatch.setitem(PRESETS, "laptop", tiny)
    context = Context("laptop", domains)
    reproduction = Reproduction(find_table("protein"), context, tmp_path / "runs", tmp_path / "results", "xdops reproduce protein")
    results = reproduction.run(lambda line: None, Silent)
    lines = {(r["method"], r["metric"]): r for r in results["rows"] if r["seeds"]}
    assert {metric for _, metric in lines} == {"MAE_8", "precision L/5", "precision L/2", "precision L"}
    for method in METHODS:
        main = lines[method, "MAE_8"]
        assert main["seeds"] == [0, 1]
        assert set(main["examples"]) == {f"{i:02d}_A" for i in (0, 5, 1, 6)}
        each = np.mean(list(main["examples"].values()))
        assert main["mean"] == pytest.approx(each, rel=1e-3)
        assert 0 <= lines[method, "precision L"]["mean"] <= 1
    assert lines[RESNET, "MAE_8"]["mean"] == lines[DILATED, "MAE_8"]["mean"]  # one block, of dilation 1
    assert [line[:2] for line in paired_rows(results)] == [
        [f"{XD} - {base}", "proteins 40 domains, depth 4"] for base in (RESNET, DILATED)
    ]
    (picture,) = draw_distance_maps(context, reproduction.home, tmp_path / "docs")
    page = write_page(tmp_path / "results", tmp_path / "docs").read_text()
    assert f"figures/{picture.name}" in page
    assert f"{XD} - {RESNET}" in page


def test_every_row_chooses_among_as_many_step_sizes() -> None:
    preset = PRESETS["laptop"]
    for method in METHODS:
        searched = [own.search(method, 8) for own in preset.candidates(method, 8).values()]
        assert len({s.architecture.lr if method == XD else s.weights.lr for s in searched}) == 3
