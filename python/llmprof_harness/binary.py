"""The llmprof binary: where it is, and as a function."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

_NAME = "llmprof"


class BinaryNotFound(FileNotFoundError):
    """The binary is in none of the places where it is installed."""


class LlmprofError(RuntimeError):
    """The binary failed; the message is its own."""


def find_binary() -> Path:
    """The binary: `LLMPROF_BINARY` where it is set, else the one installed with this package, else the one on PATH."""
    named = os.environ.get("LLMPROF_BINARY")
    if named:
        path = Path(named)
        if not _is_program(path):
            raise BinaryNotFound(f"LLMPROF_BINARY names {named}, which is not an executable file")
        return path.resolve()
    looked = [Path(folder) / _NAME for folder in _script_folders()]
    for path in looked:
        if _is_program(path):
            return path
    on_path = shutil.which(_NAME)
    if on_path:
        return Path(on_path)
    places = ", ".join(str(path.parent) for path in looked)
    raise BinaryNotFound(
        f"the llmprof binary is not in {places} nor on PATH; "
        "`cargo install --path crates/cli` builds it, the wheel of llmprof-harness installs it; or set LLMPROF_BINARY to its path"
    )


def run_llmprof(arguments: Sequence[str], binary: str | Path | None = None) -> str:
    """Runs the binary to its end; the answer is what it wrote to stdout."""
    program = str(binary or find_binary())
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = done.stderr.strip() or f"exit code {done.returncode}"
        raise LlmprofError(f"llmprof {arguments[0] if arguments else ''} failed:\n{said}")
    return done.stdout


def _script_folders() -> list[str]:
    folders = [sysconfig.get_path("scripts")]
    # `pip install --user`
    user = sysconfig.get_preferred_scheme("user") if sys.version_info >= (3, 10) else f"{os.name}_user"
    folders.append(sysconfig.get_path("scripts", scheme=user))
    # `pip install --target DIR`: DIR/llmprof_harness/binary.py, DIR/bin/llmprof
    folders.append(str(Path(__file__).resolve().parent.parent / "bin"))
    return list(dict.fromkeys(folders))


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
