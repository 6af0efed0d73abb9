"""What `convert_` is asked for: plain data, with exceptions by name."""

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal

from xdops.arguments import check_fields
from xdops.errors import XDError
from xdops.operations import ARCHITECTURE
from xdops.operations.architecture import check_names
from xdops.operations.axes import SizeRule
from xdops.operations.domains import DEFAULT_DOMAIN, Domain
from xdops.operations.warmstart import Depth, Presence, resolve_depth

#: A window of more points takes minutes to be made, and one of a thousand times as many all memory.
LARGEST_SPAN = 1 << 20

#: The settings that decide which layers are converted.
_WHETHER = ("convs", "pointwise", "pools", "max_pools", "skips", "shortcuts", "overrides")


@dataclass(frozen=True)
class XDConfig:
    """Which layers become XD-operations, and of what kind. The paper's CIFAR setting:

    XDConfig(depth=3, b="trained", C="trained", kernel_size=5, boundary="wrap", max_pools=True, skips=True)
    """

    depth: Depth = None  # (K, L, M), one number for all, or None for the least that holds the layer
    b: Presence = "absent"  # pools and skips cannot do without b and C: there "absent" means "fixed"
    C: Presence = "absent"
    kernel_size: int | None = None  # filters are zero-padded around their centre to at least this size
    boundary: Literal["exact", "wrap"] = "exact"  # "wrap": convolutions circular at the input's own size, as in the paper
    size: SizeRule = "cheapest"  # of convolutions' operations; "power" with boundary "wrap" is the reference's: zeros up to there
    domain: Domain = DEFAULT_DOMAIN  # "half": half the points; Fourier layers, circular without padding, are always "full"
    perturb: float = 0.0  # relative size of the noise on the architecture parameters that are trained
    seed: int = 0  # of that noise, and of the weights that pools and skips get
    trained: tuple[str, ...] = ARCHITECTURE  # which of K, L, M, b, C learn
    causal: bool = False  # outputs never see later inputs, whatever the architecture parameters become
    shift_invariant: bool = False  # convolutions stay the same at every position: each tap becomes a filter of `span` points
    span: int = 32  # of shift-invariant operations, in every dimension; more where a layer itself reaches farther
    convs: bool = True
    pointwise: bool = True  # convolutions of one point, which mix channels only, among them
    pools: bool = True  # average pools
    max_pools: bool = False  # start as the average pool of the same size
    skips: bool = False  # nn.Identity and empty nn.Sequential
    shortcuts: tuple[str, ...] = ()  # names of modules that subsample and zero-pad channels ("option A")
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, hash=False)  # name pattern -> other fields

    def __post_init__(self) -> None:
        check_fields(self)
        fields = {f.name for f in dataclasses.fields(self)} - {"overrides", "shortcuts"}
        for pattern, changes in self.overrides.items():
            if unknown := set(changes) - fields:
                raise XDError(
                    f"overrides for {pattern!r} of {', '.join(sorted(unknown))}",
                    f"some of {', '.join(sorted(fields))}",
                    'overrides={"layer1.*": {"depth": 3}}',
                )
            dataclasses.replace(self, overrides={}, **changes)  # refuses bad values now
        check_names(self.trained, 'trained=("K", "L", "M")')
        if self.depth is not None:
            resolve_depth(self.depth, needs_permutation=False)
        if not 0 <= self.perturb < float("inf"):
            raise XDError(f"perturb={self.perturb}", "zero or a positive number", "perturb=0.01")
        if self.span < 1:
            raise XDError(f"span={self.span}", "a positive number of points", "span=32")
        if self.span > LARGEST_SPAN:
            raise XDError(f"span={self.span}", f"at most {LARGEST_SPAN} points", "as many as outputs should see of the inputs")
        if self.shift_invariant and self.boundary == "wrap":
            raise XDError('shift_invariant=True with boundary="wrap"', "the boundary of the layer itself", 'boundary="exact"')
        if self.kernel_size is not None and self.kernel_size < 1:
            raise XDError(f"kernel_size={self.kernel_size}", "a positive integer, or None", "kernel_size=5")

    def at(self, name: str) -> "XDConfig":
        """The settings of one layer: where several patterns match, later ones win."""
        changes: dict[str, Any] = {}
        for pattern, fields in self.overrides.items():
            if fnmatchcase(name, pattern):
                changes.update(fields)
        return dataclasses.replace(self, overrides={}, **changes)

    def shape(self) -> dict[str, Any]:
        """The settings that decide what a layer becomes, rather than whether it does."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in _WHETHER}

    def check_patterns(self, names: Collection[str]) -> None:
        """A pattern that matches no module is a typo."""
        for pattern in (*self.overrides, *self.shortcuts):
            if not any(fnmatchcase(name, pattern) for name in names):
                some = ", ".join([n for n in names if n][:12])
                raise XDError(f"the name pattern {pattern!r}", f"one that matches a module: {some}, ...", "model.named_modules()")


def check_config(config: object) -> None:
    if not isinstance(config, XDConfig):
        raise XDError(f"a config that is a {type(config).__name__}", "an XDConfig", 'XDConfig(depth=3, b="trained")')
