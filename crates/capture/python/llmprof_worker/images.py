"""Images of random pixels, and the tokens that stand for them in the prompt.

What a model sees is prepared by a processor that comes with its weights. A model from its config alone has none, so the
ways that most families share are made here: patches of any image size (Qwen's vision models), and squares of the tower's
own size (LLaVA, Gemma 3, PaliGemma and their kin; in rows, one per request, for Idefics 3 and SmolVLM).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import transformers

from .failure import Failure
from .requests import Image, Request

SEED = 0


@dataclass
class Seen:
    """The arguments of the model, the tokens before each prompt, and the id that stands for an image's features."""

    arguments: dict[str, Any]
    tokens: list[list[int]]
    token: int


def see(ready: Any, requests: list[Request]) -> Seen | None:
    """The images of a batch; absent where it has none."""
    pictures = [image for request in requests for image in request.images]
    if not pictures:
        return None
    # Earlier versions want prompts, masks and images prepared in ways of each model's own.
    if transformers.__version__.startswith("4."):
        raise Failure("unsupported", f"images need transformers 5 or newer, this is {transformers.__version__}")
    config = ready.module.config
    vision = getattr(config, "vision_config", None)
    token = first_of(config, "image_token_id", "image_token_index")
    if vision is None or token is None:
        raise Failure("unsupported", f"{type(ready.module).__name__} takes no images")
    generator = torch.Generator(device=ready.device).manual_seed(SEED)
    if hasattr(vision, "sam_config"):
        arguments, counts = whole_views(vision, pictures, ready, generator)
    elif hasattr(vision, "temporal_patch_size") and hasattr(vision, "spatial_merge_size"):
        arguments, counts = patches(vision, pictures, ready, generator)
    else:
        arguments, counts = squares(config, vision, pictures, ready, generator)
        # Where tokens are joined by the config's own factor, images stand in a row per request.
        joined = getattr(config, "scale_factor", None)
        if isinstance(joined, int):
            counts = [count // joined**2 for count in counts]
            pixels = arguments["pixel_values"]
            arguments["pixel_values"] = pixels.view(len(requests), -1, *pixels.shape[1:])
    around = [first_of(config, name) for name in ("vision_start_token_id", "vision_end_token_id")]
    tokens: list[list[int]] = []
    left = iter(counts)
    for request in requests:
        before: list[int] = []
        for _ in request.images:
            before += bracketed([token] * next(left), around, ready.vocabulary)
        tokens.append(before)
    return Seen(arguments, tokens, token)


def bracketed(tokens: list[int], around: list[int | None], vocabulary: int) -> list[int]:
    start, end = ([one] if one is not None and one < vocabulary else [] for one in around)
    return start + tokens + end


def first_of(config: Any, *names: str) -> int | None:
    return next((value for name in names if (value := getattr(config, name, None)) is not None), None)


def random(shape: tuple[int, ...], ready: Any, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(shape, generator=generator, device=ready.device).to(ready.dtype)


def patches(vision: Any, pictures: list[Image], ready: Any, generator: torch.Generator) -> tuple[dict[str, Any], list[int]]:
    """Images cut into patches of their own number, merged before the decoder."""
    side, merge = vision.patch_size, vision.spatial_merge_size
    own = side * merge * 16
    grid = [[1, *(multiple(size or own, side * merge) // side for size in (image.height, image.width))]
            for image in pictures]
    channels = first_of(vision, "in_channels", "in_chans") or 3
    width = channels * vision.temporal_patch_size * side * side
    rows = sum(t * h * w for t, h, w in grid)
    arguments = {
        "pixel_values": random((rows, width), ready, generator),
        "image_grid_thw": torch.tensor(grid, dtype=torch.long, device=ready.device),
    }
    return arguments, [t * h * w // (merge * merge) for t, h, w in grid]


def whole_views(vision: Any, pictures: list[Image], ready: Any,
                generator: torch.Generator) -> tuple[dict[str, Any], list[int]]:
    """Images of the tower's own size without crops (DeepSeek-OCR-2): a token for each of its queries, and a separator."""
    sam = vision.sam_config
    if any(given not in (0, sam.image_size) for image in pictures for given in (image.height, image.width)):
        raise Failure("bad_request", f"images without a file have {sam.image_size} pixels a side")
    pixels = random((len(pictures), sam.num_channels, sam.image_size, sam.image_size), ready, generator)
    tokens = (sam.image_size // sam.patch_size // 4) ** 2 + 1
    return {"pixel_values": pixels}, [tokens] * len(pictures)


def multiple(size: int, of: int) -> int:
    """The nearest multiple that is not 0."""
    return max(1, round(size / of)) * of


def squares(config: Any, vision: Any, pictures: list[Image], ready: Any,
            generator: torch.Generator) -> tuple[dict[str, Any], list[int]]:
    """Images of the tower's own size, each with as many tokens as the tower has patches or the config says."""
    size, side = getattr(vision, "image_size", None), getattr(vision, "patch_size", None)
    if not isinstance(size, int) or not isinstance(side, int):
        raise Failure("unsupported", f"images for `{config.model_type}` cannot be made from its config")
    if any(given not in (0, size) for image in pictures for given in (image.height, image.width)):
        raise Failure("bad_request", f"images of `{config.model_type}` have {size} pixels a side")
    count = first_of(config, "mm_tokens_per_image") or (size // side) ** 2
    if getattr(config, "vision_feature_select_strategy", "default") == "full":
        count += 1
    channels = getattr(vision, "num_channels", 3)
    pixels = random((len(pictures), channels, size, size), ready, generator)
    return {"pixel_values": pixels}, [count] * len(pictures)
