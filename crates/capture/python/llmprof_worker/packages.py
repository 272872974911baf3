"""The packages that the worker needs, and what to install where they are missing."""

from __future__ import annotations

import importlib
import importlib.metadata
import sys

from .failure import Failure

# The oldest versions with what the worker calls: `StaticCache` and `cache_position` of transformers 4.44.
NEEDED = {"torch": (2, 4), "transformers": (4, 44)}


def require() -> dict[str, str]:
    """Imports the packages; the answer is their versions."""
    return {name: version_of(name, least) for name, least in NEEDED.items()}


def version_of(name: str, least: tuple[int, int]) -> str:
    hint = (f"{sys.executable} -m pip install torch transformers, or runtime.python=PATH of another interpreter; "
            "`llmprof doctor` checks both; runtime=native device=cpu needs neither")
    try:
        module = importlib.import_module(name)
    except Exception as error:
        # A package that is there may lack one of its own, or a library of the system, which is no ImportError.
        missing = getattr(error, "name", None) or name
        raise Failure("missing", f"the Python at {sys.executable} cannot import `{name}`: {error}",
                      hint if missing.split(".")[0] in NEEDED else f"install `{missing}` there") from error
    version = str(getattr(module, "__version__", "of no version"))
    if numbers(version) < least:
        wanted = ".".join(map(str, least))
        raise Failure("missing", f"the Python at {sys.executable} has {name} {version}; {wanted} or newer is needed", hint)
    return version


def numbers(version: str) -> tuple[int, int]:
    """The first two numbers of a version: `2.11.0+cu130` is (2, 11)."""
    parts = version.split("+")[0].split(".")
    digits = ["".join(c for c in part if c.isdigit()) for part in parts[:2]]
    return tuple(int(part or 0) for part in (digits + ["0", "0"])[:2])  # type: ignore[return-value]


def installed() -> dict[str, str]:
    """Every distribution of this environment, with its version."""
    found = ((one.metadata["Name"], one.version) for one in importlib.metadata.distributions())
    return {str(name): str(version) for name, version in found if name}
