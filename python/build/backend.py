"""The build backend: maturin, and before it the inject library, which maturin would leave out.

maturin packs the binaries of a crate with `bindings = "bin"`. The library that `llmprof record` loads into other processes is a
crate of its own; it is built here and put where `tool.maturin.data` of pyproject.toml points, so that a wheel installs it
into PREFIX/lib/llmprof/, where the binary looks.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import maturin

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = "libllmprof_inject.so"
STAGED = ROOT / "target/wheel-data/data/lib/llmprof" / LIBRARY

build_sdist = maturin.build_sdist
get_requires_for_build_wheel = maturin.get_requires_for_build_wheel
get_requires_for_build_sdist = maturin.get_requires_for_build_sdist


def leave_out_build_paths() -> None:
    """Has the compiler write short names for the folders of this machine, which messages of panics would carry otherwise."""
    cargo = os.environ.get("CARGO_HOME", str(Path.home() / ".cargo"))
    encoded = os.environ.get("CARGO_ENCODED_RUSTFLAGS")
    flags = encoded.split("\x1f") if encoded else os.environ.get("RUSTFLAGS", "").split()
    flags += [f"--remap-path-prefix={cargo}=cargo", f"--remap-path-prefix={ROOT}=llmprof"]
    os.environ["CARGO_ENCODED_RUSTFLAGS"] = "\x1f".join(flag for flag in flags if flag)


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    leave_out_build_paths()
    stage_library(["cargo", "build"])
    name: str = maturin.build_wheel(wheel_directory, config_settings, metadata_directory)
    return name


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Any = None) -> str:
    # maturin wants the folder of `data` to exist.
    STAGED.parent.mkdir(parents=True, exist_ok=True)
    name: str = maturin.prepare_metadata_for_build_wheel(metadata_directory, config_settings)
    return name


def stage_library(cargo: list[str], target: str | None = None) -> None:
    """Builds the library with `cargo` (for the Rust target `target`, `.2.17` of glibc and the like included) and stages it."""
    command = [*cargo, "--locked", "--release", "--package", "llmprof-inject"]
    folder = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    if target is not None:
        command += ["--target", target]
        # zigbuild takes the version of glibc off.
        folder /= target.split(".", 1)[0]
    subprocess.run(command, cwd=ROOT, check=True)
    STAGED.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(folder / "release" / LIBRARY, STAGED)


if __name__ == "__main__":
    # For scripts/build-wheel: backend.py CARGO SUBCOMMAND TARGET
    leave_out_build_paths()
    stage_library(sys.argv[1:3], sys.argv[3])
