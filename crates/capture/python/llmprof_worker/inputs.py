"""Prompts as tensors: one length for all sequences of a batch, shorter ones padded on the left."""

from __future__ import annotations

from typing import Any

import torch

from . import images, pages
from .failure import Failure
from .requests import Generate, Request


class Inputs:
    """What prefill takes. `padding` is absent where all prompts have one length."""

    def __init__(self, prompts: list[list[int]], device: torch.device, seen: images.Seen | None) -> None:
        self.prompts = prompts
        self.cut: list[int] = [0] * len(prompts)
        self.seen: list[list[dict[str, int]]] = [[] for _ in prompts]
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
    told: list[list[dict[str, int]]] | None = None
    seen: images.Seen | None
    if any(image.path for request in batch.requests for image in request.images):
        by_processor = hasattr(ready.processor, "tokenizer")
        own = [None if by_processor and "text" in request.prompt else tokens_of(ready, request)
               for request in batch.requests]
        kept, cut = cut_to(own, batch.max_prompt_tokens)
        prompts, seen, told = pages.see(ready, batch.requests, kept)
    else:
        prompts, cut = cut_to([tokens_of(ready, request) for request in batch.requests], batch.max_prompt_tokens)
        seen = images.see(ready, batch.requests)
        if seen:
            prompts = [before + prompt for before, prompt in zip(seen.tokens, prompts)]
    for request, prompt in zip(batch.requests, prompts):
        check(ready, request, prompt)
    inputs = Inputs(prompts, ready.device, seen)
    inputs.cut = cut
    inputs.seen = told or inputs.seen
    return inputs


def cut_to(prompts: list[Any], most: int | None) -> tuple[list[Any], list[int]]:
    """Prompts of `most` tokens at most, and how many each lost. What is not tokens yet stays."""
    cut = [max(0, len(prompt) - most) if prompt is not None and most is not None else 0 for prompt in prompts]
    kept = [prompt[: len(prompt) - lost] if lost else prompt for prompt, lost in zip(prompts, cut)]
    return kept, cut


def tokens_of(ready: Any, request: Request) -> list[int]:
    [(kind, content)] = request.prompt.items()
    if kind == "tokens":
        return list(content)
    if kind != "text":
        raise Failure("protocol", f"request `{request.id}` has a prompt of unknown kind `{kind}`")
    if ready.tokenizer is None:
        raise Failure("bad_request", "the model has no tokenizer, so prompts must be token ids",
                      "model.tokenizer=DIR, or dataset=synthetic")
    return list(ready.tokenizer(content)["input_ids"])


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
    if ready.encodes_prompts:
        if ready.most_encoded is not None and len(prompt) > ready.most_encoded:
            refuse(f"has {len(prompt)} tokens, but the encoder has learned {ready.most_encoded} positions")
        # The decoder begins with a token of its own.
        prompt = [0]
    needed = len(prompt) + request.max_new_tokens
    # What was announced counts text; images come beside it.
    if not request.images and needed > ready.request.max_positions:
        refuse(f"needs {needed} positions, but at most {ready.request.max_positions} were announced")
    if ready.most_positions is not None and needed - 1 > ready.most_positions:
        refuse(f"needs {needed - 1} positions, but the model has learned {ready.most_positions}")
