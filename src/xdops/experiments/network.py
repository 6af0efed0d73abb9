"""Which network a search is about."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import nn

from xdops.arguments import check_fields
from xdops.backbones import Request, build_backbone
from xdops.backbones.coordinates import SeesCoordinates
from xdops.backbones.windows import in_windows
from xdops.convert import XDConfig
from xdops.errors import XDError
from xdops.operations.domains import DEFAULT_DOMAIN, Domain
from xdops.spaces import SPACES, SpaceSettings, apply

#: Not a search space: the backbone, which sees beside the data where each point is. What XD gains and this does not is more than
#: knowing the place.
COORDINATES = "coordinates"
#: What can be trained, and which of it has no architecture.
TRAINED = (*SPACES, COORDINATES)
PLAIN = ("backbone", COORDINATES)

#: How XD-operations on sequences of different lengths are kept from the future. filters: the same at every step, for any length.
#: direct: masked, with other operations at every step, up to the longest length. windows: each prediction from the last steps
#: alone, in which operations look anywhere, as in the paper.
Causal = Literal["filters", "direct", "windows"]
#: Steps of a window, the paper's.
WINDOW = 40

#: Of K, L and M. Depth 4 holds every matrix with n nonzeros; products of four such are far beyond what can be learned.
DEEPEST = 16


def check_causal(way: Causal, request: Request) -> None:
    """Refuse a way to be causal where nothing is kept from the future."""
    if not request.ragged:
        raise XDError(
            f"--causal {way} with examples of one size",
            "sequences of different lengths, the only ones that are kept from the future",
            f"x with all steps one after the other and length; or leave --causal {way} out",
        )


@dataclass(frozen=True)
class NetworkSettings:
    """Which network: all that is needed to build it again."""

    backbone: str
    depth: tuple[int, int, int]  # of K, L and M
    domain: Domain = DEFAULT_DOMAIN
    causal: Causal = "filters"

    def __post_init__(self) -> None:
        check_fields(self)
        if min(self.depth) < 1 or max(self.depth) > DEEPEST:
            raise XDError(f"--depth {' '.join(map(str, self.depth))}", f"three numbers from 1 to {DEEPEST}", "--depth 3 3 3")

    def build(self, request: Request, space: str, seed: int) -> nn.Module:
        """The backbone of this seed, relaxed into the space; the same start for every space."""
        if space == COORDINATES:
            return self.with_coordinates(request, seed)
        network = build_backbone(self.backbone, request, seed)
        if self.causal != "filters":
            check_causal(self.causal, request)
        windows = space == "xd" and self.causal == "windows"
        if windows:
            network = in_windows(network, WINDOW)
        config = XDConfig(
            depth=self.depth,
            domain=self.domain,
            shift_invariant=request.ragged and self.causal == "filters",
            causal=request.ragged and not windows,
            pointwise=False,
        )
        report = apply(space, network, torch.zeros(2, *request.input_shape), SpaceSettings(config))
        if space != "backbone" and not report.converted:
            unsearched = [row for row in report.left_alone if "pointwise" not in row.why]
            why = f": {unsearched[0].name}, {unsearched[0].why}" if unsearched else ""
            raise XDError(
                f"backbone {self.backbone}, in which {space} can search no layer{why}",
                "a convolution wider than one point, with weights of its own",
                f"--spaces without {space}",
            )
        return network

    def check_predicted(self, request: Request, space: str, lengths: Sequence[int]) -> None:
        """Refuse sequences that the network of this space, made for `request`, is too short for."""
        made_for = request.spatial[0]
        if space == "xd" and self.causal == "direct" and max(lengths) > made_for:
            at = lengths.index(max(lengths))
            raise XDError(
                f"sequence {at} with {max(lengths)} steps, for operations of --causal direct",
                f"at most {made_for} steps, the longest sequence that the search was given",
                f"a search whose data have a sequence of {max(lengths)} steps, or one with --causal filters, for any length",
            )

    def with_coordinates(self, request: Request, seed: int) -> nn.Module:
        if request.ragged:
            raise XDError(
                f"--spaces {COORDINATES} for sequences of different lengths",
                "a grid whose points have places",
                "--spaces backbone,xd",
            )
        return SeesCoordinates(
            build_backbone(self.backbone, replace(request, in_channels=request.in_channels + request.dims), seed)
        )

    def to_dict(self) -> dict[str, Any]:
        settings = {"backbone": self.backbone, "depth": list(self.depth), "domain": self.domain}
        return settings | ({} if self.causal == "filters" else {"causal": self.causal})

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "NetworkSettings":
        return cls(data["backbone"], tuple(data["depth"]), data.get("domain", "full"), data.get("causal", "filters"))
