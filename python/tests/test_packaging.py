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
