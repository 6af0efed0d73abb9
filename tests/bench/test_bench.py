"""`xdops bench`: what it measures, writes, and puts on the performance page. Nothing here looks at how long anything took."""

import json
import sys

import pytest
import torch

from xdops.backbones import Request, SmallCNN, operator_cnn, operator_fno
from xdops.bench import layers, networks, sweep
from xdops.bench.counts import conv_flops, counts, training_workload
from xdops.bench.layers import BenchLayer
from xdops.bench.memory import peak_memory
from xdops.bench.summary import TARGETS, geometric_mean, summarise
from xdops.cli.main import main
from xdops.convert import XDConfig
from xdops.report import performance as document

SMALL = (
    BenchLayer("wave", 2, (3, 4), (12,), 9, 4, "circular", modes=3),
    BenchLayer("image", 2, (2, 3), (6, 6), 3, 1),
    BenchLayer("music", 1, (3, 3), (10,), 2, 1, causal=True),
)
PAGE = "before\n" + "".join(f"<!-- measured {n} -->\nold\n<!-- end {n} -->\nbetween\n" for n in document.BLOCKS) + "after\n"


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(layers, "LAYERS", SMALL)
    monkeypatch.setattr(sweep, "BATCH", 2)
    monkeypatch.setattr(sweep, "CHANNELS", 3)
    monkeypatch.setattr(sweep, "SIZES", (8, 16))
    monkeypatch.setattr(sweep, "KERNEL", 3)
    monkeypatch.setattr(networks, "NETWORKS", (networks.Network("image", SmallCNN, Request("classification", 1, 2, (6, 6)), 2),))


@pytest.fixture
def measured(tmp_path, capsys):
    """The folder of all measurements."""
    for what, more in (("layers", ["--no-memory"]), ("sweep", []), ("networks", ["--no-memory"])):
        assert main(["bench", what, "--repetitions", "3", *more, "--json", str(tmp_path / f"bench-{what}.json")]) == 0
    assert "met" in capsys.readouterr().out
    return tmp_path


def read(folder, what):
    return json.loads((folder / f"bench-{what}.json").read_text())


def test_every_layer_is_measured_in_every_way_that_it_allows(measured):
    run = read(measured, "layers")
    assert set(run) == {"machine", "repetitions", "rates", "layers", "summary", "digest"}
    assert run["repetitions"] == 3
    assert [row["layer"] for row in run["layers"]] == [layer.name for layer in SMALL]
    more = {"conv", "full", "no kernels", "full, no kernels", "depth 3", "frozen", "fno"}
    for row, layer in zip(run["layers"], SMALL, strict=True):
        assert more - {"fno"} <= set(row["training"])
        assert ("fno" in row["training"]) == (layer.modes is not None)
        assert set(row["inference"]) == {"conv", "merged"}
        assert row["error"] < 1e-5
        times = {name: timing["seconds"] for name, timing in row["training"].items()}
        assert row["auto_over_best"] == pytest.approx(times["auto"] / min(times[form] for form in set(times) - more))
        assert row["depth3_over_depth1"] == pytest.approx(times["depth 3"] / times["auto"])
        assert row["kernels_gain"] == pytest.approx(times["no kernels"] / times["auto"])


def test_the_sweep_has_every_form_with_a_chance_at_every_size(measured):
    points = read(measured, "sweep")["points"]
    assert [p["n"] for p in points] == [8, 16]
    assert all({"conv", p["plan"]} <= set(p["training"]) for p in points)


def test_only_the_layers_asked_for_are_measured(tmp_path, capsys):
    out = tmp_path / "one.json"
    assert main(["bench", "layers", "--only", "image", "--repetitions", "3", "--no-memory", "--json", str(out)]) == 0
    assert [row["layer"] for row in json.loads(out.read_text())["layers"]] == ["image"]
    assert "training, half domain, worst layer" in capsys.readouterr().out


