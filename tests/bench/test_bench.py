"""`xdops bench`: what it measures, writes, and puts on the performance page. Nothing here looks at how long anything took."""

import json
import sys

import pytest
import torch

from xdops.backbones import Request, SmallCNN, operator_cnn, operator_fno
from xdops.bench import layers, networks, sweep
from xdops.bench.counts import causal_counts, conv_flops, counts, training_workload
from xdops.bench.layers import Layer
from xdops.bench.memory import peak_memory
from xdops.bench.summary import TARGETS, geometric_mean, summarise
from xdops.cli.main import main
from xdops.convert import XDConfig
from xdops.report import performance as document

SMALL = (
    Layer("wave", 2, (3, 4), (12,), 9, 4, "circular", modes=3),
    Layer("image", 2, (2, 3), (6, 6), 3, 1),
    Layer("music", 1, (3, 3), (10,), 2, 1, causal=True),
)
PAGE = "before\n" + "".join(f"<!-- measured {n} -->\nold\n<!-- end {n} -->\nbetween\n" for n in document.BLOCKS) + "after\n"


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(layers, "LAYERS", SMALL)
    monkeypatch.setattr(sweep, "BATCH", 2)
    monkeypatch.setattr(sweep, "CHANNELS", {1: 3, 2: 2})
    monkeypatch.setattr(sweep, "SIZES", (8, 16))
    monkeypatch.setattr(sweep, "SIZES_KERNEL", 3)
    monkeypatch.setattr(sweep, "KERNELS_1D", (1, 3))
    monkeypatch.setattr(sweep, "KERNELS_1D_SIZE", 8)
    monkeypatch.setattr(sweep, "KERNELS_2D", (3, 5))
    monkeypatch.setattr(sweep, "KERNELS_2D_SIZE", 6)


@pytest.fixture
def measured(tmp_path, capsys):
    """The JSON files of both measurements."""
    run, swept = tmp_path / "layers.json", tmp_path / "sweep.json"
    assert main(["bench", "layers", "--repetitions", "3", "--no-memory", "--json", str(run)]) == 0
    assert main(["bench", "sweep", "--repetitions", "3", "--json", str(swept)]) == 0
    capsys.readouterr()
    return run, swept


def test_every_layer_is_measured_in_every_way_that_it_allows(measured):
    run = json.loads(measured[0].read_text())
    assert set(run) == {"machine", "repetitions", "rates", "layers", "summary"}
    assert run["repetitions"] == 3
    assert [row["layer"] for row in run["layers"]] == [layer.name for layer in SMALL]
    for row, layer in zip(run["layers"], SMALL, strict=True):
        assert {"conv", "auto", "depth 3", "b and C", "frozen"} <= set(row["training"])
        assert ("fno" in row["training"]) == (layer.modes is not None)
        assert set(row["inference"]) == {"conv", "merged", "not merged"}
        assert row["error"] < 1e-5
        times = {name: timing["seconds"] for name, timing in row["training"].items()}
        forms = set(times) - {"conv", "depth 3", "b and C", "frozen", "fno"}
        assert row["auto_over_best"] == pytest.approx(times["auto"] / min(times[form] for form in forms))
        assert row["depth3_over_depth1"] == pytest.approx(times["depth 3"] / times["auto"])


def test_the_sweep_has_a_point_with_its_plan_for_every_size_and_kernel(measured):
    lines = json.loads(measured[1].read_text())["lines"]
    assert [p["n"] for p in lines["size"]] == [8, 16]
    assert [p["kernel"] for p in lines["kernel 1d"]] == [1, 3]
    assert [(p["kernel"], p["dims"]) for p in lines["kernel 2d"]] == [(3, 2), (5, 2)]
    assert all(p["plan_text"].startswith(p["plan"]) for points in lines.values() for p in points)


def test_only_the_layers_asked_for_are_measured(tmp_path, capsys):
    out = tmp_path / "one.json"
    assert main(["bench", "layers", "--only", "image", "--repetitions", "3", "--no-memory", "--json", str(out)]) == 0
    assert [row["layer"] for row in json.loads(out.read_text())["layers"]] == ["image"]
    assert "training, worst layer" in capsys.readouterr().out


