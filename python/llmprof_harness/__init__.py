"""Profiling for inference scripts: ranges, steps, GPU counters, torch.profiler, and llmprof's reports.

    from llmprof_harness import NVMLSampler, nvtx_range, profile, run_torch_profiler, step

Nothing here needs a GPU: without one, NVTX and NVML do nothing and torch.profiler records the CPU.
"""

from .allocator import allocator_history, allocator_stats, reset_allocator_peaks
from .binary import BinaryNotFound, LlmprofError, find_binary
from .capture import profile
from .commands import advise_ncu_cmd, advise_nsys_cmd
from .cublas import enable_cublas_logging, parse_cublas_log_for_gemm_flops
from .nvml import NVMLSampler
from .ranges import nvtx_range
from .run import NotARun, Run, load
from .steps import Group, StepLabel, step, step_label
from .table import Table
from .torch_profiler import prof_to_csv, run_torch_profiler

__all__ = [
    "BinaryNotFound",
    "Group",
    "LlmprofError",
    "NVMLSampler",
    "NotARun",
    "Run",
    "StepLabel",
    "Table",
    "advise_ncu_cmd",
    "advise_nsys_cmd",
    "allocator_history",
    "allocator_stats",
    "enable_cublas_logging",
    "find_binary",
    "load",
    "nvtx_range",
    "parse_cublas_log_for_gemm_flops",
    "prof_to_csv",
    "profile",
    "reset_allocator_peaks",
    "run_torch_profiler",
    "step",
    "step_label",
]
