"""The conversation: one answer for each request, failures included."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from typing import Any

from . import absent, packages
from .connection import Connection
from .failure import Failure, failure_of

VERSION = 1


class Server:
    """Holds the model between requests. Nothing heavy is imported before hello, so that what is missing can be said."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._model: Any = None
        # Other processes that do the same, where the model is split among several.
        self._ranks: Any = None

    def answer(self, kind: str, content: Any) -> dict[str, Any]:
        steps = {
            "hello": self.hello,
            "load": self.load,
            "warm_up": self.generate,
            "generate": self.generate,
            "measure": self.measure,
            "trace": self.trace,
            "bye": self.bye,
        }
        if kind not in steps:
            raise Failure("protocol", f"there is no request `{kind}`")
        return steps[kind](content)

    def hello(self, _: Any) -> dict[str, Any]:
        absent.refuse_absent(os.environ.get("LLMPROF_WORKER_DEVICE", "cpu"))
        versions = packages.require()
        # All that is imported now does not count as loading a model.
        from . import batch, loading  # noqa: F401

        return {
            "version": VERSION,
            "runtime": "pytorch",
            "runtime_version": versions["torch"],
            "pid": os.getpid(),
            "monotonic_ns": time.monotonic_ns(),
        }

    def load(self, content: Any) -> dict[str, Any]:
        from . import loading
        from .requests import Load

        # The one before goes first: two models need not fit.
        self._model = None
        request = Load.of(content)
        if request.options.ranks > 1 and self._ranks is None:
            from .ranks import Ranks

            self._ranks = Ranks(request.options.ranks, request.device)
        with self._together("load", content):
            self._model, loaded = loading.load(request)
        return loaded

    def generate(self, content: Any) -> dict[str, Any]:
        from . import batch
        from .requests import Generate

        if self._model is None:
            raise Failure("protocol", "no model is loaded")
        with self._together("generate", content):
            return batch.run(self._model, Generate.of(content), self._connection.progress)

    def measure(self, content: Any) -> dict[str, Any]:
        from . import measure
        from .requests import Measure

        return measure.run(Measure.of(content), self._connection.progress)

    def trace(self, content: Any) -> dict[str, Any]:
        from . import tracing
        from .requests import Trace

        return tracing.run(Trace.of(content))

    def bye(self, _: Any) -> dict[str, Any]:
        if self._ranks is not None:
            self._ranks.end()
        return {}

    @contextlib.contextmanager
    def _together(self, kind: str, content: Any) -> Iterator[None]:
        """Has the other ranks do the same, and fails if one of them does."""
        if self._ranks is None:
            yield
            return
        self._ranks.tell(kind, content)
        try:
            yield
        except Exception as error:
            self._ranks.agree(str(error))
            raise
        self._ranks.agree(None)


def parsed(line: str) -> tuple[str, Any]:
    try:
        [(kind, content)] = json.loads(line).items()
    except (ValueError, AttributeError) as error:
        raise Failure("protocol", f"not a request of protocol version {VERSION}: {error}") from error
    return kind, content


def main() -> None:
    if "LLMPROF_FOLLOWER" in os.environ:
        from .follower import follow

        return follow()
    connection = Connection()
    server = Server(connection)
    for line in connection.lines():
        kind = ""
        try:
            kind, content = parsed(line)
            answer = server.answer(kind, content)
        except Exception as error:
            free_memory()
            connection.send("error", failure_of(error).as_data())
            continue
        connection.send(kind, answer)
        if kind == "bye":
            return


def free_memory() -> None:
    """After a failure, so that the next request finds what this one held."""
    import gc
    import sys

    gc.collect()
    torch = sys.modules.get("torch")
    try:
        if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.empty_cache()
    except Exception:
        # A device that failed stays failed, and a torch that did not come whole has no such parts; the error that is
        # being answered says why.
        pass
