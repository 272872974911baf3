"""Devices beside the CPU: CUDA, and those that torch has under other names (mps, xpu, hpu)."""

from __future__ import annotations

import importlib
from typing import Any

import torch

from .failure import Failure
from .issues import Issues

OTHERS = ("mps", "xpu", "hpu")


def device_of(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise Failure("unsupported", f"torch knows no device `{name}`") from error
    if device.type == "cpu":
        return device
    if device.type in OTHERS:
        return other(name, device)
    if device.type != "cuda":
        raise Failure("unsupported", f"the PyTorch worker runs on cpu, cuda, {', '.join(OTHERS)}, not on `{name}`")
    if not torch.cuda.is_available():
        raise Failure("missing", f"torch {torch.__version__} finds no CUDA device",
                      "device=cpu runs without a GPU; `llmprof doctor` says what is missing: a driver, or a torch built for CUDA")
    count = torch.cuda.device_count()
    device = torch.device("cuda", device.index or 0)
    if device.index >= count:
        raise Failure("bad_request", f"there is no device `{name}`: torch finds {count}")
    torch.cuda.set_device(device)
    return device


def other(name: str, device: torch.device) -> torch.device:
    """A device of another kind, where this torch was built for it and finds one."""
    if device.type == "hpu":
        try:
            importlib.import_module("habana_frameworks.torch.core")
        except ImportError as error:
            raise Failure("missing", "torch has no `hpu` without the package habana_frameworks") from error
    part: Any = torch.backends.mps if device.type == "mps" else getattr(torch, device.type, None)
    if part is None or not part.is_available():
        raise Failure("missing", f"torch {torch.__version__} finds no device `{name}`",
                      f"a torch built for {device.type}, or device=cpu")
    count = 1 if device.type == "mps" else part.device_count()
    if (device.index or 0) >= count:
        raise Failure("bad_request", f"there is no device `{name}`: torch finds {count}")
    return device


def not_captured(device: torch.device, issues: Issues) -> None:
    """Kernels of other devices are not recorded: what is known of them is the time that the host waited."""
    if device.type in OTHERS:
        issues.add("info", "device.not_captured", f"what runs on `{device}` cannot be captured: its phases are timed by the host")


def synchronize(device: torch.device) -> None:
    """Waits until the device has done all it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "xpu":
        torch.xpu.synchronize(device)
    elif device.type in OTHERS:
        getattr(torch, device.type).synchronize()
