"""The wheel, installed into a prefix of its own and run without Rust, repository and environment.

`scripts/test-all` builds it first and names the folder by LLMPROF_WHEELS.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

LIBRARY = "libllmprof_inject.so"
# Ubuntu 20.04.
NEWEST_GLIBC = (2, 31)


@pytest.fixture(scope="module")
def wheels() -> Path:
    folder = os.environ.get("LLMPROF_WHEELS")
    if folder is None:
        pytest.skip("LLMPROF_WHEELS names no folder; scripts/test-all builds the wheel first")
    return Path(folder).resolve()


@pytest.fixture(scope="module")
def wheel(wheels: Path) -> Path:
    (file,) = wheels.glob("llmprof_harness-*.whl")
    return file


@pytest.fixture(scope="module")
def sdist(wheels: Path) -> Path:
    (file,) = wheels.glob("llmprof_harness-*.tar.gz")
    return file


def install(file: Path, prefix: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", str(prefix)], check=True)
    pip = [str(prefix / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
    subprocess.run([*pip, str(file)], check=True)
    return prefix


@pytest.fixture(scope="module")
def prefix(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(wheel, tmp_path_factory.mktemp("prefix"))


def run_clean(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """As `env -i` does: no PATH, no HOME, nothing."""
    words = ["env", "-i", *map(str, command)]
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)


def test_the_wheel_is_for_every_python_and_an_old_glibc(wheel: Path) -> None:
    name = re.fullmatch(r"llmprof_harness-[\d.]+-py3-none-(\S+)\.whl", wheel.name)
    assert name and {tag.rsplit("_", 2)[0] for tag in name[1].split(".")} == {"manylinux2014", "manylinux_2_17"}
    names = zipfile.ZipFile(wheel).namelist()
    assert sum(name.endswith(f".data/data/lib/llmprof/{LIBRARY}") for name in names) == 1
    assert sum(name.endswith(".data/scripts/llmprof") for name in names) == 1
    assert not any("__pycache__" in name for name in names)
    packages = {name.split("/")[0] for name in names if ".d" not in name.split("/")[0]}
    assert packages == {"llmprof_harness"}
    assert {"llmprof_harness/py.typed", "llmprof_harness/pytest_plugin.py"} <= set(names)


def test_no_symbol_needs_a_newer_glibc(prefix: Path) -> None:
    for file in (prefix / "bin/llmprof", prefix / "lib/llmprof" / LIBRARY):
        versions = {
            tuple(map(int, found.split(b".")))
            for found in re.findall(rb"\0GLIBC_(\d+\.\d+)(?=[.\0])", file.read_bytes())
        }
        assert versions and max(versions) <= NEWEST_GLIBC, (file, max(versions))


def test_the_binary_runs_without_anything_else(prefix: Path, tmp_path: Path) -> None:
    version = run_clean(prefix / "bin/llmprof", "--version", cwd=tmp_path)
    assert (version.returncode, version.stderr) == (0, "") and version.stdout.startswith("llmprof ")
    module = run_clean(prefix / "bin/python", "-m", "llmprof_harness", "--version", cwd=tmp_path)
    assert (module.returncode, module.stdout) == (0, version.stdout)
    model = run_clean(prefix / "bin/llmprof", "model", "model=qwen2_5_7b", "hardware.spec=h200", cwd=tmp_path)
    assert model.returncode == 0 and "7.6" in model.stdout, model.stderr


def test_the_binary_finds_its_library(prefix: Path, tmp_path: Path) -> None:
    """`record` runs its command with the library in its environment. 125: the command succeeded, and used no GPU."""
    command = ["record", "-o", "run", "--", "/usr/bin/env"]
    done = run_clean(prefix / "bin/llmprof", *command, cwd=tmp_path)
    assert done.returncode == 125 and "record.no_cuda" in done.stderr, done.stderr
    named = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    library = Path(named["CUDA_INJECTION64_PATH"]).resolve()
    assert library == (prefix / "lib/llmprof" / LIBRARY).resolve()


def test_the_library_can_be_loaded(prefix: Path, tmp_path: Path) -> None:
    load = f"import ctypes; ctypes.CDLL({str(prefix / 'lib/llmprof' / LIBRARY)!r}).InitializeInjection"
    done = run_clean(prefix / "bin/python", "-c", load, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_harness_is_there_and_uses_that_binary(prefix: Path, tmp_path: Path) -> None:
    code = "import llmprof_harness as h; print(h.find_binary(), h.step_label(2, 1, 7), sep='\\n')"
    done = run_clean(prefix / "bin/python", "-c", code, cwd=tmp_path)
    assert done.stdout.splitlines() == [str(prefix / "bin/llmprof"), "llmprof.step decode batch=2 new=1 cached=7"]


def test_a_model_runs_and_is_reported(prefix: Path, tmp_path: Path) -> None:
    small = [
        "model.num_hidden_layers=2",
        "workload.prompt_tokens=16",
        "infer.max_new_tokens=4",
    ]
    done = run_clean(prefix / "bin/llmprof", "run", *small, "hydra.run.dir=run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run/report.html").is_file()
    code = "import llmprof_harness as h; run = h.load('run'); print(run.status, len(run.operators) > 0)"
    loaded = run_clean(prefix / "bin/python", "-c", code, cwd=tmp_path)
    assert loaded.stdout == "complete True\n", loaded.stderr


def test_the_source_distribution_has_what_a_build_needs(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    needed = {
        "pyproject.toml",
        "Cargo.lock",
        "conf/config.yaml",
        "crates/cli/build.rs",
        "crates/inject/src/lib.rs",
        "python/build/backend.py",
        "python/llmprof_harness/__init__.py",
        "LICENSE-MIT",
    }
    assert needed - names == set()


def test_the_source_distribution_has_every_file_that_the_code_embeds(sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    embedded = missing = 0
    for source in tmp_path.glob("*/crates/*/src/**/*.rs"):
        code = source.read_text().split("#[cfg(test)]", 1)[0]
        for name in re.findall(r'include_(?:str|bytes)!\(\s*"([^"]+)"', code):
            embedded += 1
            missing += not (source.parent / name).is_file()
    assert embedded > 10 and missing == 0


@pytest.mark.skipif("LLMPROF_BUILD_SDIST" not in os.environ, reason="a release build from nothing; LLMPROF_BUILD_SDIST=1 does it")
def test_the_source_distribution_builds_and_runs(sdist: Path, tmp_path: Path) -> None:
    prefix = install(sdist, tmp_path / "prefix")
    test_the_binary_runs_without_anything_else(prefix, tmp_path)
    test_the_binary_finds_its_library(prefix, tmp_path)
