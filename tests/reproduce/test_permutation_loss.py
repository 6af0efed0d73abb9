"""The auxiliary loss: what it says the order is, where it is least, and where it leads."""

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from xdops.convert import XDConfig, convert_
from xdops.data.images import Permutation
from xdops.errors import XDError
from xdops.matrices import LearnableKMatrix, identity, permutation
from xdops.reproduce.cifar.permutation_loss import PermutationLoss, distance, mixing, path, row_distances
from xdops.search import Metric, OptimizerSettings, Problem, SearchSettings, Silent, Split, load_weights, search


def smooth_images(count: int = 60, size: int = 12, seed: int = 0) -> Tensor:
    """Sums of a few slow waves: neighbouring rows and columns are alike."""
    generator = torch.Generator().manual_seed(seed)
    places = torch.arange(size) / size
    images = torch.zeros(count, 2, size, size)
    for _ in range(6):
        a, b, phase = torch.randn(3, count, 2, 1, 1, generator=generator)
        images += torch.sin(3 * a * places[:, None] + 3 * b * places[None, :] + 3 * phase)
    return images


def some_network(size: int, depth: int = 3) -> nn.Sequential:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * (size - 2) ** 2, 2))
    convert_(network, torch.zeros(1, 2, size, size), XDConfig(depth=depth))
    return network


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_permuted_rows_and_columns_is_found_from_the_images_up_to_reflection(seed: int) -> None:
    order = Permutation.draw(12, 12, seed)
    x = order.apply(smooth_images())
    for dim, truth in ((2, order.rows), (3, order.columns)):
        found = [truth[i] for i in path(row_distances(x, dim))]
        assert found in (list(range(12)), list(range(11, -1, -1)))


def test_a_path_visits_every_point_once_whatever_the_distances() -> None:
    for n in (1, 2, 3, 17):
        points = torch.randn(n, 4, generator=torch.Generator().manual_seed(n))
        assert sorted(path(torch.cdist(points, points))) == list(range(n))


@pytest.mark.parametrize("n", [12, 32])
def test_the_loss_is_zero_at_its_permutation_and_positive_elsewhere(n: int) -> None:
    order = torch.randperm(n, generator=torch.Generator().manual_seed(1)).tolist()
    there = LearnableKMatrix(identity(n, 1, dtype=torch.float64) @ permutation(order, dtype=torch.float64))
    assert distance(there, order).item() == 0
    assert torch.equal(mixing(there).real, torch.eye(n, dtype=torch.float64)[order])
    elsewhere = LearnableKMatrix(identity(n, 3, dtype=torch.float64))
    assert distance(elsewhere, order).item() > 1


def test_the_gradients_of_the_loss_are_right() -> None:
    network = some_network(4).double()
    loss = PermutationLoss("0", ((3, 1, 0, 2), (3, 2, 1, 0)), weight=0.7, until=0.5)
    names = [name for name, _ in network.named_parameters() if name.startswith("0.M.")]
    start = [network.get_parameter(name).detach() for name in names]
    moved = [(p + 0.1 * torch.randn_like(p)).requires_grad_() for p in start]

    def value(*values: Tensor) -> Tensor:
        named = {f"network.{name}": value for name, value in zip(names, values, strict=True)}
        result: Tensor = torch.func.functional_call(OfNetwork(network, loss), named, ())
        return result

    assert torch.autograd.gradcheck(value, moved)


class OfNetwork(nn.Module):
    def __init__(self, network: nn.Module, loss: PermutationLoss) -> None:
        super().__init__()
        self.network, self.loss = network, loss

    def forward(self) -> Tensor:
        return self.loss(self.network, 0.2)


@pytest.mark.trains
def test_the_loss_leads_from_the_identity_to_its_permutation() -> None:
    """Descent on the loss alone, from the warm start and back from a disturbed permutation."""
    order = torch.randperm(32, generator=torch.Generator().manual_seed(2)).tolist()
    near = permutation(order)
    disturbed = LearnableKMatrix(identity(32) @ near)
    with torch.no_grad():
        for p in disturbed.values:
            p += 0.2 * torch.randn(p.shape, generator=torch.Generator().manual_seed(3))
    for M in (LearnableKMatrix(identity(32, 3)), disturbed):
        optimizer = torch.optim.Adam(M.parameters(), 2e-2)
        for _ in range(150):
            optimizer.zero_grad()
            distance(M, order).backward()
            optimizer.step()
        torch.testing.assert_close(mixing(M).abs(), torch.eye(32)[order], atol=0.05, rtol=0)


@pytest.mark.trains
def test_descent_on_the_product_alone_does_not_find_a_permutation_from_the_identity() -> None:
    """Why the loss is on the blocks: |Q - P|^2 itself, with P known, ends in a local minimum far from P."""
    order = torch.randperm(32, generator=torch.Generator().manual_seed(0)).tolist()
    M, P = LearnableKMatrix(identity(32, 3)), torch.eye(32)[order]
    optimizer = torch.optim.Adam(M.parameters(), 2e-2)
    for _ in range(300):
        optimizer.zero_grad()
        (mixing(M) - P).abs().square().sum().backward()
        optimizer.step()
    in_place = (mixing(M).abs().argmax(dim=1) == torch.tensor(order)).float().mean()
    assert in_place < 0.5


def test_the_weight_falls_to_zero() -> None:
    network = some_network(8)
    loss = PermutationLoss("0", (tuple(range(7, -1, -1)),) * 2, weight=2.0, until=0.5)
    values = [loss(network, progress).item() for progress in (0.0, 0.25, 0.5, 0.9)]
    assert values == pytest.approx([values[0], values[0] / 2, 0, 0])
    assert values[0] > 0


def test_a_layer_without_room_for_a_permutation_is_refused() -> None:
    loss = PermutationLoss("0", (tuple(range(8)),) * 2, 1.0, 1.0)
    with pytest.raises(XDError, match="depth 3"):
        loss(some_network(8, depth=1), 0.0)


def accuracy(prediction: Tensor, y: Tensor) -> Tensor:
    return (prediction.argmax(1) == y).float().mean()


@pytest.mark.trains
def test_a_search_trained_jointly_puts_the_first_layer_in_order_and_knows_its_loss(tmp_path: Path) -> None:
    """The loss moves M within a search, and is part of the run's identity."""
    order = Permutation.draw(8, 8, 0)
    x = order.apply(smooth_images(count=40, size=8))
    y = (x[:, 0].mean(dim=(1, 2)) > 0).long()
    loss = PermutationLoss.from_images("0", x, weight=30.0, until=1.0)
    split = Split(x, y)
    problem = Problem(split, split, split, nn.functional.cross_entropy, Metric("accuracy", accuracy, True), penalty=loss)
    optimizers = {"weights": OptimizerSettings("sgd", 1e-3), "architecture": OptimizerSettings("adam", 1e-2)}
    settings = SearchSettings(epochs=6, batch_size=1, clip=1.0, accelerator="cpu", **optimizers)
    network = some_network(8)
    search(network, problem, settings, tmp_path / "run", progress=Silent())
    load_weights(tmp_path / "run", network, "last")
    for M, found in zip(network[0].M, loss.orders, strict=True):  # type: ignore[arg-type]
        assert torch.equal(mixing(M).abs().argmax(dim=1), torch.tensor(found))
    other = dataclasses.replace(problem, penalty=dataclasses.replace(loss, weight=1.0))
    with pytest.raises(XDError, match=r"penalty\.weight is 30\.0 there, 1\.0 here"):
        search(some_network(8), other, settings, tmp_path / "run", resume=True, progress=Silent())
