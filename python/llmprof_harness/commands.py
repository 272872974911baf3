"""Command lines for Nsight Systems and Nsight Compute, ready for a shell."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

# Names that Nsight Compute 2025.3 collects on an H200. Stalls are `average_warps_issue_stalled_*` since Volta; the older
# `warp_stall_*` are refused.
NCU_METRICS = (
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "lts__t_sector_hit_rate.pct",
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_not_selected_per_issue_active.ratio",
)


def advise_nsys_cmd(
    script: str,
    out: str = "nsys_llm",
    extra_args: Sequence[str] | None = None,
    *,
    nvtx_capture: str | None = None,
    python: str = "python",
) -> str:
    """A command that records a timeline of `script` into `out`.nsys-rep.

    `nvtx_capture` names a range: the first of that name is recorded, and nothing else. nsys compares registered strings
    only, which those of torch are not, unless it is told otherwise by a variable that the command sets.
    """
    command = ["nsys", "profile", "--trace=cuda,nvtx,osrt", "--sample=none"]
    if nvtx_capture:
        command += [
            "--capture-range=nvtx",
            f"--nvtx-capture={nvtx_capture}",
            "--capture-range-end=stop",
            "--env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0",
        ]
    command += ["--force-overwrite=true", "-o", out, python, script, *(extra_args or [])]
    return shlex.join(command)


def advise_ncu_cmd(
    script: str,
    out: str = "ncu_llm",
    extra_args: Sequence[str] | None = None,
    *,
    nvtx_include: str | None = None,
    kernel: str | None = None,
    launch_count: int | None = None,
    python: str = "python",
) -> str:
    """A command that collects counters of the kernels of `script` into `out`.ncu-rep.

    Every launch is replayed tens of times, seconds each: `nvtx_include` (a range), `kernel` (a regular expression) and
    `launch_count` choose which.
    """
    command = ["ncu", "--target-processes", "all", "--set", "full", "--metrics", ",".join(NCU_METRICS)]
    if nvtx_include:
        # A trailing slash stands for ranges that are pushed and popped, as those of torch are.
        command += ["--nvtx", "--nvtx-include", nvtx_include.rstrip("/") + "/"]
    if kernel:
        command += ["--kernel-name", f"regex:{kernel}"]
    if launch_count is not None:
        command += ["--launch-count", str(launch_count)]
    command += ["--force-overwrite", "-o", out, python, script, *(extra_args or [])]
    return shlex.join(command)
