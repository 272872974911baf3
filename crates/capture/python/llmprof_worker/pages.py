"""Image files: read, prepared by the model's own image processor, and placed in prompts.

A processor comes with a model's weights. A model from its config alone has the image processor that transformers knows for
it, with that class's own settings; `model.preprocess.*` changes them.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
import transformers

from .failure import Failure, first_line
from .images import Seen, first_of
from .requests import Load, Request

# What the two sizes and the crops of DeepSeek-OCR are called by the processors of transformers.
BASE, TILE, CROPS = "base_size", "image_size", "crop_mode"
# Whether any of the settings below `model.preprocess` count.
ENABLE = "enable"
# Two convolutions of stride 2 behind SAM.
DOWNSAMPLED = 4
# Files that say how images are prepared.
FILES = ("processor_config.json", "preprocessor_config.json")


def processor_of(load: Load, config: Any) -> Any:
    """What prepares images (and texts, where it comes with the weights); nothing for models that take none."""
    place = next((Path(one) for one in (load.path, load.tokenizer) if one), None)
    told = {"trust_remote_code": True} if load.options.trust_remote_code else {}
    try:
        if place and any((place / name).is_file() for name in FILES):
            return transformers.AutoProcessor.from_pretrained(place, local_files_only=True, **told)
        kind = transformers.models.auto.image_processing_auto.IMAGE_PROCESSOR_MAPPING.get(type(config), None)
        kind = usable(kind)
        return kind() if kind is not None else None
    except Exception as error:
        raise Failure("model", f"cannot make the image processor: {first_line(error)}") from error


def usable(kinds: Any) -> Any:
    """The first class that can be used here: the fast ones need torchvision."""
    if isinstance(kinds, dict):
        kinds = list(kinds.values())
    if not isinstance(kinds, (list, tuple)):
        kinds = [kinds]
    for kind in reversed([one for one in kinds if one is not None]):
        if isinstance(kind, str):
            kind = getattr(transformers, kind, None)
        if kind is not None and not getattr(kind, "is_dummy", False) and not is_placeholder(kind):
            return kind
    return None


def is_placeholder(kind: Any) -> bool:
    """Transformers puts a class that only raises where something is not installed."""
    return type(kind).__name__ == "DummyObject"


def enabled(preprocess: dict[str, Any] | None) -> dict[str, Any]:
    """Settings below `model.preprocess` that count: none where `enable` is false."""
    given = dict(preprocess or {})
    return given if given.pop(ENABLE, True) else {}


def settings(processor: Any, preprocess: dict[str, Any] | None, config: Any = None) -> dict[str, Any]:
    """`model.preprocess.*` in the words of an image processor. `enable: false` leaves its own settings."""
    told: dict[str, Any] = {}
    design = designed(config)
    for key, value in enabled(preprocess).items():
        if value is None:
            continue
        if key in design and not hasattr(processor, key):
            if value != design[key]:
                raise Failure("bad_request", f"the model has {key} {design[key]}, not {value} (model.preprocess.{key})",
                              "it is a part of the model's design, which preprocessing cannot change")
            continue
        if key == BASE:
            told["size"] = {"height": value, "width": value}
        elif key == TILE and hasattr(processor, "tile_size"):
            told["tile_size"] = value
        elif key == TILE:
            told["size"] = {"height": value, "width": value}
        elif key == CROPS and hasattr(processor, "crop_to_patches"):
            told["crop_to_patches"] = bool(value)
        elif hasattr(processor, key):
            told[key] = value
        else:
            raise Failure("bad_request", f"{type(processor).__name__} has no setting `{key}` (model.preprocess.{key})",
                          f"{BASE}, {TILE}, {CROPS}, or one of its own, such as do_resize, size, image_mean")
    return told


def designed(config: Any) -> dict[str, int]:
    """Numbers of the vision tower that older configs list beside the settings: they must be those of the model."""
    vision = getattr(config, "vision_config", None)
    sam = getattr(vision, "sam_config", None)
    if sam is None:
        return {}
    return {"patch_size": sam.patch_size, "downsample_ratio": DOWNSAMPLED}


def require_pillow() -> None:
    try:
        import PIL.Image  # noqa: F401
    except ImportError as error:
        raise Failure("missing", "images need the package pillow", "pip install pillow, into the environment of runtime.python") from error


def read(path: str, name: str) -> Any:
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as image:
            return ImageOps.exif_transpose(image).convert("RGB")
    except Exception as error:
        raise Failure("bad_request", f"sample `{name}`: {path} cannot be read: {first_line(error)}") from error


class Page:
    """One request: its token ids, the tensors of its images, and what those became."""

    def __init__(self, ids: list[int], arguments: dict[str, Any], seen: list[dict[str, int]]) -> None:
        self.ids = ids
        self.arguments = arguments
        self.seen = seen


def see(ready: Any, requests: list[Request], tokens: list[list[int] | None]) -> tuple[list[list[int]], Seen, list[list[dict[str, int]]]]:
    """Prompts with their images. `tokens` are the ids of a prompt that is no text for a processor."""
    require_pillow()
    if ready.processor is None:
        raise Failure("unsupported", f"transformers knows no image processor for {type(ready.module).__name__}")
    token = first_of(ready.module.config, "image_token_id", "image_token_index")
    if token is None:
        raise Failure("unsupported", f"{type(ready.module).__name__} names no token that stands for an image")
    pages = [page(ready, request, ids, token) for request, ids in zip(requests, tokens)]
    arguments = merged([one.arguments for one in pages], ready)
    return [one.ids for one in pages], Seen(arguments, [], token), [one.seen for one in pages]


def page(ready: Any, request: Request, tokens: list[int] | None, token: int) -> Page:
    if any(image.path is None for image in request.images):
        raise Failure("bad_request", f"request `{request.id}` has images with and without a file")
    pictures = [read(str(image.path), request.id) for image in request.images]
    own = getattr(ready.processor, "image_processor", ready.processor)
    told = settings(own, ready.request.options.preprocess, ready.module.config)
    if tokens is None:
        made = whole(ready.processor, request, pictures, told)
        ids = [int(one) for one in made.pop("input_ids")[0]]
        counts = [ids.count(token) // max(1, len(pictures))] * len(pictures)
    else:
        made = dict(own(images=pictures, return_tensors="pt", **told))
        counts = token_counts(ready.module.config, made, len(pictures))
        before: list[int] = []
        for count in counts:
            before += [token] * count
        ids = before + tokens
    for name in ("attention_mask", "mm_token_type_ids", "token_type_ids"):
        made.pop(name, None)
    return Page(ids, made, [facts(made, number, count) for number, count in enumerate(counts)])


def whole(processor: Any, request: Request, pictures: list[Any], told: dict[str, Any]) -> dict[str, Any]:
    """Text and images by the model's own processor: its template for conversations where the prompt places no image."""
    text = str(request.prompt["text"])
    mark = getattr(processor, "image_token", None) or "<image>"
    if mark not in text:
        if getattr(processor, "chat_template", None):
            content = [{"type": "image"}] * len(pictures) + [{"type": "text", "text": text}]
            text = processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
        else:
            text = mark * len(pictures) + text
    try:
        return dict(processor(images=pictures, text=[text], return_tensors="pt", **told))
    except Exception as error:
        raise Failure("bad_request", f"sample `{request.id}`: the processor refuses it: {first_line(error)}") from error


