"""Models whose own code reads a page: the vendor's DeepSeek-OCR has `infer`, which prepares the image and generates.

Its steps are seen from outside: the first call of the model is prefill, every later one a decode step.
"""

from __future__ import annotations

import inspect
import tempfile
import time
from typing import Any

import torch

from . import devices, pages, vision
from .failure import Failure, failure_of, first_line
from .issues import Issues
from .memory import Memory
from .ranges import Ranges
from .recording import Recording
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
    issues = Issues()
    memory = Memory(ready.device, batch.instruments.memory_snapshot, issues)
    recording = Recording(batch.instruments.profile, ready.device, issues)
    ranges = Ranges(ready.device, recording.on)
    steps = Steps(ready, request, batch.ignore_eos, ranges)
    modules = ranges.modules(ready.module, batch.instruments.module_ranges)
    memory.begin()
    with (torch.no_grad(), tempfile.TemporaryDirectory() as folder, recording, modules,
          vision.watched(ready.module, ranges, steps.now) as seen, steps):
        begin = steps.now()
        told = guarded(ready, request, folder)
    answer = steps.answer(begin, told if isinstance(told, str) else None, seen)
    used = memory.end()
    if used is not None:
        answer["memory"] = used
    if batch.events:
        answer["events"] = recording.write(batch.events)
    if issues.found:
        answer["issues"] = issues.found
    return answer


def guarded(ready: Any, request: Request, folder: str) -> Any:
    """Calls `infer`; what fails in it is the sample's failure."""
    try:
        return call(ready, request, folder)
    except Failure:
        raise
    except Exception as error:
        known = failure_of(error)
        kind = known.kind if known.kind == "out_of_memory" else "bad_request"
        raise Failure(kind, f"sample `{request.id}`: the model's `infer` failed: {first_line(error)}") from error


def call(ready: Any, request: Request, folder: str) -> Any:
    """Calls `infer` with what it takes of what there is to say."""
    names = inspect.signature(ready.module.infer).parameters
    known = {"prompt": request.prompt["text"], "image_file": request.images[0].path, "output_path": folder,
             "save_results": False, "eval_mode": True, "test_compress": False}
    known.update(pages.enabled(ready.request.options.preprocess))
    told = {name: value for name, value in known.items() if name in names and value is not None}
    return ready.module.infer(ready.tokenizer, **told)


class Steps:
    """Watches the model's calls and what `generate` gives back."""

    def __init__(self, ready: Any, request: Request, ignore_eos: bool, ranges: Ranges) -> None:
        self._ready = ready
        self._request = request
        self._ignore_eos = ignore_eos
        self._ends: list[int] = []
        self._ids: list[int] = []
        self._prompt = 0
        self._ranges = ranges
        self._decodes = False

    def now(self) -> int:
        devices.synchronize(self._ready.device)
        return time.monotonic_ns()

    def __enter__(self) -> Steps:
        module = self._ready.module
        self._hooks = [module.register_forward_pre_hook(self._begin), module.register_forward_hook(self._end, always_call=True)]
        before = module.generate

        def generate(inputs: Any = None, *arguments: Any, **options: Any) -> Any:
            options["max_new_tokens"] = self._request.max_new_tokens
            options.pop("max_length", None)
            if self._ignore_eos:
                options["min_new_tokens"] = self._request.max_new_tokens
            options.pop("streamer", None)
            given: Any = inputs if inputs is not None else options.get("input_ids")
            self._prompt = 0 if given is None else int(given.shape[-1])
            try:
                result = before(inputs, *arguments, **options)
            finally:
                if self._decodes:
                    self._ranges.pop()
                self._decodes = False
            ids = result if isinstance(result, torch.Tensor) else result.sequences
            self._ids = [int(one) for one in ids[0, self._prompt:]]
            return result

        module.generate = generate
        return self

    def _begin(self, *_: object) -> None:
        self._ranges.push("decode_step" if self._ends else "prefill")

    def _end(self, *_: object) -> None:
        self._ends.append(self.now())
        self._ranges.pop()
        if len(self._ends) == 1:
            self._ranges.push("decode")
            self._decodes = True

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()
        del self._ready.module.generate

    def answer(self, begin: int, told: str | None, seen: list[tuple[int, int]]) -> dict[str, Any]:
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
        looked = min(max((stop for _, stop in seen), default=begin), ends[0])
        phases = [("vision", begin, looked), ("prefill", looked, ends[0]), ("decode", ends[0], ends[-1])]
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