def row(layer, ratio, seconds=1.0, memory=None):
    timing = {"seconds": seconds, "ratio": ratio, "low": ratio, "high": ratio}
    return {
        "layer": layer, "size": [10], "plan": "taps", "training": {"auto": timing, "frozen": timing},
        "depth3_over_depth1": 1.2, "auto_over_best": 1.0, "memory_ratio": memory,
    }  # fmt: skip


def test_the_summary_takes_means_and_worst_layers_and_leaves_out_what_was_not_measured():
    summary = summarise([row("wave", 2.0), row("image", 8.0)])
    assert summary["geometric_mean"] == pytest.approx(4.0) == geometric_mean([2.0, 8.0])
    assert summary["worst"] == 8.0
    assert summary["worst_large_kernel"] == 2.0  # wave alone has kernel 9
    assert summary["worst_memory"] is summary["memory_geometric_mean"] is summary["growth"] is None
    assert not any("memory" in line for line in summary["text"])
    assert summarise([row("wave", 1.0, memory=3.0)])["worst_memory"] == 3.0


def test_growth_compares_time_per_point_of_the_longest_and_the_shortest_layer(monkeypatch):
    monkeypatch.setattr(layers, "LAYERS", tuple(Layer(f"burgers-{n}", 1, (1, 1), (n,), 3, 1) for n in (256, 8192)))
    rows = [row("burgers-256", 1.0, seconds=1.0) | {"size": [256]}, row("burgers-8192", 1.0, seconds=64.0) | {"size": [8192]}]
    assert summarise(rows)["growth"] == 2.0


def test_operation_counts_are_those_of_the_formulas():
    wave, _, music = SMALL
    assert conv_flops(training_workload(wave)) == 3 * 2 * 2 * 3 * 4 * 12 * 9
    whole = counts(wave, "spectral")
    assert 0 < whole.matrices < whole.plan
    assert whole.fewest <= whole.plan
    causal, p = causal_counts(music, "taps"), training_workload(music)
    n, k, r, m = p.sizes[0], 2, p.outputs[0], p.inputs[0]
    assert causal.build == pytest.approx(3 * 4 * k * r * n * m)
    assert causal.apply == pytest.approx(3 * 2 * k * r * m * 3)
    assert causal.mix == pytest.approx(3 * 2 * 3 * 3 * k * m)
    speech = Layer("speech", 1, (3, 3), (23,), 2, 1, causal=True)  # n = 24 = 3 x 8 or 6 x 4
    causal, grouped = causal_counts(speech, "taps"), causal_counts(speech, "taps-grouped")
    assert grouped.build in [3 * 2 * (8 * high * low**3 + 4 * high * 24 * 23) for high, low in ((3, 8), (6, 4))]
    assert grouped.build < causal.build
    assert grouped.mix == pytest.approx(3 * 2 * 3 * 3 * 2 * 24)


