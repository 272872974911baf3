"""GEMM shapes from the logs of cuBLAS and cuBLASLt.

The libraries log every call with its arguments, but neither times it: calls return before the device is done. FLOPs are
exact, rates need the kernel times of a trace. Both formats are known by content:

- cuBLAS (`CUBLAS_LOGINFO_DBG=1`): a line `I! cuBLAS (v13.1.0) function … cublasGemmEx(…) called:`, then a line
  `i!  m: type=int; val=896` for each argument.
- cuBLASLt (`CUBLASLT_LOG_LEVEL=5`): one line `[…][cublasLt][PID][Trace][cublasLtMatmul] … Adesc=[type=… rows=… cols=…] …`.

cuBLAS passes most of its GEMMs on to cuBLASLt, which logs them again; calls of cuBLASLt itself (in torch, linear layers with
a bias) are in its log only. Parse one of the two: that of cuBLASLt where there is one.
"""

from __future__ import annotations

import gzip
import logging
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Optional, cast

from ._torch import torch_or_none

_log = logging.getLogger("llmprof_harness")

_CALL = re.compile(r"^I! cuBLAS \(v[\d.]+\) function \w+ (cublas\w+)\(")
_ARGUMENT = re.compile(r"^i!\s+(\w+): type=.*?; val=(\S+)")
_LT_CALL = re.compile(r"\[cublasLt\]\[\d+\]\[Trace\]\[(cublasLt\w*Matmul)\] (.*)")
_LT_DESCRIPTOR = re.compile(r"(\w+)=\[([^\]]*)\]")
# One line with a time, as other loggers write.
_TIMED = re.compile(
    r"(cublas\w*gemm\w*).*?\bm=(\d+).*?\bn=(\d+).*?\bk=(\d+).*?\btime=(\d+(?:\.\d+)?) ?ms", re.IGNORECASE
)
_GEMM = re.compile(r"^cublas(?:Lt)?([A-Z]?)gemm|^cublasGemm", re.IGNORECASE)
_TYPE_BY_LETTER = {"S": "R_32F", "D": "R_64F", "H": "R_16F", "C": "C_32F", "Z": "C_64F"}


def enable_cublas_logging(log_path: str = "cublas.log", *, lt_log_path: str | None = None) -> None:
    """Has cuBLAS log its calls to `log_path`, and cuBLASLt to `lt_log_path` where one is given.

    The libraries read these variables when they are loaded or make their first handle, so call this before the first
    GEMM, or set the variables in the shell: `CUBLAS_LOGINFO_DBG=1 CUBLAS_LOGDEST_DBG=cublas.log python script.py`.
    """
    os.environ["CUBLAS_LOGINFO_DBG"] = "1"
    os.environ["CUBLAS_LOGDEST_DBG"] = log_path
    if lt_log_path is not None:
        os.environ["CUBLASLT_LOG_LEVEL"] = "5"
        os.environ["CUBLASLT_LOG_FILE"] = lt_log_path
    torch: Any = torch_or_none()
    if torch is not None and torch.cuda.is_initialized():
        _log.warning("CUDA is initialized already: cuBLAS may not log; enable logging before the first GEMM")


def parse_cublas_log_for_gemm_flops(log_path: str | Path) -> list[dict[str, Any]]:
    """The GEMMs of a log (plain or .gz), in order.

    Each has `function`, `M`, `N`, `K` (column-major, as cuBLAS counts: of `y = x @ W.T` in torch, M is the output
    features and N the rows of x), `batch`, `dtype` (of A), `compute`, `flops` (2·M·N·K·batch; 8 for complex types), and
    `t_ms` and `flops_per_s`, which are None where the log has no times, as those of the libraries.
    """
    with _open(log_path) as file:
        rows = list(_gemms(file))
    unreadable = sum(1 for row in rows if row is None)
    if unreadable:
        _log.warning("%s: %d GEMM calls without readable shapes are left out", log_path, unreadable)
    return [row for row in rows if row is not None]


def _open(path: str | Path) -> IO[str]:
    with Path(path).open("rb") as file:
        is_gzip = file.read(2) == b"\x1f\x8b"
    opened = gzip.open(path, "rt", errors="replace") if is_gzip else Path(path).open(errors="replace")
    return cast("IO[str]", opened)


def _gemms(lines: Iterable[str]) -> Iterator[Optional[dict[str, Any]]]:
    """A row per GEMM; None for one that cannot be read."""
    call: str | None = None
    arguments: dict[str, str] = {}
    for line in lines:
        found = _ARGUMENT.match(line) if call else None
        if found:
            arguments.setdefault(found[1], found[2])
            continue
        begins = _CALL.match(line)
        if begins:
            if call:
                yield _of_call(call, arguments)
            call, arguments = (begins[1] if _GEMM.match(begins[1]) else None), {}
            continue
        lt = _LT_CALL.search(line)
        if lt:
            yield _of_lt(lt[1], lt[2])
            continue
        timed = _TIMED.search(line)
        if timed:
            m, n, k = (int(number) for number in timed.groups()[1:4])
            yield _row(timed[1], m, n, k, t_ms=float(timed[5]))
    if call:
        yield _of_call(call, arguments)


def _of_call(function: str, arguments: dict[str, str]) -> dict[str, Any] | None:
    try:
        m, n, k = (int(arguments[name]) for name in ("m", "n", "k"))
        batch = int(arguments.get("batchCount", "1"))
    except (KeyError, ValueError):
        return None
    letter = _GEMM.match(function)
    of_letter = _TYPE_BY_LETTER.get((letter[1] or "").upper()) if letter else None
    return _row(
        function,
        m,
        n,
        k,
        batch=batch,
        dtype=_constant(arguments.get("Atype"), "CUDA_") or of_letter,
        compute=_constant(arguments.get("computeType"), "CUBLAS_"),
    )


def _of_lt(function: str, text: str) -> dict[str, Any] | None:
    descriptors = {name: _fields(fields) for name, fields in _LT_DESCRIPTOR.findall(text)}
    a, d = descriptors.get("Adesc", {}), descriptors.get("Ddesc", {})
    compute = descriptors.get("computeDesc", {})
    is_transposed = compute.get("transa", "OP_N") != "OP_N"
    try:
        k = int(a["rows" if is_transposed else "cols"])
        m, n = int(d["rows"]), int(d["cols"])
        batch = int(d.get("batchCount", "1"))
    except (KeyError, ValueError):
        return None
    return _row(function, m, n, k, batch=batch, dtype=a.get("type"), compute=compute.get("computeType"))


def _fields(text: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in text.split() if "=" in word)


def _constant(value: str | None, prefix: str) -> str | None:
    """`CUDA_R_16BF(14)` without its prefix and number."""
    if value is None:
        return None
    name = value.split("(", 1)[0]
    return name[len(prefix) :] if name.startswith(prefix) else name


def _row(
    function: str,
    m: int,
    n: int,
    k: int,
    *,
    batch: int = 1,
    dtype: str | None = None,
    compute: str | None = None,
    t_ms: float | None = None,
) -> dict[str, Any]:
    # A complex multiply-add is four real ones.
    flops = (8 if dtype is not None and dtype.startswith("C_") else 2) * m * n * k * batch
    return {
        "function": function,
        "M": m,
        "N": n,
        "K": k,
        "batch": batch,
        "dtype": dtype,
        "compute": compute,
        "flops": flops,
        "t_ms": t_ms,
        "flops_per_s": flops / (t_ms * 1e-3) if t_ms else None,
    }
