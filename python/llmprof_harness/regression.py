"""Whether a measurement is worse than one that was kept: the ratio of medians with a 95 % interval, and a limit for it.

The bound of the interval decides, not the ratio: a slow outlier widens the interval and is no regression by itself.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Literal

from ._torch import has_cuda, require_torch

Better = Literal["lower", "higher"]
RESAMPLES = 2000
SCHEMA = 1


@dataclass(frozen=True)
class Change:
    """How much worse the later values are: 1.1 is a tenth, whichever direction is the better one."""

    worse: float
    low: float
    high: float

    def exceeds(self, limit: float) -> bool:
        return self.low > 1 + limit

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.worse:.3f}×"
        return f"{self.worse:.3f}× (95 % interval {self.low:.3f} to {self.high:.3f})"


def change(before: Sequence[float], after: Sequence[float], better: Better = "lower") -> Change:
    """The ratio of medians, after ÷ before where lower is better; its interval by resampling both."""
    if not before or not after:
        raise ValueError("no values to compare")
    if min(*before, *after) < 0:
        raise ValueError("values to compare are not negative")
    if better == "higher":
        before, after = after, before
    worse = _ratio(median(after), median(before))
    if len(before) == 1 and len(after) == 1:
        return Change(worse, worse, worse)
    # Seeded, so that a test that is run again on the same numbers says the same.
    draw = random.Random(0).choices
    ratios = sorted(
        _ratio(median(draw(after, k=len(after))), median(draw(before, k=len(before)))) for _ in range(RESAMPLES)
    )
    edge = round(0.025 * RESAMPLES)
    return Change(worse, ratios[edge], ratios[-1 - edge])


def _ratio(after: float, before: float) -> float:
    if before == 0:
        return 1.0 if after == 0 else float("inf")
    return after / before


def measure_seconds(function: Callable[[], object], repeats: int, warmup: int) -> list[float]:
    """How long each call took, the GPU's work included."""
    if repeats < 1 or warmup < 0:
        raise ValueError(f"repeats is at least 1, warmup at least 0: {repeats=}, {warmup=}")
    wait: Callable[[], object] = require_torch("measure").cuda.synchronize if has_cuda() else lambda: None
    for _ in range(warmup):
        function()
    times = []
    for _ in range(repeats):
        wait()
        start = perf_counter()
        function()
        wait()
        times.append(perf_counter() - start)
    return times


def machine() -> str:
    """What times of one machine are comparable by: its GPU, or its processor and how many there are."""
    if has_cuda():
        return str(require_torch("machine").cuda.get_device_name())
    return f"{_processor()} × {os.cpu_count()}"


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


class Baselines:
    """Values that were kept, by machine and name, in one JSON file that belongs into version control."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def get(self, machine: str, name: str) -> list[float] | None:
        kept = self._read().get("machines", {}).get(machine, {}).get(name)
        return [float(value) for value in kept["values"]] if kept else None

    def machines(self, name: str) -> list[str]:
        """The machines that have a baseline of this name."""
        return [machine for machine, kept in self._read().get("machines", {}).items() if name in kept]

    def put(self, machine: str, name: str, values: Sequence[float], unit: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Several workers of pytest-xdist may do this at once. The folder is locked, so that no lock file stays behind.
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            contents = self._read()
            contents["schema_version"] = SCHEMA
            kept = contents.setdefault("machines", {}).setdefault(machine, {})
            kept[name] = {
                "values": list(values),
                "unit": unit,
                "kept": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            }
            beside = self.path.with_suffix(".new")
            beside.write_text(json.dumps(contents, indent=1, sort_keys=True) + "\n")
            beside.replace(self.path)
        finally:
            os.close(folder)

    def _read(self) -> dict[str, Any]:
        try:
            contents = json.loads(self.path.read_text())
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise ValueError(f"{self.path} is not a file of baselines: {error}") from error
        if not isinstance(contents, dict) or contents.get("schema_version") != SCHEMA:
            raise ValueError(f"{self.path} is not a file of baselines of schema_version {SCHEMA}")
        return contents
