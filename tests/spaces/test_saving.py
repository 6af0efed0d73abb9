"""A searched network in one file, and back into a fresh backbone without an example; what cannot be is refused."""

import json
import random
import re
import struct
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn
from toy_networks import CASES, network, run, train_step

import xdops
from xdops import XDConfig, XDError, XDOperation, convert_, load, merge_, novelty, revert_, save, unmerge_
from xdops.convert.edges import edges, origin_of
from xdops.operations.catalogue.fourier import SpectralConv
from xdops.spaces import darts_
from xdops.spaces.saving import digest

CONFIG = XDConfig(skips=True, b="trained", perturb=0.01, seed=5, overrides={"*": {"C": "fixed"}})
CONVERT = {"xd": convert_, "darts": darts_}


def trained(name: str, space: str = "xd") -> tuple[nn.Module, object]:
    model, example = network(name)
    CONVERT[space](model, example, CONFIG)
    train_step(model, example)
    return model.eval(), example


def build(name: str):
    def fresh() -> nn.Module:
        model, _ = network(name)
        for p in model.parameters():
            p.data.normal_()
        return model.float().eval()  # as saved, whatever it is built as

    return fresh


@pytest.mark.filterwarnings("ignore:xdops converted nothing")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("space", CONVERT)
def test_a_converted_network_comes_back_to_the_bit(name, space, tmp_path):
    model, example = trained(name, space)
    save(model, tmp_path / "net.safetensors")
    twin = load(tmp_path / "net.safetensors", build(name))
    assert [n for n, _ in edges(twin)] == [n for n, _ in edges(model)]
    assert {k: v.dtype for k, v in twin.state_dict().items()} == {k: v.dtype for k, v in model.state_dict().items()}
    assert all(torch.equal(v, model.state_dict()[k]) for k, v in twin.state_dict().items())
    assert torch.equal(run(twin, example), run(model, example))
    assert novelty(twin) == novelty(model)
    assert [origin_of(e).settings for _, e in edges(twin)] == [origin_of(e).settings for _, e in edges(model)]
    ties = [len({id(p) for p in m.parameters()}) for m in (model, twin)]
    assert ties[0] == ties[1]
    assert [str(row) for row in revert_(twin).layers] == [str(row) for row in revert_(model).layers]


@pytest.mark.parametrize(
    "name", ["plain 1d", "batch norm, dropout and pools", "weight norm", "transposed 2d", "shared at two sizes"]
)
def test_a_merged_network_comes_back_merged_and_can_be_unmerged(name, tmp_path):
    model, example = trained(name)
    operations = [n for n, m in model.named_modules() if isinstance(m, XDOperation)]
    expected = run(model, example)
    merge_(model)
    save(model, tmp_path / "net")
    twin = load(tmp_path / "net", build(name))
    assert not any(isinstance(m, XDOperation) for m in twin.modules())
    assert torch.equal(run(twin, example), run(model, example))
    unmerge_(twin)
    assert [n for n, m in twin.named_modules() if isinstance(m, XDOperation)] == operations
    torch.testing.assert_close(run(twin, example), expected, rtol=1e-12, atol=1e-12)


def test_a_shift_invariant_network_comes_back_frozen_and_merged_as_it_was(tmp_path):
    model, example = network("plain 1d")
    convert_(model, example, XDConfig(shift_invariant=True, span=6, pools=False))
    train_step(model, example)
    for _, edge in edges(model.eval()):
        edge.freeze("K", "M")
    save(model, tmp_path / "net")
    assert {frozenset(edge.trained) for _, edge in edges(load(tmp_path / "net", build("plain 1d")))} == {frozenset("L")}
    merge_(model)
    save(model, tmp_path / "merged")
    twin = load(tmp_path / "merged", build("plain 1d"))
    assert [type(m) for m in twin.modules()] == [type(m) for m in model.modules()]
    assert torch.equal(run(twin, example), run(model, example))
    unmerge_(twin)
    assert {frozenset(edge.trained) for _, edge in edges(twin)} == {frozenset("L")}


def test_a_merged_network_that_was_changed_is_refused(tmp_path):
    model, _ = trained("plain 1d")
    merge_(model)
    with torch.no_grad():
        next(model[0].buffers()).add_(1)
    with pytest.raises(XDError, match="0 was changed after it was merged"):
        save(model, tmp_path / "net")
    assert not [*tmp_path.iterdir()]


def test_half_the_domain_is_recorded_too(tmp_path):
    def fresh() -> nn.Module:
        return nn.Sequential(nn.Conv1d(2, 3, 3, padding=1), nn.AvgPool1d(2))

    model, x = fresh(), torch.randn(2, 2, 12)
    convert_(model, x, XDConfig(domain="half"))
    train_step(model, x)
    save(model, tmp_path / "net")
    assert torch.equal(load(tmp_path / "net", fresh)(x), model(x))


