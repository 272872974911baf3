"""Micro-benchmarks of a device: how long each kernel of `cases.py` takes, alone and inside layers; launches and copies.

On a GPU times are those of the kernels themselves, as torch's profiler has them from CUPTI; on a CPU those of the calls.
"""

from __future__ import annotations

import bisect
import gc
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from .cases import Call, Case, Maker
from .devices import device_of, synchronize
from .failure import Failure, is_out_of_memory
from .layers import Layers
from .requests import Measure

# Cases of one recording: the profiler keeps all events in memory until it is stopped.
CHUNK = 250
# Calls of a case that count, after one that does not.
CALLS = 3
MARK = "llmprof:"

Progress = Callable[[int, int], None]


@torch.no_grad()
def run(request: Measure, progress: Progress) -> dict[str, Any]:
    device = device_of(request.device)
    if device.type not in ("cpu", "cuda"):
        raise Failure("unsupported", f"kernels are measured on cuda and cpu, not on `{request.device}`")
    started = time.monotonic()
    bench = Bench(device, started + request.seconds)
    maker = Maker(device, torch.bfloat16, request.full)
    launches = launch_times(device, 1000 if request.full else 10)
    copies = copy_rates(device, 1 << 28 if request.full else 1 << 16)
    # Layers first: they are few, and nothing else says what kernels take among others.
    layers = Layers(device, torch.bfloat16, request.full)
    for batch, queries, past in layers.shapes():
        bench.layers(layers, batch, queries, past)
    del layers
    cases = list(maker.cases())
    for at in range(0, len(cases), CHUNK):
        bench.cases(cases[at : at + CHUNK])
        progress(min(at + CHUNK, len(cases)), len(cases))
    return {
        **facts(device), "seconds": time.monotonic() - started, "samples": bench.samples, "skipped": bench.skipped,
        "failed": bench.failed, "launches": launches, "copies": copies,
    }


def facts(device: torch.device) -> dict[str, Any]:
    data: dict[str, Any] = {"torch": torch.__version__, "name": "cpu"}
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        data |= {"name": properties.name, "memory_bytes": properties.total_memory, "units": properties.multi_processor_count,
                 "l2_bytes": getattr(properties, "L2_cache_size", None)}
    return data


class Bench:
    """Runs cases until a deadline, and keeps what each kernel took."""

    def __init__(self, device: torch.device, deadline: float) -> None:
        self.device = device
        self.deadline = deadline
        self.samples: list[dict[str, Any]] = []
        self.skipped = 0
        self.failed: dict[str, int] = defaultdict(int)

    def late(self) -> bool:
        return time.monotonic() > self.deadline

    def cases(self, cases: list[Case]) -> None:
        def body() -> None:
            for index, case in enumerate(cases):
                if self.late():
                    self.skipped += 1
                    continue
                try:
                    call = case.prepare()
                    self.repeat(call, f"{MARK}{index}")
                except Exception as error:
                    self.fail(error)

        for mark, times in self.recorded(body).items():
            self.keep(cases[int(mark)].kernel, sum(times) / CALLS, False)

    def repeat(self, call: Call, mark: str) -> None:
        call(0)
        synchronize(self.device)
        with record_function(mark):
            for turn in range(CALLS):
                call(turn + 1)
            synchronize(self.device)

    def layers(self, layers: Layers, batch: int, queries: int, past: int) -> None:
        if self.late():
            self.skipped += 1
            return
        kernels: list[dict[str, Any]] = []

        def note(kernel: dict[str, Any]) -> Any:
            kernels.append(kernel)
            return record_function(f"{MARK}{len(kernels) - 1}")

        try:
            layers.run(batch, queries, past, lambda _: record_function("warm_up"))
            synchronize(self.device)
            found = self.recorded(lambda: layers.run(batch, queries, past, note))
        except Exception as error:
            return self.fail(error)
        # The same shapes come again in each layer.
        together: dict[str, list[float]] = defaultdict(list)
        named = {}
        for mark, times in found.items():
            kernel = kernels[int(mark)]
            named[str(kernel)] = kernel
            together[str(kernel)].append(sum(times))
        for name, times in together.items():
            self.keep(named[name], statistics.median(times), True)

    def keep(self, kernel: dict[str, Any], ns: float, in_model: bool) -> None:
        if ns > 0:
            self.samples.append({"kernel": kernel, "ns": ns, "in_model": in_model})

    def fail(self, error: Exception) -> None:
        reason = "out of memory" if is_out_of_memory(error) else f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"
        self.failed[reason] += 1
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def recorded(self, body: Callable[[], None]) -> dict[str, list[float]]:
        """Times in ns by mark: of kernels that were launched inside its range, or of the range itself on a CPU."""
        activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if self.device.type == "cuda" else [])
        with profile(activities=activities) as recording:
            body()
            synchronize(self.device)
        events = recording.profiler.kineto_results.events()  # type: ignore[union-attr]
        cpu = torch.autograd.DeviceType.CPU
        ranges = sorted((event.start_ns(), event.start_ns() + event.duration_ns(), event.name()[len(MARK) :])
                        for event in events if event.device_type() == cpu and event.name().startswith(MARK))
        if self.device.type != "cuda":
            return {mark: [end - start] for start, end, mark in ranges}
        starts = [start for start, _, _ in ranges]
        launched = {event.correlation_id(): event.start_ns() for event in events if event.device_type() == cpu}
        found: dict[str, list[float]] = defaultdict(list)
        for event in events:
            if event.device_type() == cpu or event.name().startswith((MARK, "warm_up")):
                continue
            at = launched.get(event.linked_correlation_id())
            place = -1 if at is None else bisect.bisect_right(starts, at) - 1
            if place >= 0 and at <= ranges[place][1]:  # type: ignore[operator]
                found[ranges[place][2]].append(event.duration_ns())
        return found


def launch_times(device: torch.device, launches: int) -> dict[str, float]:
    """Time of the host for each launch, and of each kernel of a graph, in ns: tiny kernels one after the other."""
    x = torch.zeros(32, device=device)

    def many() -> None:
        for _ in range(launches):
            x.add_(1)

    times = {"host_ns": best(many, device) / launches}
    if device.type == "cuda":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            many()
        times["graph_kernel_ns"] = best(graph.replay, device) / launches
        single = torch.cuda.CUDAGraph()
        with torch.cuda.graph(single):
            x.add_(1)
        times["graph_launch_ns"] = best(single.replay, device)
    return times


def copy_rates(device: torch.device, size: int) -> dict[str, float]:
    """Bytes per second from, to and within the device."""
    there = torch.empty(size, dtype=torch.uint8, device=device)
    rates = {"device": 2 * size / best(there.clone, device) * 1e9}
    if device.type == "cuda":
        here = torch.empty(size, dtype=torch.uint8, pin_memory=True)
        rates["to_device"] = size / best(lambda: there.copy_(here, non_blocking=True), device) * 1e9
        rates["from_device"] = size / best(lambda: here.copy_(there, non_blocking=True), device) * 1e9
    return rates


def best(body: Callable[[], Any], device: torch.device) -> float:
    """The shortest of some runs, in ns, until the device is done."""
    times = []
    for _ in range(6):
        synchronize(device)
        start = time.perf_counter_ns()
        body()
        synchronize(device)
        times.append(time.perf_counter_ns() - start)
    return float(max(min(times), 1))
