"""Models whose own code reads a page: the vendor's DeepSeek-OCR has `infer`, which prepares the image and generates.

Its steps are seen from outside: the first call of the model is prefill, every later one a decode step.
"""

from __future__ import annotations

import inspect
import tempfile
import time
from typing import Any

import torch

from . import devices
from .failure import Failure, failure_of, first_line
from .requests import Generate, Request


def applies(ready: Any, batch: Generate) -> bool:
    """Whether a batch is for the model's own `infer`: trusted code, an image file and a text."""
    return (ready.request.options.trust_remote_code and callable(getattr(ready.module, "infer", None))
            and all("text" in request.prompt and len(request.images) == 1 and request.images[0].path
                    for request in batch.requests))


def run(ready: Any, batch: Generate) -> dict[str, Any]:
    """Runs a batch of one: `infer` takes one page."""
    if len(batch.requests) != 1:
        raise Failure("bad_request", "the model's own `infer` reads one page at a time", "runtime.batch_size=1")
    [request] = batch.requests
    steps = Steps(ready, request, batch.ignore_eos)
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder, steps:
        begin = steps.now()
        try:
            told = call(ready, request, folder)
        except Failure:
            raise
        except Exception as error:
            known = failure_of(error)
            kind = known.kind if known.kind == "out_of_memory" else "bad_request"
            raise Failure(kind, f"sample `{request.id}`: the model's `infer` failed: {first_line(error)}") from error
    return steps.answer(begin, told if isinstance(told, str) else None)


def call(ready: Any, request: Request, folder: str) -> Any:
    """Calls `infer` with what it takes of what there is to say."""
    names = inspect.signature(ready.module.infer).parameters
    known = {"prompt": request.prompt["text"], "image_file": request.images[0].path, "output_path": folder,
             "save_results": False, "eval_mode": True, "test_compress": False}
    known.update(ready.request.options.preprocess or {})
    told = {name: value for name, value in known.items() if name in names and value is not None}
    return ready.module.infer(ready.tokenizer, **told)


class Steps:
    """Watches the model's calls and what `generate` gives back."""

    def __init__(self, ready: Any, request: Request, ignore_eos: bool) -> None:
        self._ready = ready
        self._request = request
        self._ignore_eos = ignore_eos
        self._ends: list[int] = []
        self._ids: list[int] = []
        self._prompt = 0

    def now(self) -> int:
        devices.synchronize(self._ready.device)
        return time.monotonic_ns()

    def __enter__(self) -> Steps:
        module = self._ready.module
        self._hook = module.register_forward_hook(lambda *_: self._ends.append(self.now()))
        before = module.generate

        def generate(inputs: Any = None, *arguments: Any, **options: Any) -> Any:
            options["max_new_tokens"] = self._request.max_new_tokens
            options.pop("max_length", None)
            if self._ignore_eos:
                options["min_new_tokens"] = self._request.max_new_tokens
            options.pop("streamer", None)
            given: Any = inputs if inputs is not None else options.get("input_ids")
            self._prompt = 0 if given is None else int(given.shape[-1])
            result = before(inputs, *arguments, **options)
            ids = result if isinstance(result, torch.Tensor) else result.sequences
            self._ids = [int(one) for one in ids[0, self._prompt:]]
            return result

        module.generate = generate
        return self

    def __exit__(self, *_: object) -> None:
        self._hook.remove()
        del self._ready.module.generate

    def answer(self, begin: int, told: str | None) -> dict[str, Any]:
        count = min(len(self._ids), len(self._ends))
        if count == 0:
            raise Failure("bad_request", f"sample `{self._request.id}`: the model's `infer` generated nothing")
        ids, ends = self._ids[:count], self._ends[:count]
        stopped = ids[-1] in self._ready.end_tokens and not self._ignore_eos
        result: dict[str, Any] = {
            "id": self._request.id, "prompt_tokens": self._prompt, "start_ns": begin, "output_tokens": ids,
            "token_ns": ends, "finish": "stop" if stopped or count < self._request.max_new_tokens else "length",
        }
        result.update(texts(self._ready.tokenizer, ids))
        if told and "text" not in result:
            result["text"] = told
        phases = [("prefill", begin, ends[0]), ("decode", ends[0], ends[-1])]
        return {
            "start_ns": begin, "end_ns": ends[-1], "requests": [result],
            "phases": [{"phase": name, "start_ns": a, "end_ns": b} for name, a, b in phases if b > a],
        }


def texts(tokenizer: Any, ids: list[int]) -> dict[str, str]:
    """The text of some ids, and with special tokens where that differs."""
    if tokenizer is None:
        return {}
    plain = tokenizer.decode(ids, skip_special_tokens=True)
    raw = tokenizer.decode(ids, skip_special_tokens=False)
    return {"text": plain} if raw == plain else {"text": plain, "raw_text": raw}
