"""From the config that llmprof sends to the config and the class of transformers."""

from __future__ import annotations

from typing import Any

import torch
import transformers

from . import dtypes
from .failure import Failure, first_line
from .requests import Load

# Keys of a config that say a number format; the request's own dtype stands above them.
DTYPE_KEYS = ("dtype", "torch_dtype")


def config_of(load: Load) -> Any:
    """The config of transformers for a request."""
    if load.options.trust_remote_code and load.path and "auto_map" in load.config:
        return remote_config(load)
    return design_of(load.config)


def design_of(design: dict[str, Any]) -> Any:
    """The config of a model whose code is part of transformers."""
    data = {key: untagged(value) for key, value in design.items() if key not in DTYPE_KEYS}
    kind = data.pop("model_type", None)
    if kind is None:
        raise Failure("model", "the config does not say its `model_type`")
    if kind not in transformers.CONFIG_MAPPING:
        raise Failure("unsupported", f"transformers {transformers.__version__} knows no model of type `{kind}`",
                      "runtime.trust_remote_code=true runs the code of its directory" if "auto_map" in design
                      else "a newer transformers may know it")
    try:
        return transformers.AutoConfig.for_model(kind, **data)
    except Exception as error:
        raise Failure("model", f"transformers refuses the config: {first_line(error)}") from error


def untagged(value: Any) -> Any:
    """A value of a config with the numbers that JSON does not have: transformers 5 writes them as `{"__float__": "Infinity"}`."""
    if isinstance(value, list):
        return [untagged(entry) for entry in value]
    if isinstance(value, dict):
        return float(value["__float__"]) if value.keys() == {"__float__"} else {key: untagged(entry) for key, entry in value.items()}
    return value


def remote_config(load: Load) -> Any:
    try:
        config = transformers.AutoConfig.from_pretrained(load.path, trust_remote_code=True, local_files_only=True)
    except Exception as error:
        raise Failure("model", f"cannot read the config in {load.path}: {first_line(error)}") from error
    for key, value in load.config.items():
        if key not in DTYPE_KEYS and isinstance(value, (bool, int, float, str)) and hasattr(config, key):
            setattr(config, key, value)
    return config


def dtype_of(load: Load, device: torch.device) -> torch.dtype:
    """What the request says, else what the config says, else what fits the device."""
    if load.dtype:
        return dtypes.of_name(load.dtype)
    stated = next((load.config[key] for key in DTYPE_KEYS if load.config.get(key)), None)
    if stated is None:
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    if stated in dtypes.NAMES:
        return dtypes.NAMES[stated]
    dtype = getattr(torch, str(stated).removeprefix("torch."), None)
    if not isinstance(dtype, torch.dtype):
        raise Failure("model", f"the config states a dtype that torch does not know: {stated}")
    return dtype


def class_of(config: Any, load: Load) -> Any:
    """The class of transformers that makes models of this config: causal language models, those that see images, and pairs of an
    encoder and a decoder."""
    if load.options.trust_remote_code and "auto_map" in load.config:
        return class_of_remote(load)
    text, sight = transformers.AutoModelForCausalLM, image_text_class()
    sees = getattr(config, "vision_config", None) is not None
    choices = [sight, text] if sees else [text, sight]
    if getattr(config, "is_encoder_decoder", False):
        # Some of them have a decoder that can be had alone.
        choices = [transformers.AutoModelForSeq2SeqLM, transformers.AutoModelForSpeechSeq2Seq, *choices]
    for choice in choices:
        if choice is not None and type(config) in choice._model_mapping:
            return choice
    raise Failure("unsupported", f"transformers has no model that generates text for `{config.model_type}`")


def class_of_remote(load: Load) -> Any:
    for name in load.config["auto_map"]:
        if name.startswith("AutoModelFor") and hasattr(transformers, name):
            return getattr(transformers, name)
    # Some models bring their generation in the plain `AutoModel`.
    return transformers.AutoModel


def image_text_class() -> Any:
    names = ("AutoModelForImageTextToText", "AutoModelForVision2Seq")
    return next((getattr(transformers, name) for name in names if hasattr(transformers, name)), None)
