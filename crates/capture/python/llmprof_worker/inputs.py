"""Prompts as tensors: one length for all sequences of a batch, shorter ones padded on the left."""

from __future__ import annotations

from typing import Any

import torch

from . import images
from .failure import Failure
from .requests import Generate, Request


class Inputs:
    """What prefill takes. `padding` is absent where all prompts have one length."""

    def __init__(self, prompts: list[list[int]], device: torch.device, seen: images.Seen | None) -> None:
        self.prompts = prompts
        longest = max(len(prompt) for prompt in prompts)
        padded = [[0] * (longest - len(prompt)) + prompt for prompt in prompts]
        self.ids = torch.tensor(padded, dtype=torch.long, device=device)
        self.padding: torch.Tensor | None = None
        if any(len(prompt) < longest for prompt in prompts):
            mask = [[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts]
            self.padding = torch.tensor(mask, dtype=torch.long, device=device)
        self.images: dict[str, Any] = seen.arguments if seen else {}
        self.types = (self.ids == seen.token).int() if seen else None

    def grow(self) -> None:
        """One more token per sequence."""
        if self.padding is not None:
            self.padding = torch.nn.functional.pad(self.padding, (0, 1), value=1)

    def positions(self) -> torch.Tensor:
        """Positions that start at each prompt's first token."""
        assert self.padding is not None
        return (self.padding.cumsum(-1) - 1).clamp(min=0)


def inputs_of(ready: Any, batch: Generate) -> Inputs:
    """The tensors of a batch; what cannot be run is told before anything is."""
    if not batch.requests:
        raise Failure("bad_request", "the batch has no requests")
    if len(batch.requests) > ready.request.max_batch:
        raise Failure("bad_request",
                      f"{len(batch.requests)} requests, but at most {ready.request.max_batch} were announced")
    prompts = [tokens_of(ready, request, batch.max_prompt_tokens) for request in batch.requests]
    seen = images.see(ready, batch.requests)
    if seen:
        prompts = [before + prompt for before, prompt in zip(seen.tokens, prompts)]
    for request, prompt in zip(batch.requests, prompts):
        check(ready, request, prompt)
    return Inputs(prompts, ready.device, seen)


def tokens_of(ready: Any, request: Request, most: int | None) -> list[int]:
    [(kind, content)] = request.prompt.items()
    if kind == "tokens":
        return content if most is None else content[:most]
    if kind != "text":
        raise Failure("protocol", f"request `{request.id}` has a prompt of unknown kind `{kind}`")
    if ready.tokenizer is None:
        raise Failure("bad_request", "the model has no tokenizer, so prompts must be token ids",
                      "model.tokenizer=DIR, or dataset=synthetic")
    tokens = list(ready.tokenizer(content)["input_ids"])
    return tokens if most is None else tokens[:most]


def check(ready: Any, request: Request, prompt: list[int]) -> None:
    def refuse(what: str) -> None:
        raise Failure("bad_request", f"request `{request.id}` {what}")

    if not prompt:
        refuse("has no tokens")
    if request.max_new_tokens < 1:
        refuse("asks for no tokens")
    largest = max(prompt)
    if largest >= ready.vocabulary or min(prompt) < 0:
        refuse(f"has token {largest}, but the model knows {ready.vocabulary}")
    needed = len(prompt) + request.max_new_tokens
    # What was announced counts text; a cache that grows has room for images beside it.
    counts = not request.images or ready.request.options.fixed_cache
    if counts and needed > ready.request.max_positions:
        refuse(f"needs {needed} positions, but at most {ready.request.max_positions} were announced")
    if ready.most_positions is not None and needed - 1 > ready.most_positions:
        refuse(f"needs {needed - 1} positions, but the model has learned {ready.most_positions}")
