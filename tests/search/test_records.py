"""TensorBoard has how far each layer moved, and pictures of what the operations became."""

from pathlib import Path

import torch
from search_support import make_network
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from xdops.convert import novelty
from xdops.search.pictures import coloured, operator_pictures
from xdops.search.records import Records
from xdops.search.results import EpochRecord


def test_layers_and_operators_are_logged(tmp_path: Path):
    network, records = make_network(), Records(tmp_path, [], 6)
    for epoch in range(1, 7):
        records.add(EpochRecord(epoch, 0.5, 0.5, 0.9, 0.1, 0.1, 0.2, 1.0), novelty(network), network)
    records.close()
    events = EventAccumulator(str(tmp_path / "tensorboard"), {"images": 0}).Reload()
    assert {"novelty of layers/0", "novelty of layers/3"} <= set(events.Tags()["scalars"])
    assert [event.step for event in events.Images("operator 0/dimension 0")] == [1, 2, 4, 6]


def test_a_convolution_is_a_red_band_on_white():
    name, picture = next(operator_pictures(make_network()))
    assert name == "operator 0/dimension 0"
    torch.testing.assert_close(picture[:, 0, 0], torch.tensor([1.0, 0.0, 0.0]), atol=1e-5, rtol=0)
    torch.testing.assert_close(picture[:, 0, 6], torch.ones(3), atol=1e-5, rtol=0)
    assert torch.equal(coloured(torch.zeros(2, 2)), torch.ones(3, 2, 2))
