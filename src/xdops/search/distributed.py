"""Devices, precision and several processes, through Lightning Fabric."""

import atexit
import logging
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from lightning_fabric.strategies import DDPStrategy
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from xdops.errors import XDError
from xdops.measuring.precision import check_precision
from xdops.search.settings import Accelerator, SearchSettings

logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # it announces every choice that the settings already tell


def under_torchrun() -> bool:
    return torch.distributed.is_torchelastic_launched()


def check_accelerator(name: Accelerator) -> None:
    """Refuse a device that this machine does not have."""
    present = {"auto": True, "cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not present[name]:
        here = ", ".join(other for other, there in present.items() if there)
        raise XDError(f"accelerator {name}, which this machine does not have", f"one of {here}", "accelerator auto")


class OwnProcesses(LightningEnvironment):
    """This process and those that it starts, whatever the environment says of others: a batch system, an earlier launcher."""

    def __init__(self, rank: int = 0, port: int = -1) -> None:
        """rank and port: of a process that was started, which number it is and where the first one waits for the others."""
        super().__init__()
        self._rank, self._main_port = rank, port

    @property
    def creates_processes_externally(self) -> bool:
        return True  # see `xdops.search.children`

    @property
    def main_address(self) -> str:
        return "127.0.0.1"

    @property
    def main_port(self) -> int:
        return self._main_port

    def local_rank(self) -> int:
        return self._rank

    def node_rank(self) -> int:
        return 0

    def teardown(self) -> None:
        return None


def check_environment() -> None:
    """Refuse what is no number where torchrun, or somebody in its place, has put one."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE") if under_torchrun() else ():
        value = os.environ.get(name, "")
        if not value.isdecimal() or (name.endswith("SIZE") and int(value) == 0):
            given = f"{name}={value} in the environment"
            raise XDError(given, "a whole number, as torchrun sets it", f"unset {name}, or start it by torchrun")


def check_machine(settings: SearchSettings) -> None:
    """Refuse a device or a precision that this machine does not have, before anything is written."""
    check_environment()
    check_accelerator(settings.accelerator)
    gpu = torch.cuda.is_available() or torch.backends.mps.is_available()
    on_cpu = settings.accelerator == "cpu" or (settings.accelerator == "auto" and not gpu)
    if settings.precision == "bf16-mixed" and on_cpu:
        check_precision(settings.precision, torch.bfloat16)


def make_fabric(settings: SearchSettings, own: OwnProcesses | None = None) -> Fabric:
    """Fabric for the settings: `processes` on this machine (own: which of them this is), or those that torchrun has started."""
    check_machine(settings)
    world, nodes = settings.processes, 1
    if under_torchrun():
        world, local = int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_WORLD_SIZE"])
        nodes = world // local
        if settings.processes not in (1, world):
            raise XDError(
                f"processes={settings.processes} under torchrun with {world} processes",
                f"{world}, or 1 for what torchrun started",
                "processes=1",
            )
    options: dict[str, Any] = {"accelerator": settings.accelerator, "precision": settings.precision, "num_nodes": nodes}
    if not under_torchrun():
        options["plugins"] = [own or OwnProcesses()]
    if world > 1:
        # Layers that a network never reaches have no gradient, on any process.
        return Fabric(devices=world // nodes, strategy=DDPStrategy(find_unused_parameters=True), **options)
    return Fabric(devices=1, **options)


class _Parcel:
    """What Fabric is not to look into: it copies modules on their way, and stumbles over frozen dataclasses."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.function, self.arguments = function, arguments


def _unpack(fabric: Fabric, network: nn.Module, parcel: _Parcel) -> Any:
    return parcel.function(fabric, network, *parcel.arguments)


def launch(fabric: Fabric, function: Callable[..., Any], network: nn.Module, *arguments: Any) -> Any:
    """function(fabric, network, *arguments) in this process, once it is connected with the others, if there are any."""
    start: Callable[..., Any] = _unpack
    if fabric.world_size > 1:
        atexit.unregister(_disconnect)
        atexit.register(_disconnect)
    return fabric.launch(start, network, _Parcel(function, arguments))


def _disconnect() -> None:
    """End the threads of the connection: one that asks for the interpreter while it shuts down aborts the process."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def parallel(fabric: Fabric, network: nn.Module) -> nn.Module:
    """The network whose backward pass averages gradients over processes; to be made anew when other parameters learn."""
    return fabric.strategy.setup_module(network)


def unsynchronised(network: nn.Module) -> AbstractContextManager[Any]:
    """Backward passes whose gradients only add up."""
    return network.no_sync() if isinstance(network, DistributedDataParallel) else nullcontext()


def total(fabric: Fabric, *values: float) -> list[float]:
    """Each value summed over the processes."""
    if fabric.world_size == 1:
        return list(values)
    tensor = torch.tensor(values, dtype=torch.float64 if fabric.device.type != "mps" else torch.float32, device=fabric.device)
    torch.distributed.all_reduce(tensor)
    return tensor.tolist()


def same_buffers(fabric: Fabric, network: nn.Module) -> None:
    """Give every process the first one's buffers, e.g. running statistics."""
    if fabric.world_size > 1:
        for buffer in network.buffers():
            torch.distributed.broadcast(buffer, 0)


def gather(fabric: Fabric, part: Tensor, lengths: list[int]) -> Tensor:
    """The parts of all processes, of these lengths, one after the other."""
    if fabric.world_size == 1:
        return part
    padded = part.new_zeros(max(lengths), *part.shape[1:])
    padded[: len(part)] = part
    parts = [torch.empty_like(padded) for _ in lengths]
    torch.distributed.all_gather(parts, padded)
    return torch.cat([p[:n] for p, n in zip(parts, lengths, strict=True)])
