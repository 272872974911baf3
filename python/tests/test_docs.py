"""What the documentation shows is what the binary does.

A `console` block is a command and what it prints; `shell-session` is the same for wide tables, which scroll. `LLMPROF_UPDATE_DOCS=1` writes what is
printed now into the pages. The output of a block with a title is not compared. `sh` blocks are commands that no test can run; their title says why.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import schema_page

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FENCE = re.compile(r"^```(?P<kind>[\w-]*)(?P<rest>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
SESSIONS = ("console", "shell-session")
SESSION = re.compile(r"^```(console|shell-session)", re.MULTILINE)
# The one part of an output that changes: when the run was started.
STARTED = re.compile(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d-\d{6}")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def clone(binary: Path, tmp_path: Path) -> Path:
    """A folder with what pages use of a clone, and `llmprof` on its PATH."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/llmprof").symlink_to(binary.resolve())
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    return tmp_path


def with_outputs(body: str, folder: Path) -> str:
    """The block with what its commands print now."""
    environment = {**os.environ, "NO_COLOR": "1", "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    text = ""
    for line in body.splitlines():
        if line.startswith("$ "):
            command = ["bash", "-o", "pipefail", "-c", line[2:]]
            result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
            # `head` ends the pipe before the program is done.
            assert result.returncode in (0, 141), f"{line}\n{result.stderr}"
            text += f"{line}\n{STARTED.sub('…', result.stdout)}"
    return text


@pytest.mark.parametrize("page", [page for page in PAGES if SESSION.search(page.read_text())], ids=name)
def test_commands_print_what_the_page_shows(page: Path, clone: Path) -> None:
    def printed(block: re.Match[str]) -> str:
        if block["kind"] not in SESSIONS:
            return block[0]
        body = with_outputs(block["body"], clone)
        if "title=" in block["rest"]:
            return block[0]
        return f"```{block['kind']}\n{body}```"

    shown = page.read_text()
    now = FENCE.sub(printed, shown)
    if os.environ.get("LLMPROF_UPDATE_DOCS"):
        page.write_text(now)
    else:
        assert now == shown, "LLMPROF_UPDATE_DOCS=1 writes what is printed now"


def test_the_first_picture_is_that_of_the_first_command(binary: Path, tmp_path: Path) -> None:
    trace = ROOT / "fixtures/h200/torch_full.json.gz"
    subprocess.run([binary, "import", trace, "model=qwen2_5_0_5b", "-o", tmp_path / "run"], capture_output=True, check=True)
    drawn = (tmp_path / "run/plots/waterfall_decode.svg").read_text()
    picture = ROOT / "docs/images/waterfall_decode.svg"
    if os.environ.get("LLMPROF_UPDATE_DOCS"):
        picture.write_text(drawn)
    else:
        assert drawn == picture.read_text(), "LLMPROF_UPDATE_DOCS=1 draws it anew"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_that_are_not_run_say_why(page: Path) -> None:
    for block in FENCE.finditer(page.read_text()):
        if block["kind"] in ("sh", "bash"):
            assert re.fullmatch(r' title="(needs |changes |需要|修改)[^"]+"', block["rest"]), block[0]
        assert block["kind"] or "llmprof " not in block["body"], f"a command without a kind of block:\n{block[0]}"
    indented = re.findall(r"^    llmprof .*$", FENCE.sub("", page.read_text()), re.MULTILINE)
    assert not indented, f"commands outside of a block that says whether they run: {indented}"


@cache
def options(binary: Path, *command: str) -> set[str] | None:
    """The options of a command; none where there is no such command."""
    result = subprocess.run([binary, *command, "--help"], capture_output=True, text=True, check=False)
    return set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", result.stdout)) if result.returncode == 0 else None


def commands_of(text: str) -> Iterator[str]:
    """Lines of code that start llmprof."""
    text = re.sub(r"\\\n\s*", "", text)
    fenced = "\n".join(block["body"] for block in FENCE.finditer(text))
    for line in re.findall(r"^(?:\$ )?(llmprof .*)$", fenced, re.MULTILINE):
        yield re.split(r" [|;>] | && ", line)[0]


# Commands that AGENTS.md and the skill name.
FOR_AGENTS = [ROOT / "crates/cli/skill/SKILL.md", ROOT / "crates/assets/templates/AGENTS.md"]


@pytest.mark.parametrize("page", [page for page in [*PAGES, *FOR_AGENTS] if page.name != "CHANGELOG.md"], ids=name)
def test_commands_and_options_exist(page: Path, binary: Path) -> None:
    for line in commands_of(page.read_text()):
        words = shlex.split(line, comments=True)[1:]
        if "--" in words:
            words = words[: words.index("--")]
        depth = 2 if words[0] in ("kernels", "runs", "hardware", "dataset", "externals") else 1
        known = options(binary, *words[:depth])
        assert known is not None, f"no such command: {line}"
        unknown = [word for word in words if re.match(r"--?[a-zA-Z]", word) and word.split("=")[0] not in known]
        assert not unknown, f"{line}: unknown {unknown}"


def test_every_command_has_a_section(binary: Path, clone: Path) -> None:
    listed = subprocess.run([binary, "--help"], capture_output=True, text=True, check=True).stdout
    commands = re.findall(r"^  ([a-z]+) {2,}", listed.partition("Usage:")[2].partition("Options:")[0], re.MULTILINE)
    page = ROOT / "docs/commands.md"
    shown = page.read_text()
    missing = [command for command in commands if command != "help" and f"\n$ llmprof {command} --help\n" not in shown]
    if os.environ.get("LLMPROF_UPDATE_DOCS"):
        for command in missing:
            shown += f"\n## {command}\n\n```shell-session\n{with_outputs(f'$ llmprof {command} --help', clone)}```\n"
        page.write_text(shown)
    else:
        assert commands and missing == [], "LLMPROF_UPDATE_DOCS=1 adds their sections"


def test_every_config_file_is_shown() -> None:
    page = (ROOT / "docs/config-keys.md").read_text()
    files = [file.relative_to(ROOT) for file in sorted((ROOT / "conf").rglob("*.yaml"))]
    # A model's file has the keys of its config.json.
    files = [file for file in files if file.parent.name != "model" or file.stem in ("base", "local")]
    assert files and [file for file in files if f'\n--8<-- "{file}"\n' not in page] == []


def test_codes_that_a_symptom_names_exist() -> None:
    codes = set(re.findall(r'= "(\w+\.\w+)"', (ROOT / "crates/record/src/issue/code.rs").read_text()))
    families = {code.partition(".")[0] for code in codes}
    named = re.findall(r"`(\w+\.\w+)`", (ROOT / "docs/troubleshooting.md").read_text())
    named = [code for code in named if code.partition(".")[0] in families and not code.endswith(".json")]
    assert named and [code for code in named if code not in codes] == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent == ROOT], ids=name)
