"""The fixture `llmprof_regression`: a test fails where something takes longer, or more, than it did.

pytest loads this module where llmprof is installed. `pytest --llmprof-update` keeps what is measured as the baseline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from .regression import Baselines, Better, change, machine, measure_seconds

_DEFAULT_FILE = "llmprof-baselines.json"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("llmprof")
    group.addoption(
        "--llmprof-update",
        action="store_true",
        help="keep what tests measure with llmprof_regression as the baseline of this machine",
    )
    parser.addini("llmprof_baselines", f"file of baselines, from the root directory [{_DEFAULT_FILE}]", default=_DEFAULT_FILE)


class Regression:
    """What the fixture gives to a test."""

    def __init__(self, test: str, baselines: Baselines, update: bool) -> None:
        self._test = test
        self._baselines = baselines
        self._update = update

    def measure(
        self,
        function: Callable[[], object],
        *,
        name: str = "time",
        repeats: int = 20,
        warmup: int = 3,
        limit: float = 0.05,
    ) -> list[float]:
        """Calls a function `repeats` times and fails the test where it takes more than `limit` longer than it did. The
        answer is the seconds of each call."""
        seconds = measure_seconds(function, repeats, warmup)
        self.check(name, seconds, limit=limit, unit="s")
        return seconds

    def check(
        self,
        name: str,
        values: float | Sequence[float],
        *,
        limit: float = 0.05,
        better: Better = "lower",
        unit: str = "",
    ) -> None:
        """Fails the test where values, such as those of `load(RUN).metrics`, are more than `limit` worse than they were. One
        value is compared as it is, several by the interval of the ratio of medians."""
        __tracebackhide__ = True
        if limit < 0:
            raise ValueError(f"limit is a share such as 0.05, not {limit}")
        listed = [float(values)] if isinstance(values, (int, float)) else [float(value) for value in values]
        key = f"{self._test}[{name}]"
        here = machine()
        if self._update:
            # Values that cannot be compared must not become a baseline.
            change(listed, listed, better)
            self._baselines.put(here, key, listed, unit)
            return
        before = self._baselines.get(here, key)
        if before is None:
            others = self._baselines.machines(key)
            known = f" (there is one of {', '.join(others)})" if others else ""
            pytest.fail(
                f"no baseline of {name} on {here}{known}; `pytest --llmprof-update` keeps one in {self._baselines.path}",
                pytrace=False,
            )
        found = change(before, listed, better)
        if found.exceeds(limit):
            pytest.fail(f"{name} is worse: {found}, limit {1 + limit:.3f}×", pytrace=False)


@pytest.fixture
def llmprof_regression(request: pytest.FixtureRequest) -> Regression:
    """Fails the test where a measurement is worse than the one that was kept for this machine."""
    config = request.config
    path = Path(config.rootpath, config.getini("llmprof_baselines"))
    return Regression(request.node.nodeid, Baselines(path), bool(config.getoption("--llmprof-update")))
