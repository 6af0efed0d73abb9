"""How to read a user's arrays."""

from dataclasses import dataclass

from xdops.arguments import check_fields
from xdops.backbones.request import TaskKind


@dataclass(frozen=True)
class DataSettings:
    """Everything that is None is detected and printed."""

    x_name: str = "x"
    y_name: str = "y"
    kind: TaskKind | None = None
    layout: str | None = None
    split: tuple[float, float, float] = (0.7, 0.15, 0.15)
    split_seed: int = 0
    crop: int | None = None  # train on random windows of so many points per side

    def __post_init__(self) -> None:
        check_fields(self)