@pytest.mark.parametrize("kernel", [(3, 1), (2, 4), (7, 3)])
def test_a_reverted_network_with_grown_filters_comes_back_and_converts_again(kernel, tmp_path):
    def fresh() -> nn.Module:
        return nn.Sequential(nn.Conv2d(2, 3, kernel, padding=1), nn.ReLU()).double()

    model, x = fresh(), torch.randn(2, 2, 9, 9).double()
    for size in (5, 9):
        convert_(model, x, XDConfig(kernel_size=size, trained=()))
        model[0].weight.data += 1
        save(model, tmp_path / "net")
        assert torch.equal(load(tmp_path / "net", fresh)(x), model(x))
        revert_(model)
        save(model, tmp_path / "net")
        twin = load(tmp_path / "net", fresh)
        assert torch.equal(twin(x), model(x))
        assert str(twin) == str(model)


class Mixed(nn.Module):
    """A Fourier layer, a shortcut between unlike shapes, complex and integer buffers, state that is no tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.fourier, self.conv = SpectralConv(2, 2, (3,)), nn.Conv1d(2, 4, 3, 2, 1)
        self.register_buffer("phase", torch.randn(1, dtype=torch.complex64))
        self.register_buffer("count", torch.tensor(3))
        self.shortcut, self.note = Halve(), "none"

    def get_extra_state(self) -> object:
        return {"note": self.note}

    def set_extra_state(self, state: object) -> None:
        self.note = state["note"]

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(self.fourier(x)) + self.shortcut(x) * self.phase.real + self.count


class Halve(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.pad(x[..., ::2], (0, 0, 0, 2))


def test_everything_that_a_state_dict_holds_comes_back(tmp_path):
    model, x = Mixed(), torch.randn(2, 2, 12)
    model.note = "kept"
    assert len(convert_(model, x, XDConfig(shortcuts=("shortcut",))).converted) == 3
    train_step(model, x)
    model.conv.freeze("K", "M")
    save(model, tmp_path / "net")
    twin = load(tmp_path / "net", Mixed())
    assert twin.note == "kept"
    assert twin.conv.trained == model.conv.trained == {"L"}
    assert [p.requires_grad for p in twin.parameters()] == [p.requires_grad for p in model.parameters()]
    assert torch.equal(twin(x), model(x))
    model.note = {1, 2}
    with pytest.raises(XDError, match="extra state"):
        save(model, tmp_path / "net")


def test_wrappers_are_not_saved(tmp_path):
    model, x = trained("plain 1d")
    save(torch.compile(nn.DataParallel(model), backend="eager"), tmp_path / "net")
    assert torch.equal(load(tmp_path / "net", build("plain 1d"))(x), model(x))


def test_the_header_is_json_that_says_what_was_done(tmp_path):
    model, _ = trained("plain 1d")
    save(model, tmp_path / "net")
    header = header_of(tmp_path / "net")
    assert header["format"] == 1
    assert header["versions"] == {"xdops": xdops.__version__, "torch": torch.__version__}
    (layer,) = header["layers"]
    assert (layer["name"], layer["kind"], layer["input_size"]) == ("0", "conv", [12])
    assert layer["config"]["C"] == "fixed"  # an override
    assert b"pickle" not in (tmp_path / "net").read_bytes()


def header_of(path: Path) -> dict:
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    return json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["xdops"])


def rewritten(path: Path, change) -> Path:
    header = header_of(path)
    change(header)
    tensors = safetensors.torch.load(path.read_bytes())
    header["sha256"] = digest(header, tensors)  # somebody who knows how
    path.write_bytes(safetensors.torch.save(tensors, {"xdops": json.dumps(header)}))
    return path


@pytest.fixture
def file(tmp_path) -> Path:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(2, 3, 3, padding=1), nn.AvgPool1d(2), nn.Conv1d(3, 2, 3))
    convert_(model, torch.randn(1, 2, 12))
    save(model, tmp_path / "net.safetensors")
    return tmp_path / "net.safetensors"


def backbone(*layers: nn.Module):
    return lambda: nn.Sequential(*layers)


@pytest.mark.parametrize(
    ("build", "difference"),
    [
        (backbone(nn.Conv1d(2, 4, 3, 1, 1), nn.AvgPool1d(2), nn.Conv1d(4, 2, 3)), r"0\.weight is \(3, 2, 3\) there, \(4, 2"),
        (backbone(nn.Conv1d(2, 3, 5, padding=2), nn.AvgPool1d(2), nn.Conv1d(3, 2, 3)), r"0\.weight is \(3, 2, 3\) there"),
        (backbone(nn.Conv1d(2, 3, 3, padding=1), nn.MaxPool1d(2), nn.Conv1d(3, 2, 3)), "1: average pool in the file.*MaxPool1d 2"),
        (backbone(nn.Conv1d(2, 3, 3, padding=1), nn.AvgPool1d(2)), "a layer 2"),
        (backbone(nn.Conv2d(2, 3, 3, padding=1), nn.AvgPool1d(2), nn.Conv1d(3, 2, 3)), "0, which cannot be converted"),
        (backbone(nn.Conv1d(2, 3, 3, padding=1, bias=False), nn.AvgPool1d(2), nn.Conv1d(3, 2, 3)), r"0\.bias is missing here"),
        (backbone(nn.Conv1d(2, 3, 3, 1, 1), nn.AvgPool1d(2), nn.Conv1d(3, 2, 3), nn.Linear(5, 1)), r"3\.weight is missing there"),
        (lambda: "text", "returns a str"),
        (lambda: nn.Sequential(nn.Conv1d(2, 3, 3)).to("meta"), "meta device"),
    ],
    ids=["channels", "kernel", "pool", "shorter", "dimensions", "bias", "longer", "text", "meta"],
)  # fmt: skip
def test_another_backbone_is_refused_naming_what_differs(file, build, difference):
    with pytest.raises(XDError, match=difference):
        load(file, build)


def test_a_converted_backbone_is_refused(file):
    model = nn.Sequential(nn.Conv1d(2, 3, 3, padding=1), nn.AvgPool1d(2), nn.Conv1d(3, 2, 3))
    convert_(model, torch.randn(1, 2, 12))
    with pytest.raises(XDError, match="converted already"):
        load(file, model)


def test_files_that_are_not_ours_are_refused(tmp_path, file):
    never = lambda: pytest.fail("nothing is built for such a file")  # noqa: E731
    with pytest.raises(XDError, match="no file"):
        load(tmp_path / "nothing", never)
    other = tmp_path / "other.safetensors"
    for data in (b"", b"text", safetensors.torch.save({"x": torch.zeros(1)}), file.read_bytes()[:-5]):
        other.write_bytes(data)
        with pytest.raises(XDError, match=r"xdops\.save has not written"):
            load(other, never)
    torch.save({"x": torch.zeros(1)}, other)
    with pytest.raises(XDError, match=r"xdops\.save has not written"):
        load(other, never)
    for version, message in ((2, "format 2, written by xdops"), ("1", "its format is '1'"), (None, "its format is None")):
        with pytest.raises(XDError, match=message):
            load(rewritten(file, lambda header, version=version: header.update(format=version)), never)


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h["layers"][0].pop("config"),
        lambda h: h["layers"][0].update(kind="os.system"),
        lambda h: h["layers"][0]["config"].update(surprise=1),
        lambda h: h["layers"][0].update(input_size=[10**12]),
        lambda h: h["layers"][0].update(dtype="load"),
        lambda h: h["layers"][0]["config"].update(depth=10**9),
        lambda h: h["layers"][1].update(channels=[10**9, 10**9]),
        lambda h: h["layers"][0].update(settings={"space": "elsewhere"}),
        lambda h: h.update(layers=7),
        lambda h: h.update(grown={"0": 10**9}),
        lambda h: h.update(merged=["nowhere"]),
        lambda h: h.update(same={"x": "nowhere"}),
        lambda h: h["layers"][0].update(seed=float("inf")),
    ],
)
def test_a_damaged_header_is_one_clear_error_and_builds_nothing_large(file, change):
    def fresh() -> nn.Module:
        return nn.Sequential(nn.Conv1d(2, 3, 3, padding=1), nn.AvgPool1d(2), nn.Conv1d(3, 2, 3))

    with pytest.raises(XDError):
        load(rewritten(file, change), fresh)


def test_a_byte_that_was_changed_anywhere_is_noticed(file):
    whole, rng = file.read_bytes(), random.Random(0)

    def fresh() -> nn.Module:
        return nn.Sequential(nn.Conv1d(2, 3, 3, padding=1), nn.AvgPool1d(2), nn.Conv1d(3, 2, 3))

    (header,) = struct.unpack("<Q", whole[:8])
    for place in [*rng.sample(range(8 + header), 60), *rng.sample(range(8 + header, len(whole)), 20)]:
        changed = bytearray(whole)
        changed[place] ^= 1 << rng.randrange(8)
        file.write_bytes(changed)
        with pytest.raises(XDError, match=re.escape(str(file))):
            load(file, fresh)
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(XDError, match="does not verify: it was changed"):
        load(file, fresh)
    file.write_bytes(safetensors.torch.save({"x": torch.zeros(1)}, {"xdops": "[" * 100_000}))
    with pytest.raises(XDError, match=r"xdops\.save has not written"):
        load(file, fresh)


def test_a_file_is_written_whole_or_not_at_all(file, tmp_path, monkeypatch):
    before = file.read_bytes()
    model, _ = trained("plain 1d")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(XDError, match="disk"):
        save(model, file)
    assert file.read_bytes() == before
    assert [*tmp_path.iterdir()] == [file]
    with pytest.raises(XDError, match="does not exist"):
        save(model, tmp_path / "nowhere" / "net")


def test_a_layer_of_another_stride_is_not_the_one_that_was_saved(tmp_path):
    def build(stride):
        return nn.Sequential(nn.Conv1d(2, 2, 3, padding=1, stride=stride))

    model = build(2)
    xdops.convert_(model, torch.randn(1, 2, 8))
    xdops.save(model, tmp_path / "net.safetensors")
    with pytest.raises(XDError, match=r"0: stride \[2\] in the file.*here it is \[1\]"):
        xdops.load(tmp_path / "net.safetensors", lambda: build(1))
