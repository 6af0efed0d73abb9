"""The step sizes that rows choose from, all among as many."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Tried:
    """Factors of the step size that every row chooses from: of the weights if it is not searched, of the architecture if it is,
    there with each of `beside` for the weights.
    """

    weights: tuple[float, ...] = (1.0,)
    architecture: tuple[float, ...] = (1.0,)
    beside: tuple[float, ...] = (1.0,)

    def steps_of_weights(self, lr: float) -> dict[str, float]:
        """By what is said of them."""
        return _named("step size", lr, self.weights)

    def steps_of_architecture(self, lr: float) -> dict[str, float]:
        return _named("architecture's step size", lr, self.architecture)

    def steps_of_both(self, weights: float, architecture: float) -> dict[str, tuple[float, float]]:
        """Of the weights and of the architecture."""
        return {
            name if len(self.beside) == 1 else f"{beside}, {name}": (own, step)
            for beside, own in _named("step size", weights, self.beside).items()
            for name, step in self.steps_of_architecture(architecture).items()
        }


#: Nothing is chosen.
ONE = Tried()
#: Of the laptop.
THREE = Tried(weights=(0.5, 1.0, 2.0), architecture=(0.3, 1.0, 3.0))
#: Where the weights beside an architecture matter as much as the architecture: two of each, against four.
FOUR = Tried(weights=(0.5, 1.0, 2.0, 4.0), architecture=(1.0, 3.0), beside=(1.0, 2.0))


def _named(what: str, lr: float, factors: Sequence[float]) -> dict[str, float]:
    steps = [round(lr * factor, 10) for factor in factors]
    return {f"{what} {step:g}": step for step in steps}
