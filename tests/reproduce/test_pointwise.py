"""The comparison of converted and untouched convolutions of one point: rows differ in that alone."""

from pathlib import Path

import torch
from matrix_laws import agree

from xdops.backbones.request import Request
from xdops.convert import novelty
from xdops.reproduce.table import Context
from xdops.reproduce.tables import find_table
from xdops.reproduce.tables.pointwise import BACKBONE, CONVERTED, LEFT, METHODS, PROBLEMS, SIDE, build_network, prepare


def test_rows_differ_in_the_convolutions_of_one_point_alone():
    rows = find_table("pointwise").rows(Context("laptop"))
    assert len(rows) == len(PROBLEMS) * len(METHODS)
    for _, left, converted in zip(rows[::3], rows[1::3], rows[2::3], strict=True):
        assert left.settings == converted.settings | {"pointwise": False}
        assert len(left.seeds) >= 3


def test_all_start_as_the_backbone_and_are_judged_on_samples_that_are_not_the_tests():
    compared = PROBLEMS["permuted digits, pixel by pixel"]
    made = {method: prepare(compared, method, Path("nowhere"), 0) for method in METHODS}
    x = torch.randn(2, *compared.data(None)[1].input_shape)
    for method in (LEFT, CONVERTED):
        agree(made[method].network(x), made[BACKBONE].network(x), 1e-4)
        assert made[method].problem.test is made[method].problem.validation
    more = set(novelty(made[CONVERTED].network)) - set(novelty(made[LEFT].network))
    assert more == {f"blocks.{i}.shortcut" for i in range(3)}


def test_the_channel_mixing_of_a_pde_network_is_what_is_left_alone():
    compared, request = PROBLEMS["Burgers 128"], Request("dense", 2, 1, (32,))
    left, converted = (set(novelty(build_network(compared, method, request, 0))) for method in (LEFT, CONVERTED))
    assert left < converted
    assert all(name.endswith(".operation") for name in left)


def test_the_network_for_images_has_convolutions_of_one_point():
    compared, request = PROBLEMS[f"permuted MNIST, {SIDE} x {SIDE}"], Request("classification", 1, 10, (SIDE, SIDE))
    left, converted = (set(novelty(build_network(compared, method, request, 0))) for method in (LEFT, CONVERTED))
    assert converted - left == {"blocks.0.shortcut"}
