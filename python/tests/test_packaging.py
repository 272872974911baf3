"""What the source distribution needs, without building it."""

from __future__ import annotations

import re
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib")
def test_files_that_the_code_embeds_from_elsewhere_are_packed() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = [entry["path"] for entry in project["tool"]["maturin"]["include"]]
    # `**/` stands for no folder too.
    packed = patterns + [pattern.replace("**/", "") for pattern in patterns]
    embedded = set()
    for source in ROOT.glob("crates/*/src/**/*.rs"):
        crate = ROOT / "crates" / source.relative_to(ROOT / "crates").parts[0]
        code = source.read_text().split("#[cfg(test)]", 1)[0]
        for name in re.findall(r'include_(?:str|bytes)!\(\s*"([^"]+)"', code):
            file = (source.parent / name).resolve()
            if not file.is_relative_to(crate):
                embedded.add(str(file.relative_to(ROOT)))
    assert embedded
    assert [file for file in sorted(embedded) if not any(fnmatch(file, pattern) for pattern in packed)] == []


# Folders that tools write; what is in them is not the project's.
BUILT = {".git", ".venv", ".cache", "target", "__pycache__", "node_modules"}
INSTALLS = re.compile(
    r"(?:pip3?|pipx|uv|uvx|pixi|conda|mamba|poetry)\s+(?:(?:install|add|run|tool|-\S+|global|pip)\s+)*['\"`]?llmprof(?![\w-])"
)
IMPORTS = re.compile(r"^\s*(?:import|from) llmprof(?![\w-])|python3? -m llmprof(?![\w-])", re.MULTILINE)


def project_texts() -> list[tuple[Path, str]]:
    texts = []
    for path in ROOT.rglob("*"):
        parts = set(path.relative_to(ROOT).parts)
        if path == Path(__file__).resolve() or parts & BUILT or path.is_symlink() or not path.is_file():
            continue
        if path.suffix not in {".gz", ".zst", ".png", ".pb", ".safetensors"} and path.stat().st_size < 2_000_000:
            texts.append((path, path.read_text(errors="ignore")))
    return texts


def test_nobody_is_told_to_install_or_import_the_package_of_others() -> None:
    """On PyPI, `llmprof` is another project with a command and a module of that name."""
    texts = project_texts()
    assert len(texts) > 500
    told = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path, text in texts
        for pattern in (INSTALLS, IMPORTS)
        for found in pattern.finditer(text)
    ]
    assert told == []


@pytest.mark.parametrize("line", ["pip install llmprof", "`pip install -U 'llmprof[nvml]'`", "uv tool install llmprof", "pixi add llmprof"])
def test_such_a_line_would_be_seen(line: str) -> None:
    assert INSTALLS.search(line)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib")
def test_the_distribution_has_a_name_and_a_module_of_its_own() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["name"] == "llmprof-harness"
    assert project["tool"]["maturin"]["python-packages"] == ["llmprof_harness"]
    assert not (ROOT / "python/llmprof").exists()
