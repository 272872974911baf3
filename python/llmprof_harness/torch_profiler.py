"""torch.profiler around a function that is called in steps, and its sums as CSV."""

from __future__ import annotations

import csv
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ._torch import has_cuda, require_torch
from .ranges import nvtx_range

OPS_COLUMNS = (
    "key",
    "cuda_time_total_us",
    "cpu_time_total_us",
    "self_cuda_time_total_us",
    "calls",
    "input_shapes",
    "self_cpu_memory_usage_bytes",
)


# Set by `llmprof record` in the processes it watches: RUN/cupti.
RECORDED = "LLMPROF_WIRE_DIR"


def activities(torch: Any) -> list[Any]:
    """What can be recorded here: the CPU always, CUDA where there is a GPU that `llmprof record` does not record already,
    since CUPTI has one user at a time."""
    kinds = torch.profiler.ProfilerActivity
    return [kinds.CPU, kinds.CUDA] if has_cuda() and RECORDED not in os.environ else [kinds.CPU]


def keeps_events(torch: Any) -> dict[str, bool]:
    """Options by which a profile keeps the events of all its cycles; torch warns where it does not."""
    known = inspect.signature(torch.profiler.profile).parameters
    return {"acc_events": True} if "acc_events" in known else {}


def all_threads(torch: Any) -> dict[str, Any]:
    """Options by which operators of every thread are recorded; older versions of torch record those of the caller alone."""
    try:
        config = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    except (AttributeError, TypeError):
        return {}
    return {"experimental_config": config}


def run_torch_profiler(
    step_fn: Callable[[int], object],
    steps: int,
    warmup: int = 5,
    repeat: int = 1,
    out_dir: str | Path = "prof_out",
    record_shapes: bool = True,
    with_stack: bool = True,
    profile_memory: bool = True,
) -> Any:
    """Calls `step_fn(i)` for `repeat` cycles of `warmup` unrecorded and `steps` recorded steps.

    Each cycle leaves a trace in `out_dir`, for TensorBoard, Perfetto or `llmprof import`. The answer is the profile; its
    sums hold every cycle where torch can keep them (2.5 and newer), else the last.
    """
    if steps < 1 or warmup < 0 or repeat < 1:
        raise ValueError(f"steps and repeat are at least 1, warmup at least 0: {steps=}, {repeat=}, {warmup=}")
    torch = require_torch("run_torch_profiler")
    profiler = torch.profiler
    Path(out_dir).mkdir(parents=True, exist_ok=True)
    with profiler.profile(
        activities=activities(torch),
        schedule=profiler.schedule(wait=0, warmup=warmup, active=steps, repeat=repeat),
        record_shapes=record_shapes,
        with_stack=with_stack,
        profile_memory=profile_memory,
        on_trace_ready=profiler.tensorboard_trace_handler(str(out_dir)),
        **keeps_events(torch),
    ) as prof:
        for i in range((warmup + steps) * repeat):
            with nvtx_range(f"step_{i}"):
                step_fn(i)
            prof.step()
    return prof


def prof_to_csv(prof: Any, csv_path: str | Path) -> None:
    """One row per operator and, where they were recorded, input shapes. Times are µs. A value that this torch does not
    have is an empty cell."""
    with Path(csv_path).open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(OPS_COLUMNS)
        for event in prof.key_averages(group_by_input_shape=True):
            rows.writerow(
                [
                    event.key,
                    _first(event, "device_time_total", "cuda_time_total"),
                    _first(event, "cpu_time_total"),
                    _first(event, "self_device_time_total", "self_cuda_time_total"),
                    _first(event, "count"),
                    _first(event, "input_shapes", "input_shape") or "",
                    _first(event, "self_cpu_memory_usage"),
                ]
            )


def _first(event: Any, *names: str) -> Any:
    """The first of these attributes that the event has: torch 2.4 renamed `cuda_time` to `device_time`."""
    for name in names:
        value = getattr(event, name, None)
        if value is not None:
            return value
    return None