def row(layer, ratio, seconds=1.0, memory=None, gain=1.0):
    timing = {"seconds": seconds, "ratio": ratio, "low": ratio, "high": ratio}
    return {
        "layer": layer, "size": [10], "plan": "taps", "training": {"auto": timing, "full": timing, "frozen": timing},
        "depth3_over_depth1": 1.2, "auto_over_best": 1.0, "kernels_gain": gain, "memory_ratio": memory,
    }  # fmt: skip


def test_the_summary_takes_means_and_worst_layers_and_leaves_out_what_was_not_measured():
    summary = summarise([row("wave", 2.0, gain=1.4), row("image", 8.0, gain=1.6)])
    assert summary["geometric_mean"] == pytest.approx(4.0) == geometric_mean([2.0, 8.0])
    assert summary["worst"] == 8.0
    assert summary["worst_large_kernel"] == 2.0  # wave alone has kernel 9
    assert summary["kernels"] == 1
    assert summary["worst_memory"] is summary["memory_geometric_mean"] is summary["growth"] is summary["worst_masked"] is None
    assert not any("memory" in line for line in summary["text"])
    assert "training, half domain, worst layer but pmnist: 8.00 (at most 6: not met: image 8.00)" in summary["text"]
    assert "auto over best form, worst layer: 1.00 (at most 1.1: met)" in summary["text"]
    assert summarise([row("wave", 1.0, memory=3.0)])["worst_memory"] == 3.0


def test_growth_compares_time_per_point_of_the_longest_and_the_shortest_layer(monkeypatch):
    monkeypatch.setattr(layers, "LAYERS", tuple(BenchLayer(f"burgers-{n}", 1, (1, 1), (n,), 3, 1) for n in (256, 8192)))
    rows = [row("burgers-256", 1.0, seconds=1.0) | {"size": [256]}, row("burgers-8192", 1.0, seconds=64.0) | {"size": [8192]}]
    assert summarise(rows)["growth"] == 2.0


def test_operation_counts_are_those_of_the_formulas():
    wave = SMALL[0]
    assert conv_flops(training_workload(wave)) == 3 * 2 * 2 * 3 * 4 * 12 * 9
    whole = counts(wave, "spectral")
    assert 0 < whole.matrices < whole.plan
    assert whole.fewest <= whole.plan


def test_the_page_is_filled_between_its_hand_written_parts_and_can_be_filled_again(measured, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    command = ["bench", "document", "--data", str(measured), "--out", str(page)]
    assert main(command) == 0
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert text.count("between") == len(document.BLOCKS)
    assert all(layer.name in text for layer in SMALL)
    assert all(target.text in text for target in TARGETS)
    assert "not measured" in text  # memory
    half = geometric_mean([row["training"]["auto"]["ratio"] for row in read(measured, "layers")["layers"]])
    assert f"| geometric mean |  |  | **{half:.2f}** |" in text
    assert "](page.png)" in text
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")
    assert main(command) == 0
    assert page.read_text() == text


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["layers", "--only", "nothing"], "wave, image, music"),
        (["layers", "--repetitions", "2"], "at least 3"),
        (["layers", "--json", "no/such/folder/file.json"], "folder that exists"),
        (["sweep", "--repetitions", "1"], "at least 3"),
        (["sweep", "--json", "no/such/folder/file.json"], "folder that exists"),
        (["document", "--data", "nowhere", "--out", "none.md"], "bench layers --json"),
        (["document", "--data", "nowhere", "--out", "none.md", "--measure"], "which exists"),
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
    (tmp_path / "bench-layers.json").write_text(run)
    for what, key in (("sweep", "points"), ("networks", "networks")):
        (tmp_path / f"bench-{what}.json").write_text(json.dumps({"machine": {}, "repetitions": 3, key: []}))
    if page is not None:
        (tmp_path / "page.md").write_text(page)
    assert main(["bench", "document", "--data", str(tmp_path), "--out", str(tmp_path / "page.md")]) == 2
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
