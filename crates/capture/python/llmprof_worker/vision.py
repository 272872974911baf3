"""When an image tower ran inside prefill."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .ranges import Ranges

# What models call their image tower.
NAMES = {"visual", "vision_tower", "vision_model", "vision_encoder", "vision"}


def tower_of(module: torch.nn.Module) -> torch.nn.Module | None:
    """The outermost module with such a name."""
    return next((one for name, one in module.named_modules() if name.split(".")[-1] in NAMES), None)


def features_of(module: torch.nn.Module) -> Any:
    """The module inside of a model whose `get_image_features` its own forward calls."""
    inner = getattr(module, "model", None)
    return inner if callable(getattr(inner, "get_image_features", None)) else None


@contextlib.contextmanager
def watched(module: torch.nn.Module, ranges: Ranges, now: Callable[[], int]) -> Iterator[list[tuple[int, int]]]:
    """Start and end of every call of the tower. `now` waits for the device, so both lie on a phase boundary."""
    spans: list[tuple[int, int]] = []
    started: list[int] = []
    tower = tower_of(module)

    def before(*_: object) -> None:
        started.append(now())
        ranges.push("vision")

    def after(*_: object) -> None:
        ranges.pop()
        spans.append((started.pop(), now()))

    hooks = []
    owner = features_of(module)
    if owner is not None:
        inner = owner.get_image_features

        def timed(*arguments: object, **options: object) -> object:
            before()
            try:
                return inner(*arguments, **options)
            finally:
                after()

        # The towers and what joins them to the decoder.
        owner.get_image_features = timed
    elif tower is not None:
        hooks = [tower.register_forward_pre_hook(before), tower.register_forward_hook(after, always_call=True)]
    try:
        yield spans
    finally:
        for hook in hooks:
            hook.remove()
        if owner is not None:
            del owner.get_image_features
