"""Number formats: llmprof's names and torch's."""

from __future__ import annotations

import torch

from .failure import Failure

NAMES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def of_name(name: str) -> torch.dtype:
    if name not in NAMES:
        raise Failure("unsupported", f"the PyTorch worker computes in {', '.join(NAMES)}, not in {name}")
    return NAMES[name]


def name_of(dtype: torch.dtype) -> str:
    for name, known in NAMES.items():
        if known == dtype:
            return name
    raise Failure("unsupported", f"weights are {dtype}; the PyTorch worker computes in {', '.join(NAMES)}")
