"""A network with its scaling inside takes arrays as the data have them, and says what `predict` says."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from xdops.backbones.request import Request
from xdops.cli.predict import decode, decode_sequences
from xdops.data.scaling import Scaling
from xdops.data.task import Reading
from xdops.errors import XDError
from xdops.experiments.deployed import Deployed, notes_of, raw_example

UNITS = Scaling((5.0, -1.0), (2.0, 0.5))


def reading(kind: str, layout: str, y_scaling: Scaling | None, classes: tuple[str, ...] = ()) -> Reading:
    return Reading(Request(kind, 2, 3, (6,)), layout, UNITS, y_scaling, classes)  # type: ignore[arg-type]


@pytest.mark.parametrize("layout", ["NCL", "NLC"])
def test_grids_are_scaled_and_unscaled_inside(layout: str):
    understood = reading("dense", layout, Scaling((100.0,) * 3, (10.0,) * 3))
    network, x = nn.Conv1d(2, 3, 3, padding=1), raw_example(understood)
    expected = decode(understood, network(understood.inputs(x.numpy(), "x")).detach())["prediction"]
    np.testing.assert_allclose(Deployed(network, understood)(x).detach(), expected, rtol=1e-5)


def test_classes_have_probabilities_and_their_labels_are_noted():
    understood = reading("classification", "NCL", None, ("a", "b", "c"))
    network, x = nn.Sequential(nn.Flatten(), nn.Linear(12, 3)), raw_example(understood)
    expected = decode(understood, network(understood.inputs(x.numpy(), "x")).detach())["probability"]
    np.testing.assert_allclose(Deployed(network, understood)(x).detach(), expected, rtol=1e-5)
    assert notes_of(understood)["classes"] == '["a", "b", "c"]'


@pytest.mark.parametrize(("kind", "classes"), [("next-step", ()), ("sequence-class", ("a", "b", "c"))])
def test_sequences_are_steps_by_channels(kind: str, classes: tuple[str, ...]):
    understood = reading(kind, "TC", None, classes)
    network, x = nn.Conv1d(2, 3, 1), raw_example(understood)
    inputs = [torch.from_numpy(UNITS.apply(one.numpy())).T[None].contiguous() for one in x]
    arrays = decode_sequences(understood, network, inputs)
    expected = arrays["probability" if classes else "prediction"]
    said = Deployed(network, understood)(x).detach()
    np.testing.assert_allclose(said if classes else said.flatten(0, 1), expected, rtol=1e-5)


@pytest.mark.parametrize(("mean", "std"), [(1.7e9, 3.0), (-1e6, 1.5), (1e50, 1e49), (1e35, 1.0), (0.0, 1e-35)])
def test_inputs_that_single_precision_does_not_hold_are_refused(mean: float, std: float):
    understood = dataclasses.replace(reading("dense", "NCL", UNITS), x_scaling=Scaling((0.0, mean), (1.0, std)))
    with pytest.raises(XDError, match="which seven digits do not show"):
        Deployed(nn.Identity(), understood)


def test_an_input_that_never_changes_may_be_far_from_zero():
    understood = dataclasses.replace(reading("dense", "NCL", UNITS), x_scaling=Scaling((1e6, 0.0), (1.0, 2.0)))
    assert Deployed(nn.Identity(), understood).into(torch.full((1, 2, 6), 1e6))[0, 0].abs().max() == 0
