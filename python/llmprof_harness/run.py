"""A run directory as tables."""

from __future__ import annotations

import fcntl
import html
import json
from functools import cached_property
from pathlib import Path
from typing import Any

from .binary import BinaryNotFound, LlmprofError, run_llmprof
from .table import Table
from .trace_steps import pattern_steps, steps_of_phases, steps_of_trace


class NotARun(ValueError):
    """The directory holds no run."""


def load(run: str | Path) -> Run:
    """The run in a directory that `llmprof run`, `record`, `import` or `profile()` left."""
    path = Path(run)
    if not (path / "run.json").is_file():
        kind = "is not there" if not path.exists() else "holds no run.json"
        raise NotARun(f"{path} {kind}; `llmprof runs list` shows the runs below ./runs")
    return Run(path)


class Run:
    """Files are read when they are asked for, once. A table whose file the run does not have is empty."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """`run.json`: state, passes, issues, files."""
        return self._json("run.json")

    @property
    def status(self) -> str:
        """`running`, `complete`, `failed` or `interrupted`, which is also a run whose process is gone."""
        status = str(self.manifest.get("status", "unknown"))
        return "interrupted" if status == "running" and not self._is_locked() else status

    def _is_locked(self) -> bool:
        """Whether a process writes the run: it holds a lock."""
        try:
            with (self.path / ".lock").open() as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    @cached_property
    def issues(self) -> list[dict[str, Any]]:
        """What was dropped or should not be trusted; `text` is the sentence of reports, where the binary is there to word it."""
        issues = [dict(issue) for issue in self.manifest.get("issues", [])]
        if not issues:
            return issues
        try:
            shown = json.loads(run_llmprof(["runs", "show", str(self.path), "--json"]))
        except (BinaryNotFound, LlmprofError, OSError):
            return issues
        for issue, line in zip(issues, shown.get("issue_lines", [])):
            issue["text"] = line
        return issues

    @cached_property
    def metrics(self) -> dict[str, Any]:
        return self._json("metrics.json")

    @cached_property
    def analysis(self) -> dict[str, Any]:
        return self._json("analysis.json")

    @cached_property
    def operators(self) -> Table:
        """Operators of the model by phase, or those of the framework where no model is known."""
        return self._csv("operators.csv")

    @cached_property
    def ops(self) -> Table:
        """Operators of the framework, one row per name."""
        return self._csv("ops.csv")

    @cached_property
    def ops_by_shape(self) -> Table:
        """Operators of the framework, one row per name and input shapes."""
        return self._csv("ops_by_shape.csv")

    @cached_property
    def kernels(self) -> Table:
        """Kernels by name."""
        return self._csv("kernels.csv")

    @cached_property
    def requests(self) -> Table:
        """One row per request: tokens, TTFT, TPOT."""
        if (self.path / "requests.csv").is_file():
            return self._csv("requests.csv")
        rows = self.metrics.get("requests") or []
        columns = list(dict.fromkeys(name for row in rows for name in row))
        return Table(({name: row.get(name) for name in columns} for row in rows), columns)

    @cached_property
    def steps(self) -> Table:
        """One row per step: of `step(…)` and `decode_step` ranges, else of the passes of phases, else of patterns of launches."""
        trace = self.path / "trace.llmprof"
        if trace.is_file():
            found = steps_of_trace(self.path) or steps_of_phases(self.path)
            if found:
                return found
        return pattern_steps(self.analysis)

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {self.status})"

    def _repr_html_(self) -> str:
        if not self.report.is_file():
            return f"<pre>{html.escape(repr(self))}: no report.html</pre>"
        # The page has styles and scripts of its own, which must not meet those of the notebook.
        page = self.report.read_text(encoding="utf-8")
        # Links to sections would lead to those of the notebook. The page's own policy allows no other base after it.
        page = page.replace("<head>", '<head><base href="about:srcdoc">', 1)
        page = html.escape(page, quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 80vh; border: 0" title="llmprof report"></iframe>'

    def _json(self, name: str) -> dict[str, Any]:
        path = self.path / name
        if not path.is_file():
            return {}
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise NotARun(f"{path} is not JSON: {error}") from error
        if not isinstance(found, dict):
            raise NotARun(f"{path} holds {type(found).__name__}, not an object")
        return found

    def _csv(self, name: str) -> Table:
        path = self.path / name
        return Table.read_csv(path) if path.is_file() else Table()
