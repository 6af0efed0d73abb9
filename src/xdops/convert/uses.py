"""What every layer really sees: the model runs once on an example, and nothing about it changes."""

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from xdops.errors import XDError, first_line

#: A tensor is the only argument, a tuple holds positional ones, a dict keyword ones.
ExampleInput = Tensor | tuple[Any, ...] | Mapping[str, Any]

#: How many examples of a batch are kept.
EXAMPLES = 4


@dataclass
class Uses:
    """One module's calls: an (input, output) pair for every input shape, or why its calls cannot be those of an operation."""

    recorded: dict[tuple[int, ...], tuple[Tensor, Tensor]] = field(default_factory=dict)
    problem: str | None = None
    random: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    @property
    def pairs(self) -> list[tuple[Tensor, Tensor]]:
        return [*self.recorded.values(), *self.random]

    def largest_error(self, edge: nn.Module) -> float:
        """max |edge(x) - y| / max |y| over all positions of the example's inputs and of random ones; infinite if it refuses one."""
        try:
            return max((relative_difference(edge(x), y) for x, y in self.pairs), default=0.0)
        except XDError:
            return float("inf")

    def add_random(self, module: nn.Module) -> None:
        """The module on random numbers of the same shapes: an example of zeros, say, would not tell layers apart."""
        for x, _ in self.recorded.values():
            noise = torch.randn_like(x[:1])
            self.random.append((noise, module(noise.clone()).clone()))

    def add(self, given: tuple[Any, ...], keywords: Iterable[str], output: Any) -> None:
        tensors = [t for t in (*given, output) if isinstance(t, Tensor) and t.dim()]
        if len(given) != 1 or len(tensors) != 2:
            self.problem = "its calls are more than one tensor in, one out"
        elif not {*keywords} <= {"input"}:
            self.problem = f"it is called by keyword, {', '.join(keywords)}=..., where an operation takes input=..."
        else:
            self.recorded.setdefault(tuple(given[0].shape[1:]), (given[0], output[:EXAMPLES].detach().clone()))


def relative_difference(given: Tensor, expected: Tensor) -> float:
    """max |given - expected| / max |expected|, not counting entries that are the same infinity, or NaN, in both."""
    if given.shape != expected.shape:
        return float("inf")
    same = (given == expected) | (given.isnan() & expected.isnan())
    away = float(torch.where(same, 0.0, (given - expected).abs()).max()) if given.numel() else 0.0
    scale = float(torch.where(expected.isfinite(), expected, 0.0).abs().max()) if given.numel() else 0.0
    if math.isnan(away):
        return float("inf")
    return away / scale if scale else away


def record_uses(model: nn.Module, example_input: ExampleInput, modules: Mapping[str, nn.Module]) -> tuple[dict[str, Uses], Any]:
    """Run the model once in eval mode, without gradients; note what the given modules receive and give, and its output."""
    args, kwargs = arguments(example_input)
    uses = {name: Uses() for name in modules}
    inputs: dict[int, tuple[Any, ...]] = {}
    with undisturbed(model), ExitStack() as stack:
        for name, module in modules.items():

            def before(m: nn.Module, a: tuple[Any, ...], k: dict[str, Any]) -> None:
                # A later in-place operation may overwrite the input.
                given = [v for v in (*a, *k.values()) if v is not None]
                inputs[id(m)] = tuple(v[:EXAMPLES].detach().clone() if isinstance(v, Tensor) and v.dim() else v for v in given)

            def after(m: nn.Module, a: tuple[Any, ...], k: dict[str, Any], output: Any, name: str = name) -> None:
                uses[name].add(inputs.pop(id(m)), [key for key, v in k.items() if v is not None], output)

            stack.callback(module.register_forward_pre_hook(before, with_kwargs=True).remove)
            stack.callback(module.register_forward_hook(after, with_kwargs=True).remove)
        try:
            output = model(*args, **kwargs)
        except Exception as error:
            raise XDError(
                f"an example input on which the model fails ({first_line(error)})",
                "one that model(...) accepts",
                "a tensor, a tuple of positional arguments, or a dict of keyword arguments, on the model's device and in its dtype",
            ) from error
    return uses, output


def arguments(example_input: ExampleInput) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(example_input, Tensor):
        return (example_input,), {}
    if isinstance(example_input, tuple):
        return example_input, {}
    if isinstance(example_input, Mapping):
        return (), dict(example_input)
    raise XDError(
        f"an example input of type {type(example_input).__name__}",
        "a tensor, a tuple of positional arguments, or a dict of keyword arguments",
        "(example,) for a model whose only argument it is",
    )


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Eval mode without gradients; afterwards modes, buffers and random state are what they were."""
    modes = {module: module.training for module in model.modules() if hasattr(module, "training")}  # torch.jit.freeze removes it
    buffers = [(module, dict(module._buffers.items())) for module in model.modules()]
    values = {id(b): (b, b.clone()) for _, own in buffers for b in own.values() if b is not None}
    with preserved_rng(), torch.no_grad():
        model.eval()
        try:
            yield
        finally:
            for module, training in modes.items():
                module.training = training
            for module, own in buffers:
                if not isinstance(module, torch.jit.ScriptModule):  # which cannot bind other tensors to its buffers
                    module._buffers.update(own)
            for buffer, value in values.values():
                if not torch.equal(buffer, value):
                    buffer.copy_(value)


@contextmanager
def preserved_rng(seed: int | None = None) -> Iterator[None]:
    """torch's random state afterwards is what it was before; inside it starts from `seed`, if there is one."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        if seed is not None:
            torch.manual_seed(seed)
        yield
