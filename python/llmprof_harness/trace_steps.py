"""Steps of a run, one row each: by the ranges of its trace, or by the pattern of its launches."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from .binary import run_llmprof
from .steps import StepLabel
from .table import Table, Value

COLUMNS = (
    "step",
    "phase",
    "label",
    "start_ns",
    "duration_ns",
    "sequences",
    "new_tokens",
    "cached_tokens",
    "kernels",
    "kernel_ns",
)

# Written by a worker of llmprof; says nothing of the batch.
_PLAIN_STEP = "decode_step"
_RANGES = """
    SELECT name, start, duration, thread FROM ranges_view
    WHERE kind IN ('user_annotation', 'nvtx') AND (name LIKE 'llmprof.step %' OR name = ?)
    ORDER BY start
"""


def steps_of_trace(run: Path) -> Table:
    """Ranges of steps in the trace of a run. A kernel belongs to the step in which it was launched."""
    with tempfile.TemporaryDirectory(prefix="llmprof-") as folder:
        file = Path(folder) / "trace.sqlite"
        run_llmprof(["export", str(run), "--to", "sqlite", "-o", str(file)])
        with closing(sqlite3.connect(file)) as database:
            return Table(_rows(database), COLUMNS)


def _rows(database: sqlite3.Connection) -> Iterator[dict[str, Value]]:
    ranges = database.execute(_RANGES, (_PLAIN_STEP,)).fetchall()
    if not ranges:
        return
    launched = _Launched(database)
    number = 0
    for name, start, duration, thread in ranges:
        label: StepLabel | None = None
        if name != _PLAIN_STEP:
            try:
                label = StepLabel.parse(name)
            except ValueError:
                continue
        kernels, kernel_ns = launched.between(thread, start, start + duration)
        yield {
            "step": number,
            "phase": label.phase if label else "decode",
            "label": name,
            "start_ns": start,
            "duration_ns": duration,
            "sequences": label.sequences if label else None,
            "new_tokens": label.new_tokens if label else None,
            "cached_tokens": label.cached_tokens if label else None,
            "kernels": kernels,
            "kernel_ns": kernel_ns,
        }
        number += 1


class _Launched:
    """Kernels by the thread and time of their launch."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self.threads: dict[Any, tuple[list[int], list[int], list[int]]] = {}
        rows = database.execute(
            """
            SELECT hosts.thread, hosts.start, count(*), sum(kernels.duration)
            FROM kernels JOIN hosts ON hosts.correlation = kernels.correlation
            WHERE kernels.correlation != 0 AND hosts.kind IN ('cuda_runtime', 'cuda_driver')
            GROUP BY hosts.id ORDER BY hosts.thread, hosts.start
            """
        )
        for thread, start, count, time in rows:
            starts, counts, times = self.threads.setdefault(thread, ([], [0], [0]))
            starts.append(start)
            counts.append(counts[-1] + count)
            times.append(times[-1] + time)

    def between(self, thread: Any, start: int, end: int) -> tuple[int, int]:
        """Number and time of the kernels that were launched on a thread in [start, end)."""
        starts, counts, times = self.threads.get(thread, ([], [0], [0]))
        first, last = bisect_left(starts, start), bisect_left(starts, end)
        return counts[last] - counts[first], times[last] - times[first]


def steps_of_phases(run: Path) -> Table:
    """Passes of the phases that llmprof found otherwise, as by the shapes of operators; times since the first event."""
    query = "SELECT phase, start_ns, duration_ns FROM step ORDER BY start_ns"
    steps = json.loads(run_llmprof(["query", str(run), query, "--format", "json"]))
    rows: list[dict[str, Value]] = [
        {
            **dict.fromkeys(COLUMNS),
            "step": number,
            "phase": step["phase"].removesuffix("_step"),
            "label": step["phase"],
            "start_ns": step["start_ns"],
            "duration_ns": step["duration_ns"],
        }
        for number, step in enumerate(steps)
    ]
    return Table(rows, COLUMNS)


def pattern_steps(analysis: dict[str, Any]) -> Table:
    """Steps that llmprof found by the pattern of launches."""
    patterns = (((analysis.get("timeline") or {}).get("steps")) or {}).get("patterns") or []
    found = [
        (start, duration, pattern)
        for pattern in patterns
        for start, duration in zip(pattern["start_ns"], pattern["step_ns"])
    ]
    found.sort(key=lambda step: step[0])
    rows: list[dict[str, Value]] = [
        {
            **dict.fromkeys(COLUMNS),
            "step": number,
            "label": pattern["name"],
            "start_ns": start,
            "duration_ns": duration,
            "kernels": pattern["kernels"],
        }
        for number, (start, duration, pattern) in enumerate(found)
    ]
    return Table(rows, COLUMNS)
