"""Learning to solve PDEs: data become problems as published, every network trains, and a table runs from end to end."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from xdops import XDOperation
from xdops.cli.main import main
from xdops.errors import XDError
from xdops.pde import BurgersSettings, NavierStokesSettings
from xdops.pde.darcy import DarcySettings
from xdops.pde.dataset import Settings, dataset
from xdops.reproduce.pde import (
    BURGERS,
    DARCY,
    METHODS,
    NAVIER_STOKES,
    Preset,
    build_network,
    load_functions,
    make_problem,
    request_of,
)
from xdops.reproduce.pde.presets import adam
from xdops.reproduce.tables import Context, find_table
from xdops.search import ScheduleSettings, Silent, search

TINY: dict[str, Settings] = {
    "burgers": BurgersSettings(samples=24, size=32),
    "darcy": DarcySettings(samples=24, size=13),
    "navier-stokes": NavierStokesSettings(samples=12, size=8, solver_size=16, viscosity=1e-3, time=13.0, step=0.05),
}


def tiny(equation: str) -> Preset:
    data = TINY[equation]
    dims = {"burgers": 1, "darcy": 2, "navier-stokes": 3}[equation]
    return Preset(
        data,
        train=data.samples - 4,
        test=4,
        every={32: 1},
        width=6,
        modes=(3, 3, 1)[-dims:],
        kernel=(3, 3, 1)[-dims:],
        epochs=8,
        batch_size=5,
        lr=2e-2,
        architecture=dict.fromkeys(METHODS, adam(1e-3)),
        schedule=ScheduleSettings("cosine"),
        trained_b_and_C=dims == 1,
        scaled=dims > 1,
    )


@pytest.mark.trains
@pytest.mark.parametrize("method", ["CNN", "FNO", "CNN XD", "FNO XD"])
@pytest.mark.parametrize("equation", TINY)
def test_a_tiny_training_reduces_the_error(equation: str, method: str, tmp_path: Path) -> None:
    preset = tiny(equation)
    functions = load_functions(preset.data, preset.train, preset.test, 1, tmp_path)
    problem = make_problem(functions, preset.scaled)
    network = build_network(method, request_of(functions), preset, seed=0)
    with torch.no_grad():
        network.eval()
        before = float(problem.metric.function(network(problem.test.x), problem.test.y))
    result = search(network, problem, preset.search(method), tmp_path / "run", progress=Silent())
    assert result.test_at_last < 0.9 * before
    assert result.history[-1].train_loss < 0.8 * result.history[0].train_loss
    assert (result.architecture > 0) == method.endswith("XD")


@pytest.mark.trains
def test_darts_searches_the_operations_of_the_cnn_in_two_dimensions(tmp_path: Path) -> None:
    preset = tiny("darcy")
    functions = load_functions(preset.data, preset.train, preset.test, 1, tmp_path)
    network = build_network("CNN DARTS", request_of(functions), preset, seed=0)
    result = search(network, make_problem(functions, True), preset.search("CNN DARTS"), tmp_path / "run", progress=Silent())
    assert len(result.novelty) == 4
    assert all(distance > 0 for distance in result.novelty.values())


@pytest.mark.parametrize("equation", TINY)
@pytest.mark.parametrize("backbone", ["CNN", "FNO"])
def test_the_searched_network_starts_as_its_backbone(equation: str, backbone: str) -> None:
    preset = tiny(equation)
    grid = {"burgers": (32,), "darcy": (13, 13), "navier-stokes": (8, 8, 3)}[equation]
    request = request_of_grid(grid)
    x = torch.randn(3, *request.input_shape)
    plain, searched = (build_network(method, request, preset, seed=1).eval() for method in (backbone, f"{backbone} XD"))
    with torch.no_grad():
        torch.testing.assert_close(searched(x), plain(x), rtol=1e-4, atol=1e-5)


def test_operations_as_in_the_reference_are_powers_of_two_and_start_with_zeros_around() -> None:
    preset, request = tiny("darcy"), request_of_grid((13, 13))
    x = torch.randn(2, *request.input_shape)
    plain, searched, padded = (
        build_network(method, request, preset, seed=1).eval() for method in ("CNN", "CNN XD", "CNN XD, powers of two")
    )
    sizes = {op.sizes for op in padded.modules() if isinstance(op, XDOperation)}
    assert sizes == {(16, 16)}
    assert {op.sizes for op in searched.modules() if isinstance(op, XDOperation)} == {(13, 13)}
    assert not torch.allclose(padded(x), plain(x), rtol=1e-2)
    for module in plain.modules():
        if isinstance(module, nn.Conv2d):
            module.padding_mode = "zeros"
    torch.testing.assert_close(padded(x), plain(x), rtol=1e-4, atol=1e-5)


def test_the_papers_own_settings_pad_to_powers_of_two() -> None:
    for preset in (BURGERS["paper"], DARCY["paper"], *NAVIER_STOKES["paper"]):
        assert preset.of("CNN XD").as_reference
    assert BURGERS["laptop"].of("CNN XD, b and C").trained_b_and_C
    assert not BURGERS["laptop"].of("CNN XD").trained_b_and_C


def request_of_grid(grid: tuple[int, ...]):  # type: ignore[no-untyped-def]
    from xdops.backbones.request import Request

    return Request("dense", 1 + len(grid), 1, grid)


def test_inputs_are_the_known_functions_and_the_coordinates(tmp_path: Path) -> None:
    arrays = dataset(TINY["navier-stokes"], tmp_path / "pde")
    functions = load_functions(TINY["navier-stokes"], 8, 4, 2, tmp_path)
    assert functions.grid == (4, 4, 3)
    assert functions.known_train.shape == (8, 10, 4, 4, 3)
    np.testing.assert_array_equal(functions.known_train[3, 7, :, :, 1], arrays["u"][3, ::2, ::2, 7])
    np.testing.assert_array_equal(functions.asked_test[-1, 0], arrays["u"][-1, ::2, ::2, 10:])
    problem = make_problem(functions, scaled=False)
    assert problem.train.x.shape == (8, 13, 4, 4, 3)
    assert problem.train.x[0, 12, 0, 0].tolist() == [0.0, 0.5, 1.0]


def test_scaled_targets_are_undone_before_they_are_compared(tmp_path: Path) -> None:
    functions = load_functions(TINY["darcy"], 20, 4, 1, tmp_path)
    problem = make_problem(functions, scaled=True)
    y = problem.train.y
    perfect = (y - y.mean(dim=0)) / (y.std(dim=0) + 1e-5)
    assert float(problem.loss(perfect, y)) < 1e-4
    mean_only = float(problem.metric.function(torch.zeros_like(y), y))
    expected = ((y - y.mean(dim=0)).flatten(1).norm(dim=1) / y.flatten(1).norm(dim=1)).mean()
    assert mean_only == pytest.approx(float(expected), rel=1e-5)
    assert problem.reduction == "sum"


def test_published_files_are_preferred_where_the_user_has_them(tmp_path: Path) -> None:
    from scipy.io import savemat

    (tmp_path / "pde").mkdir()
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal((5, 8192)).astype(np.float32) for name in ("a", "u")}
    savemat(tmp_path / "pde" / "burgers_data_R10.mat", arrays)
    functions = load_functions(BurgersSettings(), 3, 2, 32, tmp_path)
    np.testing.assert_array_equal(functions.known_train[:, 0], arrays["a"][:3, ::32])
    np.testing.assert_array_equal(functions.asked_test[:, 0], arrays["u"][3:, ::32])


@pytest.mark.parametrize(
    ("train", "test", "every", "message"),
    [(20, 5, 1, "parts that do not overlap"), (20, 4, 5, "a divisor of 12"), (20, 4, 0, "a divisor of 12")],
)
def test_parts_and_resolutions_that_do_not_fit_are_refused(train: int, test: int, every: int, message: str, tmp_path: Path) -> None:
    with pytest.raises(XDError, match=message):
        load_functions(TINY["darcy"], train, test, every, tmp_path)


def test_too_few_frames_are_refused(tmp_path: Path) -> None:
    data = dataclasses.replace(TINY["navier-stokes"], time=10.0)
    with pytest.raises(XDError, match="more than the 10 that are given"):
        load_functions(data, 8, 4, 1, tmp_path)


def test_the_paper_presets_are_the_paper_s() -> None:
    burgers, darcy, fluids = BURGERS["paper"], DARCY["paper"], NAVIER_STOKES["paper"]
    assert [list(p.every) for p in (burgers, darcy)] == [[256, 512, 1024, 2048, 4096, 8192], [85, 106, 141, 211, 421]]
    assert [(p.train, p.test, p.epochs) for p in (burgers, darcy, *fluids)] == [(1000, 100, 500)] * 2 + [(1000, 200, 500)] * 2
    assert burgers.search("CNN XD").architecture.lr == 1e-3
    assert (burgers.search("FNO XD").warmup, burgers.search("FNO XD").architecture.momentum) == (250, 0.5)
    assert darcy.search("CNN XD").architecture == darcy.search("FNO XD").architecture
    assert darcy.search("CNN XD").architecture.lr == 0.1
    assert [p.search("CNN XD").architecture.lr for p in fluids] == [5e-3, 1e-3]
    for preset in (burgers, darcy, *fluids):
        assert preset.search("CNN").schedule.milestones == (0.2, 0.4, 0.6, 0.8)
        assert preset.search("CNN XD").architecture.weight_decay == 1e-4
    figures = {row.slug: row.paper for row in find_table("burgers").rows(Context("paper")) if not row.source}
    assert figures["cnn-xd-resolution-512"] == 0.0079
    assert len(figures) == 24


@pytest.mark.parametrize(("table", "own", "others"), [("burgers", 24, 48), ("darcy", 20, 31), ("navier-stokes", 6, 0)])
@pytest.mark.parametrize("scale", ["laptop", "paper"])
def test_every_row_of_the_papers_table_stands_in_ours_run_or_not(table: str, own: int, others: int, scale: str) -> None:
    rows = find_table(table).rows(Context(scale))
    assert sum(row.paper is not None and not row.source for row in rows) == own
    quoted = [row for row in rows if row.source]
    assert len(quoted) == others
    assert all(row.source == "Li et al. 2021" and not row.seeds for row in quoted)
    assert len({row.slug for row in rows}) == len(rows)


def test_the_papers_figure_stands_beside_its_own_viscosity_time_and_grid_alone() -> None:
    laptop = [row for row in find_table("navier-stokes").rows(Context("laptop")) if row.seeds]
    assert laptop
    assert all(row.paper is None for row in laptop)
    paper = [row for row in find_table("navier-stokes").rows(Context("paper")) if row.seeds]
    assert all(row.paper is not None for row in paper)


def test_a_miniature_of_the_darcy_table_runs_from_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = dataclasses.replace(tiny("darcy"), every={7: 2, 13: 1}, epochs=2, seeds=(0, 1), methods=("CNN", "CNN XD"))
    monkeypatch.setitem(DARCY, "laptop", small)  # type: ignore[arg-type]
    places = {name: str(tmp_path / name) for name in ("out", "results", "docs")}
    arguments = [f"--{key}={value}" for key, value in places.items()]
    assert main(["reproduce", "darcy", f"--data-dir={tmp_path}", "--quiet", *arguments]) == 0
    written = json.loads((tmp_path / "results" / "darcy-laptop.json").read_text())
    rows = {(row["method"], row["setting"]["resolution"]): row for row in written["rows"] if row["planned"]}
    assert set(rows) == {(m, r) for m in ("CNN", "CNN XD") for r in (7, 13)}
    for row in rows.values():
        assert row["seeds"] == [0, 1]
        assert 0 < row["mean"] < 2
    assert "Darcy" in (tmp_path / "docs" / "results.md").read_text()


def test_held_out_samples_are_the_last_ones_of_training_and_the_test_samples_come_from_another_seed(tmp_path):
    data = TINY["burgers"]
    plain, split = (load_functions(data, 8, 4, 1, tmp_path, held_out=held_out) for held_out in (0, 3))
    assert (len(split.known_train), len(split.known_validation), len(split.known_test)) == (5, 3, 4)
    np.testing.assert_array_equal(np.concatenate([split.known_train, split.known_validation]), plain.known_train)
    np.testing.assert_array_equal(plain.known_validation, plain.known_test)
    seen = {row.tobytes() for row in plain.known_train[:, 0]} | {row.tobytes() for row in plain.known_test[:, 0]}
    assert not seen & {row.tobytes() for row in split.known_test[:, 0]}
    problem = make_problem(split, scaled=True)
    assert len(problem.validation) == 3
    assert float(problem.train.x[:, 0].mean(0).abs().max()) < 1e-5  # scaled by what is trained on alone


@pytest.mark.parametrize(
    "preset",
    [BURGERS["laptop"], DARCY["laptop"], *NAVIER_STOKES["laptop"]],
    ids=["burgers", "darcy", "viscous flow", "flow"],
)
def test_every_row_chooses_among_as_many_step_sizes(preset):
    for method in preset.methods:
        searched = [own.search(method) for own in preset.candidates(method).values()]
        tried = {(s.weights.lr, s.architecture.lr if method in preset.architecture else None) for s in searched}
        assert len(tried) == len(searched) == len(preset.tried.weights) > 2


def test_rows_have_four_settings_each_at_every_resolution():
    preset = BURGERS["laptop"]
    sizes = {len(preset.at_resolution(n, method).candidates(method)) for n in preset.every for method in preset.methods}
    assert sizes == {4}


def test_beside_an_architecture_weights_take_step_sizes_that_the_backbone_chooses_among():
    preset = NAVIER_STOKES["laptop"][1]
    backbone, searched = ({own.lr for own in preset.candidates(method).values()} for method in ("CNN", "CNN XD"))
    assert len(searched) == 2
    assert searched < backbone
    assert not searched & {min(backbone), max(backbone)}
