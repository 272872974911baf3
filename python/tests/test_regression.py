from __future__ import annotations

import random
from pathlib import Path

import pytest

from llmprof_harness.regression import Baselines, change, measure_seconds

TEST = """
import time

def test_sleep(llmprof_regression):
    llmprof_regression.measure(lambda: time.sleep(float({seconds})), repeats=8, warmup=1, limit=0.2)

def test_count(llmprof_regression):
    llmprof_regression.check("kernels", {kernels}, limit=0)
"""


def test_the_interval_decides_not_the_ratio() -> None:
    steady = [10.0, 10.1, 9.9, 10.0, 10.05, 9.95]
    slower = [value * 1.2 for value in steady]
    found = change(steady, slower)
    assert found.worse == pytest.approx(1.2) and found.exceeds(0.05) and not found.exceeds(0.25)
    # A median that one more slow call would move says little.
    uncertain = change(steady, [9.9, 10.0, 10.0, 14.0, 14.0, 14.0])
    assert uncertain.worse > 1.15 and uncertain.low < 1.05 and not uncertain.exceeds(0.05)
    assert change(slower, steady, better="higher").exceeds(0.05)
    assert not change(steady, slower, better="higher").exceeds(0.05)


def test_intervals_hold_the_true_ratio_as_often_as_they_say() -> None:
    draw = random.Random(7)
    inside = 0
    for _ in range(100):
        before = [draw.lognormvariate(0, 0.1) for _ in range(20)]
        after = [1.1 * draw.lognormvariate(0, 0.1) for _ in range(20)]
        found = change(before, after)
        inside += found.low <= 1.1 <= found.high
    assert inside >= 88


def test_single_values_are_compared_as_they_are() -> None:
    assert change([1006], [1007]).exceeds(0)
    assert not change([1006], [1006]).exceeds(0)
    assert str(change([2], [3])) == "1.500×"
    assert change([0], [1]).exceeds(1e9) and not change([0], [0]).exceeds(0)
    for before, after in ([], [1]), ([1], []), ([1], [-1]):
        with pytest.raises(ValueError):
            change(before, after)


def test_calls_are_measured_one_by_one() -> None:
    calls: list[int] = []
    times = measure_seconds(lambda: calls.append(1), repeats=4, warmup=2)
    assert (len(times), len(calls)) == (4, 6) and all(time >= 0 for time in times)


def test_baselines_are_kept_by_machine_and_a_foreign_file_is_refused(tmp_path: Path) -> None:
    baselines = Baselines(tmp_path / "kept" / "baselines.json")
    assert baselines.get("h200", "a") is None
    baselines.put("h200", "a", [1.0, 2.0], "s")
    baselines.put("a100", "b", [3.0], "s")
    assert baselines.get("h200", "a") == [1.0, 2.0] and baselines.get("a100", "a") is None
    assert baselines.machines("b") == ["a100"]
    assert [path.name for path in baselines.path.parent.iterdir()] == ["baselines.json"]
    baselines.path.write_text('{"schema_version": 9}')
    with pytest.raises(ValueError, match="schema_version 1"):
        baselines.get("h200", "a")
    with pytest.raises(ValueError, match="schema_version 1"):
        baselines.put("h200", "a", [1.0], "s")


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    import importlib.metadata

    installed = any(entry.name == "llmprof" for entry in importlib.metadata.entry_points(group="pytest11"))
    if not installed:
        pytester.makeconftest('pytest_plugins = ["llmprof_harness.pytest_plugin"]')
        monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    return pytester


def test_a_test_fails_on_a_regression_and_on_nothing_else(suite: pytest.Pytester) -> None:
    suite.makepyfile(test_speed=TEST.format(seconds=0.01, kernels=1006))
    missing = suite.runpytest_subprocess()
    missing.assert_outcomes(failed=2)
    missing.stdout.fnmatch_lines(["*no baseline of kernels on *--llmprof-update*"])

    suite.runpytest_subprocess("--llmprof-update").assert_outcomes(passed=2)
    suite.runpytest_subprocess().assert_outcomes(passed=2)

    suite.makepyfile(test_speed=TEST.format(seconds=0.02, kernels=1007))
    worse = suite.runpytest_subprocess()
    worse.assert_outcomes(failed=2)
    worse.stdout.fnmatch_lines(["*time is worse: * (95 % interval *limit 1.200×*", "*kernels is worse: 1.001×*"])

    suite.makepyfile(test_speed=TEST.format(seconds=0.005, kernels=900))
    suite.runpytest_subprocess().assert_outcomes(passed=2)
