"""What a conversion and its reversal say about every layer, as tables."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdops.errors import several
from xdops.measuring.tables import html_table, table

_CONVERTED = ("layer", "was", "is", "size", "depth", "weights", "architecture", "error", "note")
_REVERTED = ("layer", "given back", "lost", "note")


@dataclass(frozen=True)
class ConvertedLayer:
    name: str
    was: str
    became: str
    size: tuple[int, ...]
    depth: tuple[int, int, int] | None  # None where it has no meaning
    weights: int
    architecture: int  # architecture parameters added, trained or fixed
    error: float  # largest |new - old| over all positions, relative to the largest |old|
    note: str = ""


@dataclass(frozen=True)
class LeftAlone:
    name: str
    was: str
    why: str


@dataclass(frozen=True)
class ConversionReport:
    """One row per layer; print it."""

    converted: tuple[ConvertedLayer, ...]
    left_alone: tuple[LeftAlone, ...]
    model_error: float | None = None  # largest |new - old| of the model's outputs, relative to the largest |old|; None: no numbers

    @property
    def error(self) -> float:
        """The relative error of the whole model's output; of its worst layer where the output holds no real numbers."""
        return self.layer_error if self.model_error is None else self.model_error

    @property
    def layer_error(self) -> float:
        """The largest relative error of any layer."""
        return max((row.error for row in self.converted), default=0.0)

    @property
    def architecture(self) -> int:
        return sum(row.architecture for row in self.converted)

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [
            (r.name, r.was, r.became, by(r.size), "-" if r.depth is None else str(r.depth).replace(" ", ""),
             f"{r.weights:,}", f"{r.architecture:,}", f"{r.error:.1e}", r.note)
            for r in self.converted
        ]  # fmt: skip
        return rows + [(r.name, r.was, "left alone", "-", "-", "-", "-", "-", r.why) for r in self.left_alone]

    @property
    def summary(self) -> str:
        """One sentence."""
        total = f"{several(len(self.converted), 'layer')} converted, {self.architecture:,} architecture parameters"
        whole = "" if self.model_error is None else f", of the whole model {self.model_error:.1e}"
        return f"{total}, largest relative error {self.layer_error:.1e}{whole}"

    def __str__(self) -> str:
        return f"{table(_CONVERTED, self._rows())}\n{self.summary}"

    def _repr_html_(self) -> str:
        return html_table(_CONVERTED, self._rows(), self.summary)


@dataclass(frozen=True)
class RevertedLayer:
    name: str
    given_back: str
    change: float  # relative distance of the architecture from the layer that comes back: what is lost
    note: str


@dataclass(frozen=True)
class RevertReport:
    """One row per layer; print it."""

    layers: tuple[RevertedLayer, ...]

    @property
    def exact(self) -> bool:
        """Whether the backbone computes what the operations did: none of them had left its start."""
        return all(row.change == 0 for row in self.layers)

    def _rows(self) -> list[tuple[str, ...]]:
        return [(r.name, r.given_back, f"{r.change:.1e}", r.note) for r in self.layers]

    def __str__(self) -> str:
        return table(_REVERTED, self._rows())

    def _repr_html_(self) -> str:
        return html_table(
            _REVERTED, self._rows(), "the backbone's own layers" if self.exact else "what was learned is lost in part"
        )


def by(size: Sequence[int]) -> str:
    return "x".join(map(str, size))
