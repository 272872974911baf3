"""What was lost or should not be trusted."""

from __future__ import annotations

from typing import Any


class Issues:
    """Collects issues in the form of the protocol."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []

    def add(self, severity: str, code: str, message: str, hint: str | None = None) -> None:
        issue = {"severity": severity, "code": code, "message": message, "count": 1}
        if hint:
            issue["hint"] = hint
        self.found.append(issue)