def test_links_of_the_repository_lead_somewhere(page: Path) -> None:
    """Those of `docs/` are checked where the site is built."""
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        assert target.startswith("https://") or (ROOT / target).exists(), target


def test_the_site_builds(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "start/trace.html").exists()


def test_every_key_of_json_is_described(binary: Path) -> None:
    page = ROOT / "docs/schema.md"
    written = schema_page.schemas(binary)
    head, _, shown = page.read_text().partition(schema_page.BEGIN)
    keys = schema_page.keys(written)
    if os.environ.get("LLMPROF_UPDATE_DOCS"):
        page.write_text(head + schema_page.BEGIN + "\n" + keys)
    else:
        assert shown == "\n" + keys, "LLMPROF_UPDATE_DOCS=1 writes the keys of the schemas"
    assert written and schema_page.undescribed(written) == []


def test_every_finding_is_on_the_page(binary: Path) -> None:
    page = ROOT / "docs/findings.md"
    written = schema_page.findings(schema_page.schemas(binary), page.read_text())
    if os.environ.get("LLMPROF_UPDATE_DOCS"):
        page.write_text(written)
    else:
        assert page.read_text() == written, "LLMPROF_UPDATE_DOCS=1 writes names and values anew"
    assert schema_page.without_advice(written) == []


def test_every_command_has_a_man_page(binary: Path, tmp_path: Path) -> None:
    subprocess.run([binary, "man", tmp_path / "man1"], capture_output=True, check=True)
    listed = subprocess.run([binary, "--help"], capture_output=True, text=True, check=True).stdout
    commands = re.findall(r"^  ([a-z]+) {2,}", listed.partition("Commands:")[2].partition("Options:")[0], re.MULTILINE)
    for command in commands:
        if command != "help":
            page = (tmp_path / f"man1/llmprof-{command}.1").read_text()
            assert ".SH SYNOPSIS" in page and "Examples:" in page, command
    assert "llmprof\\-import(1)" in (tmp_path / "man1/llmprof.1").read_text()
