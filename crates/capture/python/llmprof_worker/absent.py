"""Refuses a GPU that the machine does not have before torch is imported, which takes many seconds."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys

from .failure import Failure

# Without one of these no driver answers: NVIDIA's on a server, in WSL and on Jetson, and AMD's.
NODES = ("/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-ctrl", "/dev/nvmap", "/dev/kfd")
LIBRARIES = ("libcuda.so.1", "libamdhip64.so")


def refuse_absent(device: str) -> None:
    if device.split(":")[0] != "cuda" or "torch" in sys.modules or importlib.util.find_spec("torch") is None:
        return
    if any(os.path.exists(node) for node in NODES) or any(map(is_loadable, LIBRARIES)):
        return
    raise Failure("missing", f"device={device} needs a GPU, and this machine has no driver of one",
                  "device=cpu runs without a GPU; `llmprof doctor` says what is missing")


def is_loadable(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
