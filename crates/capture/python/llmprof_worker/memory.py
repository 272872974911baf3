"""What the allocator of a CUDA device did during a batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from .issues import Issues

# Entries of the allocator's history, at most: about 100 bytes each without stacks.
MOST_ENTRIES = 1_000_000


class Memory:
    """Counts from `begin` to `end`. A CPU has no such allocator, and then there is nothing to tell."""

    def __init__(self, device: torch.device, snapshot: str | None, issues: Issues) -> None:
        self._device = device
        self._snapshot = snapshot
        self._before: dict[str, Any] = {}
        if snapshot and device.type != "cuda":
            self._snapshot = None
            issues.add("info", "memory.no_history", "only the allocator of a CUDA device has a history")

    def begin(self) -> None:
        if self._device.type != "cuda":
            return
        torch.cuda.reset_peak_memory_stats(self._device)
        self._before = torch.cuda.memory_stats(self._device)
        if self._snapshot:
            torch.cuda.memory._record_memory_history(max_entries=MOST_ENTRIES, stacks="python")

    def end(self) -> dict[str, Any] | None:
        if self._device.type != "cuda":
            return None
        after = torch.cuda.memory_stats(self._device)
        told = {
            "start_allocated_bytes": self._before["allocated_bytes.all.current"],
            "peak_allocated_bytes": after["allocated_bytes.all.peak"],
            "peak_reserved_bytes": after["reserved_bytes.all.peak"],
            "end_allocated_bytes": after["allocated_bytes.all.current"],
            "end_reserved_bytes": after["reserved_bytes.all.current"],
            "peak_inactive_split_bytes": after["inactive_split_bytes.all.peak"],
            "allocations": self._since(after, "allocation.all.allocated"),
            "retries": self._since(after, "num_alloc_retries"),
        }
        if self._snapshot:
            Path(self._snapshot).parent.mkdir(parents=True, exist_ok=True)
            torch.cuda.memory._dump_snapshot(self._snapshot)
            torch.cuda.memory._record_memory_history(enabled=None)
            told["snapshot"] = self._snapshot
        return told

    def _since(self, after: dict[str, Any], key: str) -> int:
        return after.get(key, 0) - self._before.get(key, 0)
