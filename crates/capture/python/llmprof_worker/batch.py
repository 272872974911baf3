"""Runs a batch and tells when each token was there.

What is measured: the batch begins when its tensors are on the device and all earlier work is done. A token is there when
its id is in host memory, which is also when the device has finished its step. Prefill ends with the first token. Between
the phases the worker waits for the device; inside a step it waits only for the token. On a CUDA device an event after each
step gives the same moments on the device's clock.

With a fixed cache (compile, cuda_graph) on a CUDA device and nothing to decide on the host between steps, the next step is
queued before the token of this one is read, so that the device never waits for the host.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable
from typing import Any

import torch

from . import devices, ranks, vendor, vision
from .decoders import Decoder
from .inputs import Inputs, inputs_of
from .issues import Issues
from .memory import Memory
from .pairs import PairDecoder, start_token
from .pending import Pending
from .ranges import Ranges
from .recording import Recording
from .requests import Generate
from .sampling import Sampler


def run(ready: Any, batch: Generate, progress: Callable[[int, int], None]) -> dict[str, Any]:
    """The answer to a request to generate."""
    if vendor.applies(ready, batch):
        return vendor.run(ready, batch)
    issues = Issues()
    inputs = inputs_of(ready, batch)
    memory = Memory(ready.device, batch.instruments.memory_snapshot, issues)
    recording = Recording(batch.instruments.profile, ready.device, issues)
    loop = Loop(ready, batch, inputs, Ranges(ready.device, recording.on), issues, progress)
    # What earlier batches left must not be cleared away inside this one.
    gc.collect()
    memory.begin()
    with torch.no_grad(), recording:
        loop.run()
    answer = loop.answer()
    told = memory.end()
    if told is not None:
        answer["memory"] = told
    if batch.events:
        answer["events"] = recording.write(ranks.own_file(batch.events))
    if issues.found:
        answer["issues"] = issues.found
    return answer


class Loop:
    """Prefill, then a step per token."""

    def __init__(self, ready: Any, batch: Generate, inputs: Inputs, ranges: Ranges, issues: Issues,
                 progress: Callable[[int, int], None]) -> None:
        self._ready = ready
        self._batch = batch
        self._inputs = inputs
        self._ranges = ranges
        self._progress = progress
        starts = [[start_token(ready.module)] if ready.encodes_prompts else list(prompt) for prompt in inputs.prompts]
        self._sampler = Sampler(batch.sampling, starts)
        self._most = max(request.max_new_tokens for request in batch.requests)
        self._outputs: list[list[int]] = [[] for _ in batch.requests]
        self._stopped = [False] * len(batch.requests)
        self._on_cuda = ready.device.type == "cuda"
        self._start = 0
        self._token_ns: list[int] = []
        self._sampling: list[tuple[int, int]] = []
        self._vision: list[tuple[int, int]] = []
        self._encoded = 0
        self._events: list[torch.cuda.Event] = []
        compiled = ready.request.options.compile != "off"
        self._decode_ranges = batch.instruments.module_ranges and not compiled
        if batch.instruments.module_ranges and compiled:
            issues.add("info", "ranges.compiled", "decode is compiled, so its kernels have no module",
                       "runtime.compile=off attributes kernels to modules")

    def run(self) -> None:
        decoder: Decoder = self._ready.decoder(len(self._batch.requests), self._inputs.ids.shape[1] + self._most)
        decoder.begin(self._inputs)
        watched = self._on_cuda and self._batch.instruments.cuda_profiler
        if watched:
            self._now()
            torch.cuda.profiler.start()
        try:
            self._generate(decoder)
        finally:
            if watched:
                self._now()
                torch.cuda.profiler.stop()

    def _generate(self, decoder: Decoder) -> None:
        self._start = self._now()
        self._mark()
        tokens = self._prefill(decoder)
        self._now()
        if self._goes_on():
            with self._ranges.range("decode"), self._ranges.modules(self._ready.module, self._decode_ranges):
                if self._runs_ahead():
                    self._decode_ahead(decoder, tokens)
                else:
                    self._decode(decoder, tokens)

    def _decode(self, decoder: Decoder, tokens: torch.Tensor) -> None:
        while self._goes_on():
            with self._ranges.range("decode_step"):
                tokens = self._take(self._choose(decoder.decode(tokens, self._decode_ranges)))

    def _decode_ahead(self, decoder: Decoder, tokens: torch.Tensor) -> None:
        steps = self._most - 1
        queued: list[Pending] = []
        for step in range(steps):
            with self._ranges.range("decode_step"):
                while len(queued) < 2 and step + len(queued) < steps:
                    fed = queued[-1].tokens if queued else tokens
                    queued.append(self._choose(decoder.decode(fed, self._decode_ranges)))
                tokens = self._take(queued.pop(0))

    def _runs_ahead(self) -> bool:
        """Whether steps can be queued, and none depends on what the host does with the tokens before it."""
        sampling = self._batch.sampling
        decided = sampling.do_sample or sampling.no_repeat_ngram_size or not self._batch.ignore_eos
        # On a CPU a step is done when its call returns: one ahead would only make the token of this one late.
        return self._on_cuda and self._ready.request.options.fixed_cache and not decided

    def _prefill(self, decoder: Decoder) -> torch.Tensor:
        module, wanted = self._ready.module, self._batch.instruments.module_ranges
        if isinstance(decoder, PairDecoder):
            with self._ranges.range("encode"), self._ranges.modules(module, wanted):
                decoder.encode()
                self._encoded = self._now()
        sees = vision.watched(module, self._ranges, self._now) if self._inputs.images else contextlib.nullcontext([])
        with self._ranges.range("prefill"), self._ranges.modules(module, wanted), sees as spans:
            tokens = self._take(self._choose(decoder.prefill(self._inputs)))
        self._vision = spans
        return tokens

    def _choose(self, logits: torch.Tensor) -> Pending:
        """Chooses the next tokens and sends them on their way."""
        began = time.monotonic_ns()
        with self._ranges.range("sampling"):
            tokens = self._sampler.choose(logits, self._stopped)
        self._mark()
        self._sampling.append((began, time.monotonic_ns()))
        return Pending(tokens)

    def _take(self, pending: Pending) -> torch.Tensor:
        """Waits for tokens and keeps their ids and the time; they stay on the device for the next step."""
        ids, now = pending.read()
        self._token_ns.append(now)
        for sequence, token in enumerate(ids):
            self._keep(sequence, token)
        self._progress(len(self._token_ns), self._most)
        return pending.tokens

    def _keep(self, sequence: int, token: int) -> None:
        output, request = self._outputs[sequence], self._batch.requests[sequence]
        if self._stopped[sequence] or len(output) == request.max_new_tokens:
            return
        output.append(token)
        self._sampler.keep(sequence, token)
        self._stopped[sequence] = not self._batch.ignore_eos and token in self._ready.end_tokens

    def _goes_on(self) -> bool:
        pairs = zip(self._outputs, self._stopped, self._batch.requests)
        return any(not over and len(output) < request.max_new_tokens for output, over, request in pairs)

    def _now(self) -> int:
        """The time once the device has done all it was given."""
        devices.synchronize(self._ready.device)
        return time.monotonic_ns()

    def _mark(self) -> None:
        if self._on_cuda:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self._events.append(event)

    def answer(self) -> dict[str, Any]:
        end = self._token_ns[-1]
        answer: dict[str, Any] = {
            "start_ns": self._start,
            "end_ns": end,
            "requests": [self._result(sequence) for sequence in range(len(self._outputs))],
            "phases": self._phases(end),
        }
        if self._events:
            first, *rest = self._events
            answer["device_token_ns"] = [round(first.elapsed_time(event) * 1e6) for event in rest]
        # On a CUDA device the host only queues the choice.
        if self._batch.events and not self._on_cuda:
            answer["host"] = [{"name": "sampling", "start_ns": a, "end_ns": b} for a, b in self._sampling]
        return answer

    def _result(self, sequence: int) -> dict[str, Any]:
        output = self._outputs[sequence]
        result = {
            "id": self._batch.requests[sequence].id,
            "prompt_tokens": len(self._inputs.prompts[sequence]),
            "start_ns": self._start,
            "output_tokens": output,
            "token_ns": self._token_ns[: len(output)],
            "finish": "stop" if self._stopped[sequence] else "length",
        }
        if self._ready.encodes_prompts:
            result["decoder_prompt_tokens"] = 1
        result.update(vendor.texts(self._ready.tokenizer, output))
        if self._inputs.cut[sequence]:
            result["cut_prompt_tokens"] = self._inputs.cut[sequence]
        if self._inputs.seen[sequence]:
            result["images"] = self._inputs.seen[sequence]
        return result

    def _phases(self, end: int) -> list[dict[str, Any]]:
        """Vision until the last image tower is done (what comes before it only prepares it) or the encoder, prefill, decode."""
        first = self._token_ns[0]
        seen = max((stop for _, stop in self._vision), default=self._start)
        read = max(seen, self._encoded)
        phases = [("vision", self._start, seen), ("encoder", seen, read), ("prefill", read, first), ("decode", first, end)]
        return [{"phase": name, "start_ns": a, "end_ns": b} for name, a, b in phases if b > a]