def token_counts(config: Any, made: dict[str, Any], pictures: int) -> list[int]:
    """Tokens that stand for each image, where there is no processor of texts to place them."""
    vision = getattr(config, "vision_config", None)
    if "image_grid_thw" in made:
        merge = getattr(vision, "spatial_merge_size", 1) ** 2
        return [int(grid.prod()) // merge for grid in made["image_grid_thw"]]
    if "num_local_patches" in made:
        sam = getattr(vision, "sam_config", None)
        side = getattr(sam, "patch_size", 16) * DOWNSAMPLED
        whole, local = (square(made, name, side) for name in ("pixel_values", "pixel_values_local"))
        return [whole + int(crops) * local + 1 for crops in made["num_local_patches"]]
    size, patch = getattr(vision, "image_size", None), getattr(vision, "patch_size", None)
    if isinstance(size, int) and isinstance(patch, int) and made["pixel_values"].shape[-1] == size:
        count = first_of(config, "mm_tokens_per_image") or (size // patch) ** 2
        return [count] * pictures
    raise Failure("unsupported", f"how many tokens an image of `{config.model_type}` has is not known without its processor",
                  "model.path=DIR with its processor_config.json, and infer.prompt")


def square(made: dict[str, Any], name: str, side: int) -> int:
    """Queries of a view: one for every `side` × `side` pixels."""
    return math.ceil(made[name].shape[-1] / side) ** 2 if name in made else 0


def facts(made: dict[str, Any], number: int, tokens: int) -> dict[str, int]:
    """What an image became, for those who count its work."""
    height = width = 0
    if "image_grid_thw" in made:
        _, rows, columns = (int(one) for one in made["image_grid_thw"][number])
        side = round((made["pixel_values"].shape[-1] / 6) ** 0.5)
        height, width = rows * side, columns * side
    elif made["pixel_values"].dim() >= 4:
        height, width = (int(one) for one in made["pixel_values"].shape[-2:])
    crops = int(made["num_local_patches"][number]) if "num_local_patches" in made else 0
    return {"tokens": tokens, "height": height, "width": width, "crops_wide": crops, "crops_high": 1 if crops else 0}


def merged(parts: list[dict[str, Any]], ready: Any) -> dict[str, Any]:
    """The tensors of all requests, one after the other, on the device and in the model's number format."""
    names = sorted({name for part in parts for name in part})
    told: dict[str, Any] = {}
    for name in names:
        values = [part[name] for part in parts if name in part]
        if not all(isinstance(value, torch.Tensor) for value in values):
            told[name] = [one for value in values for one in value]
            continue
        if len({tuple(value.shape[1:]) for value in values}) > 1:
            raise Failure("bad_request", f"images of a batch become `{name}` of different shapes", "runtime.batch_size=1")
        value = torch.cat(values).to(ready.device)
        told[name] = value.to(ready.dtype) if value.is_floating_point() else value
    return told
