"""Rows with named columns: `pandas.DataFrame(table)` takes them as they are."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Union

Value = Union[int, float, str, bool, None]


class Table(list["dict[str, Value]"]):
    """Rows, each with every column. A value that is not known is None."""

    def __init__(self, rows: Iterable[dict[str, Value]] = (), columns: Sequence[str] = ()) -> None:
        super().__init__(rows)
        self.columns: tuple[str, ...] = tuple(columns) or tuple(self[0] if self else ())

    def column(self, name: str) -> list[Value]:
        if name not in self.columns:
            raise KeyError(f"no column {name!r}; there are {', '.join(self.columns) or 'none'}")
        return [row[name] for row in self]

    def to_pandas(self) -> Any:
        import pandas

        return pandas.DataFrame(list(self), columns=list(self.columns))

    @classmethod
    def read_csv(cls, path: Path) -> Table:
        with path.open(newline="") as file:
            reader = csv.reader(file)
            columns = next(reader, [])
            rows = [dict(zip(columns, map(_value, cells))) for cells in reader]
        return cls(rows, columns)

    def _repr_html_(self) -> str:
        from html import escape

        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(_cell(row[name]))}</td>" for name in self.columns) + "</tr>"
            for row in self[:_SHOWN]
        )
        rest = f"<p>{len(self) - _SHOWN} more rows</p>" if len(self) > _SHOWN else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


_SHOWN = 100


def _cell(value: Value) -> str:
    return "" if value is None else str(value)


def _value(text: str) -> Value:
    """A cell as a number where it is one. Names such as `nan` and `inf` stay text."""
    if text == "":
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text
