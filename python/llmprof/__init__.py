"""The `llmprof` binary as a Python package: where it is, for `python -m llmprof` and for `llmprof_harness`."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path

__all__ = ["BinaryNotFound", "find_binary"]

_NAME = "llmprof"


class BinaryNotFound(FileNotFoundError):
    """The binary is in none of the places where it is installed."""


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
        "`pip install llmprof` installs it, or set LLMPROF_BINARY to its path"
    )


def _script_folders() -> list[str]:
    folders = [sysconfig.get_path("scripts")]
    # `pip install --user`
    user = sysconfig.get_preferred_scheme("user") if sys.version_info >= (3, 10) else f"{os.name}_user"
    folders.append(sysconfig.get_path("scripts", scheme=user))
    # `pip install --target DIR`: DIR/llmprof/__init__.py, DIR/bin/llmprof
    folders.append(str(Path(__file__).resolve().parent.parent / "bin"))
    return list(dict.fromkeys(folders))


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
