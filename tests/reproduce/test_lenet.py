"""LeNet on few images: the penalty on the matrix alone, rounding, and the control at one step size."""

import dataclasses
import math
from pathlib import Path

import pytest
import torch
from small_cifar import SMALL, small_cifar

from xdops.matrices import dft, permutation
from xdops.reproduce.cifar import ENTROPY, FIRST_LAYER, NORMAL, PERMUTED, SHARED, EntropyPenalty, build_network
from xdops.reproduce.cifar.entropy_penalty import entropy
from xdops.reproduce.reproduction import Reproduction
from xdops.reproduce.table import Context
from xdops.reproduce.tables import find_table
from xdops.reproduce.tables.lenet import PRESETS, RETRAINED, ROUNDED, rows
from xdops.search import Silent

TINY = dataclasses.replace(
    PRESETS["laptop"], epochs=1, batch_size=20, train=40, test=20, held_out=10, seeds=(0,),
    architecture={k: dataclasses.replace(a, warmup=0) for k, a in PRESETS["laptop"].architecture.items()},
)  # fmt: skip


def test_the_entropy_is_zero_for_permutations_and_one_where_all_entries_are_alike():
    assert float(entropy(permutation((2, 0, 3, 1), dtype=torch.float64).to_dense())) == pytest.approx(0, abs=1e-9)
    assert float(entropy(3 * dft(8, dtype=torch.float64).to_dense())) == pytest.approx(1)
    halves = torch.block_diag(*[torch.ones(2, 2, dtype=torch.float64)] * 4).to(torch.complex128)
    assert float(entropy(halves)) == pytest.approx(math.log(2) / math.log(8))


def test_the_penalty_rises_from_nothing_and_has_finite_gradients_at_the_start():
    network = build_network("LeNet", "xd", 0.0, 0)
    penalty = EntropyPenalty(FIRST_LAYER["LeNet"], weight=2.0)
    assert float(penalty(network, 0.0)) == 0
    loss = penalty(network, 1.0)
    loss.backward()
    grads = [p.grad for p in network.parameters() if p.grad is not None]
    assert grads
    assert all(bool(torch.isfinite(g).all()) for g in grads)
    with torch.no_grad():
        for m in network.get_submodule("conv1").M:
            for value in m.values:
                value += 0.1 * torch.randn_like(value)
    moved = penalty(network, 1.0)
    assert float(moved) > float(loss) + 0.01
    assert float(penalty(network, 0.5)) == pytest.approx(float(moved) / 2)


def test_rows_have_the_control_and_the_penalties_at_the_same_step_size():
    found = {(row.method, row.setting["images"]): row.settings["search"]["architecture"]["lr"] for row in rows(Context("laptop"))}
    assert found[SHARED, NORMAL] == found["XD", PERMUTED] == found[ENTROPY, PERMUTED] != found["XD", NORMAL]
    control = find_table("novelty-control").rows(Context("laptop"))
    assert {row.folder for row in control} < {row.folder for row in rows(Context("laptop"))}
    assert len(control) == 3


def test_mixtures_are_rounded_and_trained_again(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    context = Context("laptop", small_cifar(data))
    table = dataclasses.replace(find_table("lenet"), rows=lambda c: rows(c, {"laptop": TINY}, SMALL))
    where = (tmp_path / "runs", tmp_path / "results")
    reproduction = Reproduction(table, context, *where, "xdops reproduce lenet", ("darts", "xd-entropy-penalty"))
    found = {(line["method"], line["metric"]): line for line in reproduction.run(lambda line: None, Silent)["rows"]}
    for metric in ("accuracy", ROUNDED, RETRAINED):
        assert 0 <= found["DARTS", metric]["mean"] <= 1
    assert found[ENTROPY, "accuracy"]["mean"] is not None
    (again,) = (tmp_path / "runs").glob("lenet-laptop/darts-*/seed0/rounded/result.json")
    before = again.stat().st_mtime_ns
    reproduction.run(pytest.fail, Silent)
    assert again.stat().st_mtime_ns == before
