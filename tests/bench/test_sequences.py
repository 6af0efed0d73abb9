"""The benchmark of sequence networks, at toy size: that it measures what it says."""

import dataclasses

import torch

from xdops.bench import sequences
from xdops.cli.main import main
from xdops.reproduce.sequences.presets import PRESETS


def test_every_way_is_measured_and_judged_by_its_limit(monkeypatch, capsys):
    small = tuple(dataclasses.replace(p, width=4, levels=1, span=8, window=4, side=7) for p in PRESETS["paper"])
    monkeypatch.setattr(sequences, "PRESETS", {"paper": small})
    monkeypatch.setattr(sequences, "MEAN_STEPS", 8)
    monkeypatch.setattr(sequences, "LONGEST", 12)
    assert main(["bench", "sequences", "--repetitions", "3"]) == 0
    told = capsys.readouterr().out
    for word in ("filters XD", "direct XD", "windows XD", "pmnist", "at most 2.5", "at most 3"):
        assert word in told


def test_a_step_trains_weights_and_architecture():
    preset = dataclasses.replace(PRESETS["paper"][0], width=4, levels=1, span=8)
    problem = sequences.random_music()
    step = sequences.training_step(preset, "undilated TCN, filters XD", problem)
    network = next(c.cell_contents for c in step.__closure__ if isinstance(c.cell_contents, torch.nn.Module))
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    step()
    moved = {name for name, p in network.named_parameters() if not torch.equal(p, before[name])}
    assert any(".L." in name for name in moved)
    assert any("original" in name for name in moved)


def test_unknown_networks_are_refused(capsys):
    assert main(["bench", "sequences", "--only", "lstm"]) == 2
    assert "some of jsb, pmnist" in capsys.readouterr().err
