"""A network with its scaling inside takes arrays as the data have them, and says what `predict` says."""

import numpy as np
import pytest
import torch
from torch import nn

from xdops.backbones.request import Request
from xdops.cli.predict import decode, decode_sequences
from xdops.data.scaling import Scaling
from xdops.data.task import Reading
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
