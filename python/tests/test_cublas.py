from __future__ import annotations

import logging
from pathlib import Path

import pytest

from llmprof_harness import enable_cublas_logging, parse_cublas_log_for_gemm_flops

LOGS = Path(__file__).parent.parent.parent / "fixtures/h200/cublas"

# Qwen2.5-0.5B's shape: a prefill of 64 tokens, then one step.
HIDDEN, KV, INTERMEDIATE, LAYERS, VOCABULARY, TOKENS = 896, 128, 4864, 24, 151_936, 65
WITH_BIAS = HIDDEN * HIDDEN + 2 * HIDDEN * KV
WITHOUT_BIAS = HIDDEN * HIDDEN + 3 * HIDDEN * INTERMEDIATE
HEAD = HIDDEN * VOCABULARY
# Angles of the rotary embedding: 32 frequencies × 64 positions, then × 1.
ROTARY = 32 * 64 + 32


def test_the_log_of_cublaslt_has_every_gemm_of_the_model() -> None:
    rows = parse_cublas_log_for_gemm_flops(LOGS / "cublaslt.log.gz")
    assert len(rows) == 2 * (7 * LAYERS + 1) + 2
    weights = LAYERS * (WITH_BIAS + WITHOUT_BIAS) + HEAD
    assert sum(row["flops"] for row in rows) == 2 * (TOKENS * weights + ROTARY)
    assert {row["dtype"] for row in rows} == {"R_16BF", "R_32F"}
    assert {row["compute"] for row in rows} == {"COMPUTE_32F"}


def test_the_log_of_cublas_leaves_out_layers_with_a_bias() -> None:
    rows = parse_cublas_log_for_gemm_flops(LOGS / "cublas.log.gz")
    weights = LAYERS * WITHOUT_BIAS + HEAD
    assert sum(row["flops"] for row in rows) == 2 * (TOKENS * weights + ROTARY)
    assert (rows[0]["function"], rows[0]["dtype"]) == ("cublasSgemm_v2", "R_32F")
    assert rows[1] == {
        "function": "cublasGemmEx",
        "M": 896,
        "N": 64,
        "K": 896,
        "batch": 1,
        "dtype": "R_16BF",
        "compute": "COMPUTE_32F",
        "flops": 2 * 896 * 64 * 896,
        "t_ms": None,
        "flops_per_s": None,
    }


def test_batches_count_and_calls_without_shapes_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = tmp_path / "cublas.log"
    call = "I! cuBLAS (v12.4.5) function cublasStatus_t {}(cublasHandle_t, int) called:\n"
    value = "i!  {}: type=int; val={}\n"
    shape = "".join(value.format(name, number) for name, number in [("m", 4), ("n", 5), ("k", 6)])
    log.write_text(
        call.format("cublasGemmStridedBatchedEx") + shape + value.format("batchCount", 7)
        + call.format("cublasGemmGroupedBatchedEx") + "i!  m: type=int; val=POINTER (IN HEX:0x0x7ff)\n"
        + call.format("cublasCgemm_v2") + shape
        + call.format("cublasSetStream_v2") + "cut off in the mid"
    )
    with caplog.at_level(logging.WARNING, logger="llmprof_harness"):
        rows = parse_cublas_log_for_gemm_flops(log)
    assert [(row["batch"], row["flops"]) for row in rows] == [(7, 2 * 4 * 5 * 6 * 7), (1, 8 * 4 * 5 * 6)]
    assert "1 GEMM calls without readable shapes" in caplog.text


def test_a_log_with_times_has_rates(tmp_path: Path) -> None:
    log = tmp_path / "timed.log"
    log.write_text("cublasGemmEx m=1000 n=1000 k=1000 algo=7 time=0.5 ms\nnothing\n")
    (row,) = parse_cublas_log_for_gemm_flops(str(log))
    assert (row["t_ms"], row["flops_per_s"]) == (0.5, 4e12)


def test_logging_is_enabled_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in ("CUBLAS_LOGINFO_DBG", "CUBLAS_LOGDEST_DBG", "CUBLASLT_LOG_LEVEL", "CUBLASLT_LOG_FILE"):
        monkeypatch.setenv(name, "")
    enable_cublas_logging("a.log", lt_log_path="b.log")
    names = ("CUBLAS_LOGINFO_DBG", "CUBLAS_LOGDEST_DBG", "CUBLASLT_LOG_LEVEL", "CUBLASLT_LOG_FILE")
    assert [os.environ[name] for name in names] == ["1", "a.log", "5", "b.log"]
