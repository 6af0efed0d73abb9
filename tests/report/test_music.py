"""Pictures of what a search found on music."""

import numpy as np
import torch
from torch import nn

from xdops.operations import shift_invariant_from_conv
from xdops.report.music import convolution_filters, learned_filters, operators_figure, piano_figure, window_operator


def test_a_convolutions_operator_on_a_window_is_what_it_does_to_unit_inputs():
    for dilation in (1, 2):
        conv = nn.Conv1d(1, 1, 3, dilation=dilation, padding=2 * dilation, bias=False)
        nn.init.constant_(conv.weight, 1 / 3)
        with torch.no_grad():
            columns = conv(torch.eye(9)[:, None])[:, 0, :9].T
        np.testing.assert_allclose(window_operator(convolution_filters(3, dilation), 9), columns.numpy(), atol=1e-6)


def test_an_untouched_operation_is_drawn_as_its_convolution():
    network = nn.Sequential(shift_invariant_from_conv(nn.Conv1d(1, 1, 2, dilation=2, padding=2), 8, causal=True))
    (filters,) = learned_filters(network).values()
    np.testing.assert_allclose(window_operator(filters, 12), window_operator(convolution_filters(2, 2), 12), atol=1e-5)
    assert len(operators_figure({"a": filters, "b": filters}, 2).axes) == 8


def test_a_piano_roll_has_what_was_played_above_what_was_predicted():
    roll = np.zeros((20, 88))
    roll[3:9, 40] = 1
    figure = piano_figure(roll, 0.5 * roll, "a piece")
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["played", "predicted from the steps before"]
