"""Runs a program as if its machine had one CUDA device.

Torch computes on the CPU and believes that it does not: what is asked of `cuda:0` is done there, and each operator gives the
device of `device.c` the kernel that it would launch. NVTX is torch's own.
"""

from __future__ import annotations

import contextlib
import gzip
import runpy
import sys
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

from device import TO_DEVICE, TO_HOST, Device, Graph
from kernels import is_view, kernel_of, writes_in_place

CPU = torch.device("cpu")
IS_CUDA = torch.Tensor.is_cuda.__get__
device = Device()


def on_cuda(value: Any) -> bool:
    return isinstance(value, torch.device) and value.type == "cuda"


class Placement(TorchFunctionMode):
    """Puts on the CPU what belongs on the device. All tensors are the device's, but those in pinned memory."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if function == IS_CUDA:
            return not is_pinned(args[0])
        pinned = kwargs.pop("pin_memory", False)
        sent = function is torch.tensor and on_cuda(kwargs.get("device"))
        args = [CPU if on_cuda(one) else one for one in args]
        kwargs = {name: CPU if on_cuda(one) else one for name, one in kwargs.items()}
        result = function(*args, **kwargs)
        if pinned:
            result.is_in_pinned_memory = True
        if sent:
            device.copy(TO_DEVICE, result.nbytes)
        return result


def is_pinned(tensor: torch.Tensor) -> bool:
    return getattr(tensor, "is_in_pinned_memory", False)


class Launching(TorchDispatchMode):
    """Every operator launches its kernel. Those that a graph captures are kept, to be done again with it."""

    def __init__(self) -> None:
        super().__init__()
        self.captured: list[tuple[Any, Any, Any, Any]] | None = None

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = operator(*args, **kwargs)
        kernel = kernel_of(operator)
        if operator is torch.ops.aten.copy_.default and is_pinned(args[0]):
            device.copy(TO_HOST, args[0].nbytes)
        elif kernel is not None:
            device.launch(*kernel)
        if self.captured is not None and not is_view(operator):
            self.captured.append((operator, args, kwargs, result))
        return result


launching = Launching()


class Generator(torch.Generator):
    def __new__(cls, device: Any = CPU) -> Generator:
        return super().__new__(cls, CPU)


class Event:
    def __init__(self, enable_timing: bool = False) -> None:
        self._time = 0

    def record(self) -> None:
        self._time = device.done()

    def synchronize(self) -> None:
        device.wait(self._time)

    def elapsed_time(self, later: Event) -> float:
        return (later._time - self._time) / 1e6


class Stream:
    def wait_stream(self, other: Stream) -> None:
        pass


class CUDAGraph:
    """Operators with the tensors that they read and wrote; a replay writes the same tensors again."""

    def __init__(self) -> None:
        self.graph: Graph = device.new_graph()
        self.operators: list[tuple[Any, Any, Any, Any]] = []

    def replay(self) -> None:
        device.launch_graph(self.graph)
        with _disable_current_modes(), torch.no_grad():
            for operator, args, kwargs, written in self.operators:
                result = operator(*args, **kwargs)
                if not writes_in_place(operator):
                    for old, new in zip(tree_leaves(written), tree_leaves(result)):
                        if isinstance(old, torch.Tensor):
                            old.copy_(new)


@contextlib.contextmanager
def capture(graph: CUDAGraph) -> Any:
    device.capturing, launching.captured = graph.graph, graph.operators
    try:
        yield
    finally:
        device.capturing = launching.captured = None


def memory_stats(*_: Any) -> dict[str, int]:
    parts = {"allocated_bytes": 3 << 20, "reserved_bytes": 4 << 20, "inactive_split_bytes": 1 << 20}
    stats = {f"{part}.all.{which}": size for part, size in parts.items() for which in ("current", "peak")}
    return {**stats, "allocation.all.allocated": 0, "num_alloc_retries": 0}


def dump_snapshot(path: str) -> None:
    """The history of a real allocator."""
    root = Path(__file__).resolve().parents[5]
    Path(path).write_bytes(gzip.decompress((root / "fixtures/h200/memory_snapshot.pickle.gz").read_bytes()))


def is_available() -> bool:
    device.start()
    return True


def with_ranges() -> None:
    push, pop = torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop

    def range_push(name: str) -> int:
        depth = push(name)
        device.push(name)
        return depth

    def range_pop() -> int:
        depth = pop()
        device.pop()
        return depth

    torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop = range_push, range_pop


def with_device() -> None:
    def nothing(*_: Any, **__: Any) -> None:
        pass

    cuda = torch.cuda
    cuda.is_available = cuda.is_initialized = is_available
    cuda.device_count = lambda: 1
    cuda.set_device = cuda.empty_cache = cuda.reset_peak_memory_stats = nothing
    cuda.get_device_name = lambda *_: "NVIDIA H200"
    cuda.synchronize = lambda *_: device.wait()
    cuda.memory_stats = memory_stats
    # Torch keeps a list of its functions, each of which must be another.
    cuda.memory._record_memory_history = lambda **_: None
    cuda.memory._dump_snapshot = dump_snapshot
    cuda.Event, cuda.Stream, cuda.CUDAGraph, cuda.graph = Event, Stream, CUDAGraph, capture
    cuda.current_stream = Stream
    cuda.stream = contextlib.nullcontext
    torch.Generator = Generator


def run(program: str) -> None:
    with_device()
    with_ranges()
    sys.argv = [program]
    with launching, Placement():
        runpy.run_path(program, run_name="__main__")
