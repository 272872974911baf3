"""The llmprof binary as a function."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from llmprof import find_binary


class LlmprofError(RuntimeError):
    """The binary failed; the message is its own."""


def run_llmprof(arguments: Sequence[str], binary: str | Path | None = None) -> str:
    """Runs the binary to its end; the answer is what it wrote to stdout."""
    program = str(binary or find_binary())
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = done.stderr.strip() or f"exit code {done.returncode}"
        raise LlmprofError(f"llmprof {arguments[0] if arguments else ''} failed:\n{said}")
    return done.stdout