def test_the_page_is_filled_between_its_hand_written_parts_and_can_be_filled_again(measured, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    command = ["bench", "document", "--layers", str(measured[0]), "--sweep", str(measured[1]), "--out", str(page)]
    assert main(command) == 0
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert text.count("between") == len(document.BLOCKS)
    assert all(layer.name in text for layer in SMALL)
    assert all(target.text in text for target in TARGETS)
    assert "not measured" in text  # memory
    rows = json.loads(measured[0].read_text())["layers"]
    flops = geometric_mean([counts(layer, row["plan"]).ratio for layer, row in zip(SMALL, rows, strict=True)])
    assert f"| geometric mean |  |  |  | **{flops:.2f}** |" in text
    assert "](page.png)" in text
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")
    widths = [line.count("|") for line in text.splitlines() if line.startswith("| layer")]
    assert len(widths) == 5
    assert main(command) == 0
    assert page.read_text() == text


def test_figures_above_their_target_are_called_not_met_with_the_layers_that_are():
    text = document.targets({"layers": [row("wave", 1.0), row("image", 9.0)]}, {}, "")
    worst = next(line for line in text.splitlines() if "training, worst layer |" in line)
    assert worst == "| training, worst layer | not met | image 9.00 | 9.00 | 8.00 |"
    assert "| training, worst layer with kernel 9 or more | met |  | 1.00 | 1.30 |" in text


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["layers", "--only", "nothing"], "wave, image, music"),
        (["layers", "--repetitions", "2"], "at least 3"),
        (["layers", "--json", "no/such/folder/file.json"], "folder that exists"),
        (["sweep", "--repetitions", "1"], "at least 3"),
        (["sweep", "--json", "no/such/folder/file.json"], "folder that exists"),
        (["document", "--layers", "none.json", "--sweep", "none.json", "--out", "none.md"], "bench layers --json"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_measured(arguments, told, capsys):
    assert main(["bench", *arguments]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("run", "page", "told"),
    [
        ("{", PAGE, "cannot be read"),
        ("{}", PAGE, "without"),
        (json.dumps({"machine": {}, "repetitions": 3, "rates": {}, "layers": [{"layer": "other"}]}), PAGE, "layers other"),
        (json.dumps({"machine": {}, "repetitions": 3, "rates": {}, "layers": []}), None, "which exists"),
        (json.dumps({"machine": {}, "repetitions": 3, "rates": {}, "layers": []}), "no blocks\n", "measured conditions"),
    ],
)
def test_a_page_or_measurement_that_does_not_fit_is_refused_and_nothing_is_written(run, page, told, tmp_path, capsys):
    (tmp_path / "layers.json").write_text(run)
    (tmp_path / "sweep.json").write_text(json.dumps({"machine": {}, "repetitions": 3, "lines": {}}))
    if page is not None:
        (tmp_path / "page.md").write_text(page)
    paths = [str(tmp_path / name) for name in ("layers.json", "sweep.json", "page.md")]
    assert main(["bench", "document", "--layers", paths[0], "--sweep", paths[1], "--out", paths[2]]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "page.png").exists()
    assert page is None or (tmp_path / "page.md").read_text() == page


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_peak_memory_is_measured_in_a_process_of_its_own():
    used = peak_memory("lenet-2", "conv")
    assert used is not None
    assert used > 128 * 16 * 10 * 10 * 4  # the output alone
    assert peak_memory("no such layer", "conv") is None


def test_networks_are_measured_in_every_kind_they_have(monkeypatch, tmp_path, capsys):
    small = (
        networks.Network("image", SmallCNN, Request("classification", 1, 2, (6, 6)), 2),
        networks.Network("pde", _narrow(operator_cnn, kernel=3), Request("dense", 1, 1, (8,)), 2, XDConfig(depth=1), ".operation",
                         _narrow(operator_fno, modes=2)),
    )  # fmt: skip
    monkeypatch.setattr(networks, "NETWORKS", small)
    target = tmp_path / "networks.json"
    assert main(["bench", "networks", "--repetitions", "3", "--no-memory", "--json", str(target)]) == 0
    rows = {row["network"]: row["training"] for row in json.loads(target.read_text())["networks"]}
    assert set(rows["image"]) == {"conv", "xd full", "xd half"}
    assert set(rows["pde"]) == {"conv", "xd full", "xd half", "fno"}
    assert all(t["ratio"] == 1 for t in (row["conv"] for row in rows.values()))
    assert "xd half" in capsys.readouterr().out
    assert main(["bench", "networks", "--only", "nothing"]) == 2


def _narrow(build, **options):
    return lambda request: build(request, width=2, **options)


def test_a_network_of_the_other_kind_is_the_same_function_at_its_start():
    network = networks.Network(
        "pde", _narrow(operator_cnn, kernel=3), Request("dense", 1, 1, (8,)), 2, XDConfig(depth=1), ".operation"
    )
    x = network.input()
    expected = network.make("conv").eval()(x)
    for kind in ("xd full", "xd half"):
        torch.testing.assert_close(network.make(kind).eval()(x), expected, rtol=1e-4, atol=1e-5)
    assert network.make("fno") is None
