"""torch, imported when something needs it: tables, logs and commands work without."""

from __future__ import annotations

from functools import lru_cache
from types import ModuleType
from typing import Any


@lru_cache(maxsize=1)
def torch_or_none() -> ModuleType | None:
    try:
        import torch
    except ImportError:
        return None
    # mypy skips torch, so that it is Any there.
    module: ModuleType = torch
    return module


def require_torch(what: str) -> Any:
    torch = torch_or_none()
    if torch is None:
        raise RuntimeError(f"{what} needs PyTorch; install it with `pip install torch`")
    return torch


def has_cuda() -> bool:
    torch: Any = torch_or_none()
    return torch is not None and bool(torch.cuda.is_available())
