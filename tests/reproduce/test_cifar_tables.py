"""The image experiments in miniature: every space trains, permutations are kept, and the tables come out whole."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from small_cifar import SMALL, small_cifar

from xdops.convert import novelty
from xdops.data.images import Permutation, flip_and_crop
from xdops.errors import XDError
from xdops.report.permutations import best_match, draw_first_layers
from xdops.report.result_page import write_page
from xdops.reproduce.cifar import (
    AUXILIARY,
    IMAGES,
    NORMAL,
    ORDERED,
    PERMUTED,
    PRESETS,
    Architecture,
    Preset,
    build_network,
    load_images,
    make_problem,
    permutation_of,
)
from xdops.reproduce.cifar.problem import first_of_each_class
from xdops.reproduce.reproduction import Reproduction
from xdops.reproduce.tables import Context, find_table
from xdops.reproduce.tables import cifar as table_cifar
from xdops.reproduce.tables import novelty as table_novelty
from xdops.search import ScheduleSettings, Silent

PRESET = Preset(
    "LeNet",
    epochs=1,
    lr=0.01,
    schedule=ScheduleSettings("step"),
    architecture={
        ("DARTS", PERMUTED): Architecture(1e-1, perturb=0.875),
        ("XD", NORMAL): Architecture(1e-3),
        ("XD", PERMUTED): Architecture(1e-3),
        (AUXILIARY, PERMUTED): Architecture(1e-2),
    },
    batch_size=20,
    seeds=(0,),
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_cifar(tmp_path_factory.mktemp("data"))


def small_rows(context: Context) -> list:
    return table_cifar.rows(context, {"laptop": (PRESET,)}, SMALL)


def test_one_order_of_rows_and_columns_per_seed_for_training_and_test_alike(data: Path) -> None:
    images = load_images(data, None, None, SMALL)
    order = permutation_of(3)
    assert sorted(order.rows) == sorted(order.columns) == list(range(32))
    assert order == permutation_of(3) != permutation_of(4)
    problem = make_problem(images, order)
    for part in ("train", "test"):
        permuted, plain = getattr(problem, part), getattr(images, part)
        assert torch.equal(order.inverse.apply(permuted.x), plain.x)
        assert torch.equal(permuted.y, plain.y)
    assert problem.validation is problem.test  # nothing is selected
    assert problem.augment is None
    assert make_problem(images, None).augment is flip_and_crop


def test_a_smaller_part_has_the_first_images_of_every_class() -> None:
    labels = torch.arange(10).repeat(7)
    assert torch.equal(first_of_each_class(labels, 20), torch.arange(20))
    assert len(first_of_each_class(labels, None)) == 70
    with pytest.raises(XDError, match=r"with 7 images of a class.*10 of each, 100 in all.*complete data set"):
        first_of_each_class(labels, 100)


def test_held_out_images_are_the_last_of_every_class_and_not_trained_on(data: Path) -> None:
    images = load_images(data, None, None, SMALL)
    problem = make_problem(images, permutation_of(0), held_out=10)
    train, validation = problem.train, problem.validation
    assert torch.equal(validation.y.sort().values, torch.arange(10))
    assert len(train.y) == 30
    seen = {x.numpy().tobytes() for x in train.x}
    assert not any(x.numpy().tobytes() in seen for x in validation.x)
    assert torch.equal(permutation_of(0).inverse.apply(problem.test.x), images.test.x)


def test_every_row_of_the_laptops_residual_network_chooses_among_as_many() -> None:
    rows = [row for row in table_cifar.rows(Context("laptop")) if row.setting["network"] == "ResNet-8"]
    assert [row.method for row in rows] == ["backbone", "DARTS", "XD", "backbone", ORDERED, "DARTS", "XD"]
    assert {len(row.candidates) for row in rows} == {2}
    assert {tuple(c.settings["search"]["warmup"] for c in row.candidates.values()) for row in rows if row.method == "XD"} == {
        (0, 2)
    }
    assert all(len(row.seeds) == 2 and all(c.settings["held_out"] for c in row.candidates.values()) for row in rows)


@pytest.mark.parametrize("space", ["backbone", "darts", "xd"])
def test_all_spaces_start_from_the_same_weights(space: str) -> None:
    network, backbone = build_network("LeNet", space, 0.1, 5), build_network("LeNet", "backbone", 0.1, 5)
    assert torch.equal(network.head[0].weight, backbone.head[0].weight)  # type: ignore[index, union-attr]


def test_the_presets_are_the_papers() -> None:
    """Table 5 of the paper: step size, warm-up, perturb by backbone, space and images."""
    lenet, resnet, wrn = PRESETS["paper"]
    expected = {
        ("LeNet", "DARTS", NORMAL): (1e-1, 0, 0.1),
        ("LeNet", "DARTS", PERMUTED): (1e-1, 50, 0.875),
        ("LeNet", "XD", NORMAL): (1e-4, 0),
        ("LeNet", "XD", PERMUTED): (1e-3, 0),
        ("ResNet-20", "DARTS", NORMAL): (1e-3, 0, 0.1),
        ("ResNet-20", "DARTS", PERMUTED): (1e-1, 0, 0.875),
        ("ResNet-20", "XD", NORMAL): (1e-4, 50),
        ("ResNet-20", "XD", PERMUTED): (1e-3, 0),
    }
    for (backbone, method, images), (lr, warmup, *perturb) in expected.items():
        preset = next(p for p in PRESETS["paper"] if p.backbone == backbone)
        settings = preset.search(method, images)
        assert (settings.architecture.name, settings.architecture.lr, settings.warmup) == ("adam", lr, warmup)
        if perturb:
            assert preset.architecture[method, images].perturb == perturb[0]
    assert wrn.architecture == resnet.architecture
    assert lenet.schedule.factor == (0.5, 0.2)  # 0.01, 0.005, 0.001


def test_the_table_end_to_end(data: Path, tmp_path: Path) -> None:
    table = dataclasses.replace(find_table("cifar"), rows=small_rows)
    context = Context("laptop", data)
    reproduction = Reproduction(table, context, tmp_path / "runs", tmp_path / "results", "xdops reproduce cifar")
    found = reproduction.run(lambda line: None, Silent)
    run = [line for line in found["rows"] if line["planned"]]
    assert [(line["method"], line["setting"]["images"]) for line in run] == [
        ("backbone", NORMAL), ("XD", NORMAL),
        ("backbone", PERMUTED), (ORDERED, PERMUTED), ("DARTS", PERMUTED), ("XD", PERMUTED), (AUXILIARY, PERMUTED),
    ]  # fmt: skip
    assert all(0 <= line["mean"] <= 1 for line in run)
    assert {line["method"] for line in found["rows"]} > {"DenseNAS"}

    # The order of rows and columns is part of the run, as is what the auxiliary loss knows.
    kept = {}
    for path in sorted((tmp_path / "runs/cifar-laptop").glob("*/seed0/run.json")):
        identity = json.loads(path.read_text())
        kept[identity["describe"]["method"], identity["describe"]["images"]] = identity
    assert Permutation.from_dict(kept["XD", PERMUTED]["describe"]["permutation"]) == permutation_of(0)
    assert kept["XD", NORMAL]["describe"]["permutation"] is None
    assert kept[AUXILIARY, PERMUTED]["data"]["penalty"]["layer"] == "conv1"

    # The same runs once more, as the table of distances.
    searched = [dataclasses.replace(r, report="novelty") for r in small_rows(context) if r.method == "XD" and r.seeds]
    other = dataclasses.replace(find_table("novelty"), rows=lambda _: searched)
    distances = dataclasses.replace(reproduction, table=other).run(pytest.fail, Silent)
    assert [line["setting"]["images"] for line in distances["rows"]] == list(IMAGES)
    assert all(line["mean"] > 0 and len(line["curves"]["novelty"]["value"]) == 1 for line in distances["rows"])

    # Pictures and page.
    pictures = draw_first_layers(context, reproduction.home, tmp_path / "docs", small_rows)
    assert [path.name for path in pictures] == [
        "cifar-laptop-xd-network-lenet-images-permuted.png", "cifar-laptop-xd-auxiliary-loss-network-lenet-images-permuted.png",
    ]  # fmt: skip
    page = write_page(tmp_path / "results", tmp_path / "docs").read_text()
    assert all(f"figures/{path.name}" in page for path in pictures)
    assert (tmp_path / "docs/figures/novelty-laptop.png").exists()


def test_the_novelty_table_has_the_searched_rows_of_the_other() -> None:
    context = Context("laptop")
    folders = {row.folder for row in table_cifar.rows(context)}
    rows = table_novelty.rows(context)
    assert {row.method for row in rows} == {"XD"}
    assert {row.folder for row in rows} < folders


def test_rows_are_in_place_up_to_shift_and_reflection() -> None:
    order = Permutation.draw(32, 32, 1).rows
    undo = np.argsort(order)
    for wanted in (np.arange(32), np.arange(31, -1, -1), (np.arange(32) + 5) % 32):
        Q = np.eye(32)[undo[wanted]]
        truth, share = best_match(Q, order)
        assert share == 1
        assert np.array_equal(truth, wanted)
    assert best_match(np.eye(32), order)[1] < 0.3


def test_the_larger_backbones_convert_with_pools_and_shortcuts() -> None:
    network = build_network("ResNet-20", "xd", 0.1, 0)
    assert {f"blocks.{i}.shortcut" for i in range(9)} < set(novelty(network))
