"""`profile()` and `load()` with the real binary."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import llmprof_harness
from llmprof_harness import LlmprofError, NotARun, Run, capture, load, nvtx_range, profile, step

HIDDEN = 64


class Decoder(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(HIDDEN, HIDDEN, bias=False) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> profile:
    request.getfixturevalue("binary")
    model = Decoder()
    with torch.inference_mode(), profile(tmp_path_factory.mktemp("runs") / "mine") as prof:
        with step(batch=2, new_tokens=128, cached=0):
            model(torch.ones(2 * 128, HIDDEN))
        for token in range(5):
            with step(batch=2, new_tokens=1, cached=128 + token):
                model(torch.ones(2, HIDDEN))
    return prof


def test_a_block_leaves_a_complete_run(captured: profile) -> None:
    run = captured.run
    assert run.status == "complete"
    names = {path.name for path in run.path.iterdir()}
    assert {"run.json", "metrics.json", "report.html", "report.md", "trace.llmprof", "ops.csv"} <= names
    assert (run.path / "torch_profiler/trace.json.gz").is_file()


def test_operators_are_those_that_ran(captured: profile) -> None:
    # Two layers in a prefill and five steps of decode.
    (row,) = [row for row in captured.ops if row["key"] == "aten::mm"]
    assert row["calls"] == 2 * 6
    rows = [row for row in captured.ops_by_shape if row["key"] == "aten::mm"]
    assert sum(row["calls"] for row in rows) == 2 * 6
    assert any("256" in row["input_shapes"] and row["calls"] == 2 for row in rows)


def test_steps_are_the_ranges_with_their_batches(captured: profile) -> None:
    steps = captured.steps
    assert steps.column("phase") == ["prefill"] + ["decode"] * 5
    assert steps.column("sequences") == [2] * 6
    assert steps.column("new_tokens") == [256] + [2] * 5
    assert steps.column("cached_tokens") == [0, 256, 258, 260, 262, 264]
    starts = steps.column("start_ns")
    ends = [start + duration for start, duration in zip(starts, steps.column("duration_ns"))]
    assert all(end <= start for end, start in zip(ends, starts[1:]))


def test_tables_go_into_pandas(captured: profile) -> None:
    pandas = pytest.importorskip("pandas")
    frame = captured.ops.to_pandas()
    assert list(frame.columns) == list(captured.ops.columns)
    assert frame["calls"].sum() == sum(captured.ops.column("calls"))
    assert frame.equals(pandas.DataFrame(captured.ops))
    with pytest.raises(KeyError, match="no column 'time'; there are key, "):
        captured.ops.column("time")


def test_a_notebook_shows_the_report_in_a_frame(captured: profile) -> None:
    page = captured._repr_html_()
    assert page.startswith('<iframe srcdoc="') and page.count("<") == 2
    assert "&lt;html" in page.lower()
    base, policy = page.index("&lt;base href=&quot;about:srcdoc&quot;&gt;"), page.index("Content-Security-Policy")
    assert base < policy
    assert "<table>" in captured.ops._repr_html_()


def test_a_run_is_loaded_from_its_directory(captured: profile, tmp_path: Path) -> None:
    run = load(str(captured.path))
    assert (run.ops, repr(run)) == (captured.ops, f"Run({str(captured.path)!r}, complete)")
    # A CPU has no kernels, and a block no requests.
    assert run.kernels == [] and run.requests == []
    with pytest.raises(NotARun, match="holds no run.json"):
        load(tmp_path)
    with pytest.raises(NotARun, match="is not there"):
        load(tmp_path / "missing")


def test_a_model_gives_rooflines(binary: Path, tmp_path: Path) -> None:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=256,
        max_position_embeddings=128,
    )
    model = Qwen2ForCausalLM(config).eval()
    prompt = torch.zeros(1, 16, dtype=torch.long)
    workload = {"prompt_tokens": 16}
    overrides = ["infer.max_new_tokens=1"]
    with torch.inference_mode(), profile(
        tmp_path / "run", model=model, workload=workload, overrides=overrides, device="h200"
    ) as run:
        with nvtx_range("prefill"):
            model(prompt)
    assert run.metrics["model"]["family"] == "qwen2"
    assert run.metrics["model"]["parameters"] == sum(parameter.numel() for parameter in model.parameters())
    # Operators of the model, with what each must cost.
    operators = load(tmp_path / "run").operators
    (gemm,) = [row for row in operators if row["operator"] == "gemm"]
    # Seven linear layers in each of two blocks, and the head.
    assert (gemm["phase"], gemm["calls"]) == ("prefill", 2 * 7 + 1)
    block = 64 * (64 + 32 + 32 + 64) + 3 * 64 * 128
    assert gemm["flops"] >= 2 * (16 * 2 * block + 64 * 256)


def test_a_block_that_fails_keeps_its_run_and_its_error(binary: Path, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        with profile(tmp_path / "run"):
            torch.ones(3) + 1
            1 / 0
    assert any(row["key"] == "aten::add" for row in load(tmp_path / "run").ops)


def test_mistakes_are_told_in_the_words_of_the_binary(binary: Path, tmp_path: Path) -> None:
    with pytest.raises(LlmprofError, match="h2000"):
        with profile(tmp_path / "a", device="h2000"):
            torch.ones(3) + 1
    with pytest.raises(ValueError, match="give model too"):
        profile(tmp_path / "b", workload={"prompt_tokens": 3})
    with pytest.raises(TypeError, match="not int"):
        with profile(tmp_path / "c", model=3):
            torch.ones(3) + 1
    with pytest.raises(RuntimeError, match="is complete when the block has ended"):
        profile(tmp_path / "d").run  # noqa: B018


def test_a_directory_with_a_run_is_left_alone(captured: profile) -> None:
    with pytest.raises(FileExistsError, match="holds a run already"):
        profile(captured.path).__enter__()


def test_a_directory_of_others_is_refused_before_the_block(tmp_path: Path) -> None:
    (tmp_path / "report.md").write_text("mine")
    with pytest.raises(FileExistsError, match="is not empty and llmprof did not make it"):
        profile(tmp_path).__enter__()
    assert (tmp_path / "report.md").read_text() == "mine"


def test_inside_of_llmprof_record_the_recording_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LLMPROF_WIRE_DIR", str(tmp_path / "run/cupti"))
    with profile(tmp_path / "other") as prof:
        torch.ones(3) + 1
    assert prof.path == tmp_path / "run"
    assert not (tmp_path / "other").exists()
    with pytest.raises(RuntimeError, match="when the recorded program has ended"):
        prof.run  # noqa: B018


def test_steps_by_pattern_are_rows_too(tmp_path: Path) -> None:
    pattern = {"name": "pattern 1 (1006 kernels)", "kernels": 1006, "start_ns": [10, 30], "step_ns": [20, 21]}
    (tmp_path / "run.json").write_text('{"status": "complete"}')
    (tmp_path / "analysis.json").write_text(json.dumps({"timeline": {"steps": {"patterns": [pattern]}}}))
    steps = load(tmp_path).steps
    assert steps.column("duration_ns") == [20, 21] and steps.column("kernels") == [1006, 1006]


def test_steps_of_an_import_have_their_phase(binary: Path, tmp_path: Path) -> None:
    trace = Path(__file__).parent.parent.parent / "fixtures/h200/torch_full.json.gz"
    subprocess.run([binary, "import", trace, "-o", tmp_path / "run"], check=True, capture_output=True)
    steps = load(tmp_path / "run").steps
    assert steps.column("phase") == ["prefill", "decode", "decode"]
    starts, durations = steps.column("start_ns"), steps.column("duration_ns")
    assert all(start + duration <= later for start, duration, later in zip(starts, durations, starts[1:]))


def test_kernels_belong_to_the_step_that_launched_them(binary: Path, tmp_path: Path) -> None:
    """The device is late: the kernels of a step run during the next one."""
    events = []
    for number in range(4):
        start = 1000.0 * number
        label = f"llmprof.step decode batch=1 new=1 cached={7 + number}"
        shared = {"ph": "X", "pid": 1, "tid": 1}
        events.append({**shared, "cat": "user_annotation", "name": label, "ts": start, "dur": 900.0})
        for launch in range(number + 1):
            correlation = 10 * number + launch + 1
            call = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": start + 10 * launch, "dur": 5.0}
            kernel = {"cat": "kernel", "name": "gemm", "ts": start + 950 + 10 * launch, "dur": 8.0, "tid": 7, "pid": 0}
            events.append({**shared, **call, "args": {"correlation": correlation}})
            events.append({**shared, **kernel, "args": {"correlation": correlation, "device": 0, "stream": 7}})
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    subprocess.run([binary, "import", trace, "-o", tmp_path / "run"], check=True, capture_output=True)
    run = load(tmp_path / "run")
    (kernel,) = run.kernels
    assert (kernel["name"], kernel["calls"], kernel["total_ns"]) == ("gemm", 10, 80_000)
    steps = run.steps
    assert steps.column("kernels") == [1, 2, 3, 4]
    assert steps.column("kernel_ns") == [8000, 16000, 24000, 32000]


def test_requests_are_those_of_a_load(binary: Path, tmp_path: Path) -> None:
    server = Path(__file__).parent.parent.parent / "crates/cli/tests/common/server.py"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [binary, "bench", "--serve", f"{sys.executable} {server} {port} 3", "--serve-url", f"http://127.0.0.1:{port}"]
    command += ["--no-record", "--requests", "4", "--output-tokens", "3", "-o", tmp_path / "run"]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    requests = load(tmp_path / "run").requests
    assert requests.column("request") == [0, 1, 2, 3]
    assert requests.column("output_tokens") == [3] * 4
    assert all(row["e2e_ms"] >= row["ttft_ms"] > 0 for row in requests)


def test_python_dash_m_is_the_binary(binary: Path) -> None:
    command = [sys.executable, "-m", "llmprof_harness", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(llmprof_harness.__file__).parent.parent)
    own = subprocess.run([binary, "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, own.stdout) and done.stdout.startswith("llmprof ")


def test_a_binary_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from llmprof_harness import BinaryNotFound, find_binary

    monkeypatch.setenv("LLMPROF_BINARY", str(tmp_path))
    with pytest.raises(BinaryNotFound, match="not an executable file"):
        find_binary()


def test_broken_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{")
    run = Run(tmp_path)
    with pytest.raises(NotARun, match="run.json is not JSON"):
        run.status  # noqa: B018


def test_operators_of_all_threads_are_recorded(binary: Path, tmp_path: Path) -> None:
    model = Decoder()

    def work() -> None:
        with torch.inference_mode():
            for token in range(3):
                with step(batch=1, new_tokens=1, cached=token):
                    model(torch.ones(1, HIDDEN))

    with profile(tmp_path / "threads") as run:
        assert run.status == "recording"
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    (row,) = [row for row in run.ops if row["key"] == "aten::mm"]
    assert row["calls"] == 2 * 3 * 2
    assert len(run.steps) == 6
    assert (run.status, run.report) == ("complete", run.path / "report.html")
    assert run.issues == run.run.issues


def test_blocks_do_not_nest(binary: Path, tmp_path: Path) -> None:
    with profile(tmp_path / "outer") as outer:
        with pytest.raises(RuntimeError, match="do not nest"), profile(tmp_path / "inner"):
            pass
        torch.ones(2) + 1
    assert outer.status == "complete"
    assert not (tmp_path / "inner").exists()
    with torch.profiler.profile():
        with pytest.raises(RuntimeError, match="torch.profiler records already"), profile(tmp_path / "inside"):
            pass
    # What was refused holds nothing.
    with profile(tmp_path / "after") as after:
        torch.ones(2) + 1
    assert after.status == "complete"


def test_mistakes_are_found_before_the_block_runs(binary: Path, tmp_path: Path) -> None:
    ran = []
    with pytest.raises(LlmprofError, match="no_such_model"), profile(tmp_path / "a", model="no_such_model"):
        ran.append("model")
    with pytest.raises(OSError), profile(tmp_path / "b", binary=tmp_path / "no_binary"):
        ran.append("binary")
    with pytest.raises(TypeError, match="not int"), profile(tmp_path / "c", model=7):
        ran.append("type")
    assert not ran and not list(tmp_path.iterdir())


def test_a_model_of_an_unknown_family_is_left_out(binary: Path, tmp_path: Path) -> None:
    with profile(tmp_path / "run", model={"model_type": "mamba9", "hidden_size": 64}) as run:
        torch.ones(2) + 1
    assert run.status == "complete"
    (uncounted,) = [issue for issue in run.issues if issue["code"] == "model.uncounted"]
    assert "mamba9" in uncounted["text"] and uncounted["text"].endswith(("]", ")"))


@pytest.mark.parametrize("ending", [ValueError, KeyboardInterrupt])
def test_a_block_that_fails_leaves_its_run(binary: Path, tmp_path: Path, ending: type[BaseException]) -> None:
    with pytest.raises(ending), profile(tmp_path / "failed") as run:
        torch.ones(2) + 1
        raise ending
    assert run.status == "complete"
    with profile(tmp_path / "next") as run:
        torch.ones(2) + 1
    assert run.status == "complete"


def fail(error: BaseException) -> Callable[..., None]:
    def function(*_: object, **__: object) -> None:
        raise error

    return function


def check_that_nothing_records(folder: Path) -> None:
    assert not torch.autograd._profiler_enabled()
    with profile(folder) as run:
        torch.ones(2) + 1
    assert run.status == "complete"


def test_a_kernel_that_failed_is_told_and_the_run_is_kept(
    binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        with pytest.raises(RuntimeError, match="device-side assert"), profile(tmp_path / "sync") as run:
            torch.ones(2) + 1
            patch.setattr(torch.cuda, "is_available", lambda: True)
            patch.setattr(torch.cuda, "synchronize", fail(RuntimeError("device-side assert")))
    assert run.status == "complete"
    with monkeypatch.context() as patch:
        # The error of the block comes first.
        with pytest.raises(ZeroDivisionError), profile(tmp_path / "block") as run:
            patch.setattr(torch.cuda, "is_available", lambda: True)
            patch.setattr(torch.cuda, "synchronize", fail(RuntimeError("device-side assert")))
            1 / 0
    assert run.status == "complete"
    check_that_nothing_records(tmp_path / "next")


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (torch.cuda, "is_available"),
        (torch.autograd.profiler.profile, "__exit__"),
        (torch.profiler.profile, "__exit__"),
        (torch.profiler.profile, "export_chrome_trace"),
        (capture, "run_llmprof"),
    ],
)
def test_ctrl_c_while_the_block_ends_stops_the_profiler(
    binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: object, name: str
) -> None:
    run = profile(tmp_path / "run")
    with monkeypatch.context() as patch:
        run.__enter__()
        torch.ones(2) + 1
        patch.setattr(place, name, fail(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            run.__exit__(None, None, None)
    assert run.status == "not recorded"
    check_that_nothing_records(tmp_path / "next")
    # What was left there is llmprof's own.
    check_that_nothing_records(tmp_path / "run")


def test_ctrl_c_while_the_block_begins_stops_the_profiler(
    binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter = torch.profiler.profile.__enter__

    def enter_and_fail(profiler: torch.profiler.profile) -> None:
        enter(profiler)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(torch.profiler.profile, "__enter__", enter_and_fail)
        with pytest.raises(KeyboardInterrupt), profile(tmp_path / "run"):
            pass
    check_that_nothing_records(tmp_path / "next")


def test_a_block_may_end_in_another_thread(binary: Path, tmp_path: Path) -> None:
    run = profile(tmp_path / "run")
    run.__enter__()
    torch.ones(2) + 1
    thread = threading.Thread(target=lambda: run.__exit__(None, None, None))
    thread.start()
    thread.join()
    assert run.status == "complete"
    check_that_nothing_records(tmp_path / "next")


def test_a_run_whose_process_is_gone_was_interrupted(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"status": "running"}')
    assert load(tmp_path).status == "interrupted"
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert load(tmp_path).status == "running"
    assert load(tmp_path).status == "interrupted"


def test_a_fork_inside_the_block_makes_no_run(binary: Path, tmp_path: Path) -> None:
    program = """
import os, sys, torch
from llmprof_harness import profile
try:
    with profile(sys.argv[1]) as run:
        torch.ones(2) + 1
        child = os.fork()
        if child:
            os.waitpid(child, 0)
finally:
    if not child:
        os._exit(0)
print(run.status)
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(llmprof_harness.__file__).parent.parent)}
    command = [sys.executable, "-c", program, str(tmp_path / "run")]
    said = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (said.stdout, said.returncode) == ("complete\n", 0), said.stderr
