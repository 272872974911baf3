"""The socket to llmprof: JSON objects, one per line."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from typing import Any

SOCKET_VARIABLE = "LLMPROF_WORKER_SOCKET"

# Progress must not disturb what is measured.
PROGRESS_EVERY_NS = 100_000_000


class Connection:
    """Requests come in, answers and progress go out."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(os.environ[SOCKET_VARIABLE])
        self._input = self._socket.makefile("r", encoding="utf-8", newline="\n")
        self._last_progress = 0

    def lines(self) -> Iterator[str]:
        """The requests as text, until the other side is gone."""
        return iter(self._input)

    def send(self, kind: str, content: dict[str, Any]) -> None:
        line = json.dumps({kind: content}, separators=(",", ":"), allow_nan=False)
        self._socket.sendall(line.encode() + b"\n")

    def progress(self, done: int, total: int) -> None:
        """Tells how far a step has come, now and then."""
        now = time.monotonic_ns()
        if now - self._last_progress >= PROGRESS_EVERY_NS or done == total:
            self._last_progress = now
            self.send("progress", {"done": done, "total": total})
