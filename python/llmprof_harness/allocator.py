"""What torch's CUDA allocator did: its figures, its peaks, its history."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ._torch import has_cuda, require_torch

_log = logging.getLogger("llmprof_harness")

# Our names for what torch counts.
_FIGURES = {
    "allocated_bytes": "allocated_bytes.all.current",
    "peak_allocated_bytes": "allocated_bytes.all.peak",
    "reserved_bytes": "reserved_bytes.all.current",
    "peak_reserved_bytes": "reserved_bytes.all.peak",
    "active_bytes": "active_bytes.all.current",
    "inactive_split_bytes": "inactive_split_bytes.all.current",
    "retries": "num_alloc_retries",
    "out_of_memory": "num_ooms",
}


def allocator_stats(device: Any = None) -> dict[str, float]:
    """The allocator's figures now. Empty without a GPU.

    `fragmentation` is the share of reserved memory that lies free inside blocks that were split: it can be used for
    smaller tensors only, and cannot be returned to the device.
    """
    if not has_cuda():
        return {}
    torch = require_torch("allocator_stats")
    return figures(torch.cuda.memory_stats(device))


def figures(stats: dict[str, int]) -> dict[str, float]:
    """Our figures from `torch.cuda.memory_stats()`."""
    found: dict[str, float] = {ours: stats[theirs] for ours, theirs in _FIGURES.items() if theirs in stats}
    reserved = found.get("reserved_bytes", 0)
    if "inactive_split_bytes" in found:
        found["fragmentation"] = found["inactive_split_bytes"] / reserved if reserved else 0.0
    return found


def reset_allocator_peaks(device: Any = None) -> None:
    """Peaks count from now on. Nothing without a GPU."""
    if has_cuda():
        require_torch("reset_allocator_peaks").cuda.reset_peak_memory_stats(device)


@contextmanager
def allocator_history(path: str | Path, *, max_entries: int = 100_000) -> Iterator[None]:
    """Records every allocation in the block with its stack, and leaves torch's memory snapshot in `path`, also where the
    block fails: `llmprof import` reads it. Without a GPU there is no file."""
    if not has_cuda():
        _log.warning("no memory snapshot is taken: torch sees no GPU")
        yield
        return
    memory = require_torch("allocator_history").cuda.memory
    memory._record_memory_history(max_entries=max_entries)
    try:
        yield
    finally:
        try:
            memory._dump_snapshot(str(path))
        finally:
            memory._record_memory_history(enabled=None)
