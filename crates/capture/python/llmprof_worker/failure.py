"""Failures as data: what went wrong, in the kinds of the protocol."""

from __future__ import annotations

import traceback
from typing import Any


class Failure(Exception):
    """A step that failed for a reason the worker knows."""

    def __init__(self, kind: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint

    def as_data(self) -> dict[str, Any]:
        data = {"kind": self.kind, "message": self.message}
        if self.hint:
            data["hint"] = self.hint
        return data


def failure_of(error: BaseException) -> Failure:
    """The failure that an exception stands for. What nobody foresaw keeps its traceback in the log."""
    if isinstance(error, Failure):
        return error
    if is_out_of_memory(error):
        return Failure("out_of_memory", first_line(error), "a smaller model, batch or prompt, or a narrower dtype")
    traceback.print_exception(error)
    return Failure("internal", f"{type(error).__name__}: {first_line(error)}")


def is_out_of_memory(error: BaseException) -> bool:
    """Torch has a type of its own for devices, and a plain RuntimeError for the host's memory."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and ("CUDA out of memory" in text or "can't allocate memory" in text)


def first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
