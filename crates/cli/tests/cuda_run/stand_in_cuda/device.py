"""The device of `device.c`, and what was given to it."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from pathlib import Path

TO_DEVICE, TO_HOST = 1, 2
COPY_NS = 1_500


class Graph:
    """Kernels that are launched together."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.kernels: list[tuple[bytes, int]] = []


def counts() -> dict[str, int]:
    return {"kernels": 0, "copies": 0, "steps": 0, "step_kernels": 0}


class Device:
    """Takes work, and keeps count of it by batch: what is given until the range `prefill` begins belongs to it."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(os.environ["LLMPROF_CUPTI"])
        self._library.device_done.restype = ctypes.c_uint64
        self._names: dict[str, bytes] = {}
        self._is_up = False
        self._graphs = 0
        self._open: list[str] = []
        self._given = counts()
        self._batches: list[dict[str, int]] = []
        self.capturing: Graph | None = None

    def start(self) -> None:
        """The first use of CUDA: the driver loads the library that its variable names."""
        if not self._is_up:
            self._is_up = True
            injected = os.environ.get("CUDA_INJECTION64_PATH")
            if injected:
                ctypes.CDLL(injected).InitializeInjection()
            self._library.standin_context()

    def launch(self, name: str, ns: int) -> None:
        # Records hold the address of a name: it stays.
        text = self._names.setdefault(name, name.encode())
        if self.capturing is not None:
            graph = self.capturing
            graph.kernels.append((text, ns))
            node = graph.number << 32 | len(graph.kernels)
            self._library.standin_node(ctypes.c_uint64(node), ctypes.c_uint64(0), graph.number)
            return
        self._count("kernels")
        self._library.device_kernel(text, ctypes.c_uint64(ns))

    def new_graph(self) -> Graph:
        self._graphs += 1
        return Graph(self._graphs)

    def launch_graph(self, graph: Graph) -> None:
        count = len(graph.kernels)
        self._count("kernels", count)
        names = (ctypes.c_char_p * count)(*[name for name, _ in graph.kernels])
        times = (ctypes.c_uint64 * count)(*[ns for _, ns in graph.kernels])
        self._library.device_graph(graph.number, count, names, times)

    def copy(self, kind: int, size: int) -> None:
        self._count("copies")
        self._library.device_copy(kind, ctypes.c_uint64(size), ctypes.c_uint64(COPY_NS))

    def done(self) -> int:
        return self._library.device_done()

    def wait(self, until: int | None = None) -> None:
        self._library.device_wait(ctypes.c_uint64(self.done() if until is None else until))

    def push(self, name: str) -> None:
        if name == "prefill":
            self._batches.append(self._given)
        self._open.append(name)
        if name == "decode_step":
            self._count("steps")
            self._signal_if_asked()

    def pop(self) -> None:
        name = self._open.pop()
        if name == "decode":
            self._given = counts()
            self._tell()

    def _count(self, what: str, by: int = 1) -> None:
        self._given[what] += by
        if what == "kernels" and "decode_step" in self._open:
            self._given["step_kernels"] += by

    def _tell(self) -> None:
        folder = os.environ.get("STANDIN_COUNTS")
        if folder:
            told = {"injected": "CUDA_INJECTION64_PATH" in os.environ, "batches": self._batches}
            (Path(folder) / f"{os.getpid()}.json").write_text(json.dumps(told))

    def _signal_if_asked(self) -> None:
        """`STANDIN_KILL=BATCH,STEP` ends a process that is recorded, as a system does that has no memory left;
        `STANDIN_INTERRUPT` is Ctrl-C for whoever started it."""
        here = f"{len(self._batches)},{self._given['steps']}"
        if "CUDA_INJECTION64_PATH" not in os.environ:
            return
        if os.environ.get("STANDIN_KILL") == here:
            # What was recorded so far reaches the file within a fraction of a second.
            time.sleep(0.5)
            print("the stand-in ends this process", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        if os.environ.get("STANDIN_INTERRUPT") == here:
            os.kill(int(os.environ["STANDIN_PARENT"]), signal.SIGINT)
            time.sleep(60)
