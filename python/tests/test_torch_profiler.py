from __future__ import annotations

import csv
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from llmprof_harness import allocator_history, allocator_stats, prof_to_csv, run_torch_profiler
from llmprof_harness.allocator import figures

COLUMNS = [
    "key",
    "cuda_time_total_us",
    "cpu_time_total_us",
    "self_cuda_time_total_us",
    "calls",
    "input_shapes",
    "self_cpu_memory_usage_bytes",
]


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("repeat", [1, 2])
def test_recorded_steps_are_in_the_traces_and_the_sums(tmp_path: Path, repeat: int) -> None:
    called: list[int] = []
    weights, x = torch.ones(16, 32), torch.ones(4, 16)

    def one_step(i: int) -> None:
        called.append(i)
        torch.mm(x, weights)

    prof = run_torch_profiler(one_step, steps=3, warmup=2, repeat=repeat, out_dir=str(tmp_path / "prof_out"))
    assert called == list(range(5 * repeat))
    traces = [json.loads(file.read_text()) for file in sorted((tmp_path / "prof_out").glob("*.pt.trace.json"))]
    assert len(traces) == repeat
    for number, trace in enumerate(traces):
        names = [event.get("name") for event in trace["traceEvents"] if event.get("cat") == "user_annotation"]
        first = 5 * number + 2
        assert {f"step_{first}", f"step_{first + 1}", f"step_{first + 2}"} <= set(names)
        assert sum(event.get("name") == "aten::mm" for event in trace["traceEvents"]) == 3

    prof_to_csv(prof, str(tmp_path / "ops.csv"))
    rows = table(tmp_path / "ops.csv")
    assert list(rows[0]) == COLUMNS
    (mm,) = (row for row in rows if row["key"] == "aten::mm")
    assert (mm["calls"], mm["input_shapes"]) == (str(3 * repeat), "[[4, 16], [16, 32]]")
    assert float(mm["cpu_time_total_us"]) > 0
    assert float(mm["cuda_time_total_us"]) == 0
    assert int(mm["self_cpu_memory_usage_bytes"]) == 3 * repeat * 4 * 32 * 4


@pytest.mark.parametrize("word", ["cuda", "device"])
def test_old_and_new_names_of_torch_give_the_same_file(tmp_path: Path, word: str) -> None:
    event = SimpleNamespace(
        key="aten::mm",
        cpu_time_total=7.5,
        count=2,
        input_shapes=[[4, 16], [16, 32]],
        self_cpu_memory_usage=0,
        **{f"{word}_time_total": 31.0, f"self_{word}_time_total": 30.0},
    )
    prof = SimpleNamespace(key_averages=lambda group_by_input_shape: [event])
    prof_to_csv(prof, tmp_path / "ops.csv")
    (row,) = table(tmp_path / "ops.csv")
    assert list(row.values()) == ["aten::mm", "31.0", "7.5", "30.0", "2", "[[4, 16], [16, 32]]", "0"]


def test_a_number_of_steps_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="steps=0"):
        run_torch_profiler(print, steps=0)


def test_the_allocator_of_an_h200_in_our_figures() -> None:
    file = Path(__file__).parent.parent.parent / "fixtures/h200/memory_stats.json"
    stats = json.loads(file.read_text())
    found = figures(stats)
    assert found["peak_allocated_bytes"] == stats["allocated_bytes.all.peak"] > 0
    assert found["fragmentation"] == stats["inactive_split_bytes.all.current"] / stats["reserved_bytes.all.current"]
    assert 0 < found["fragmentation"] < 1
    assert figures({}) == {}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_allocator_has_no_figures(tmp_path: Path) -> None:
    assert allocator_stats() == {}
    with allocator_history(tmp_path / "snapshot.pickle"):
        pass
    assert list(tmp_path.iterdir()) == []
