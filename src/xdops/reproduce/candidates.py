"""The step sizes that rows choose from, all among as many."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Tried:
    """Factors of the step size that every row chooses from: of the weights if it is not searched, of the architecture if it is."""

    weights: tuple[float, ...] = (1.0,)
    architecture: tuple[float, ...] = (1.0,)

    def steps_of_weights(self, lr: float) -> dict[str, float]:
        """By what is said of them."""
        return _named("step size", lr, self.weights)

    def steps_of_architecture(self, lr: float) -> dict[str, float]:
        return _named("architecture's step size", lr, self.architecture)


#: Nothing is chosen.
ONE = Tried()
#: Of the laptop.
THREE = Tried(weights=(0.5, 1.0, 2.0), architecture=(0.3, 1.0, 3.0))


def _named(what: str, lr: float, factors: Sequence[float]) -> dict[str, float]:
    steps = [round(lr * factor, 10) for factor in factors]
    return {f"{what} {step:g}": step for step in steps}
