"""Steps of a model on torch's meta device: prefill, and decode steps at several context lengths."""

from __future__ import annotations

import inspect
from typing import Any

import torch
import transformers

from . import configs, dtypes
from .failure import Failure, first_line
from .operators import Operators, Whole
from .requests import Trace


# What models call the state that they hand from step to step.
CACHES = ("past_key_values", "cache_params", "state")


@torch.no_grad()
def run(request: Trace) -> dict[str, Any]:
    config = configs.design_of(request.config)
    dtype = dtypes.of_name(request.dtype) if request.dtype else torch.bfloat16
    told = {"attn_implementation": request.attn_implementation} if request.attn_implementation else {}
    try:
        with torch.device("meta"):
            model = class_of(config).from_config(config, dtype=dtype, **told).eval()
    except Exception as error:
        raise Failure("model", f"transformers cannot build the model: {first_line(error)}") from error
    steps = EncoderDecoder(model) if config.is_encoder_decoder else Decoder(model)
    try:
        prefill, cache = steps.prefill(request.batch, request.prompt)
        decode = [steps.decode(request.batch, cached)[0] for cached in request.contexts]
    except Exception as error:
        raise Failure("unsupported", f"cannot trace a `{config.model_type}` on the meta device: {type(error).__name__}: {first_line(error)}") from error
    parameters = {id(one): one for one in model.parameters()}.values()
    return {
        "transformers": transformers.__version__, "parameters": sum(one.numel() for one in parameters),
        "weight_bytes": sum(one.numel() * one.element_size() for one in parameters), "cache_bytes": held(cache),
        "prefill": prefill, "decode": decode,
    }


def class_of(config: Any) -> Any:
    names = ("AutoModelForSeq2SeqLM", "AutoModelForCausalLM", "AutoModelForImageTextToText")
    for name in names if config.is_encoder_decoder else names[1:]:
        choice = getattr(transformers, name, None)
        if choice is not None and type(config) in choice._model_mapping:
            return choice
    raise Failure("unsupported", f"transformers has no model that generates text for `{config.model_type}`")


class Decoder:
    """Prompt and new tokens go through the same layers."""

    def __init__(self, model: Any) -> None:
        self.model = model
        names = inspect.signature(model.forward).parameters
        self.fixed: dict[str, Any] = {"use_cache": True}
        if "logits_to_keep" in names:
            self.fixed["logits_to_keep"] = 1
        self.cache = next((name for name in CACHES if name in names), CACHES[0])
        self.positions = "cache_position" in names

    def prefill(self, batch: int, prompt: int) -> tuple[dict[str, Any], Any]:
        return self.step(batch, prompt, 0, None)

    def decode(self, batch: int, cached: int) -> tuple[dict[str, Any], Any]:
        _, cache = self.prefill(batch, cached)
        return self.step(batch, 1, cached, cache)

    def step(self, batch: int, tokens: int, past: int, cache: Any) -> tuple[dict[str, Any], Any]:
        arguments = dict(self.fixed)
        if cache is not None:
            arguments[self.cache] = cache
            if self.positions:
                arguments["cache_position"] = torch.arange(past, past + 1)
        return seen(batch * tokens, lambda: self.model(ids(batch, tokens), **arguments), self.cache)


class EncoderDecoder:
    """The prompt goes through the encoder; the first token starts the decoder."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def prefill(self, batch: int, prompt: int) -> tuple[dict[str, Any], Any]:
        call = lambda: self.model(input_ids=ids(batch, prompt), decoder_input_ids=ids(batch, 1), use_cache=True)  # noqa: E731
        return seen(batch * prompt, call, "past_key_values")

    def decode(self, batch: int, cached: int) -> tuple[dict[str, Any], Any]:
        # The context is the encoder's; the decoder has begun.
        with Operators(0):
            encoded = self.model.get_encoder()(ids(batch, cached))
            first = self.model(encoder_outputs=encoded, decoder_input_ids=ids(batch, 1), use_cache=True)
        call = lambda: self.model(encoder_outputs=encoded, decoder_input_ids=ids(batch, 1), past_key_values=first.past_key_values,  # noqa: E731
                                  use_cache=True)
        return seen(batch, call, "past_key_values")


def ids(batch: int, tokens: int) -> torch.Tensor:
    return torch.zeros(batch, tokens, dtype=torch.long, device="meta")


def seen(tokens: int, call: Any, cache: str) -> tuple[dict[str, Any], Any]:
    operators = Operators(tokens)
    with operators, Whole(operators):
        out = call()
    return {"kernels": operators.rows(), "assumed": operators.assumed}, getattr(out, cache, None)


def held(cache: Any) -> int:
    """Bytes of all tensors that a cache holds."""
    found: dict[int, torch.Tensor] = {}
    waiting, known = [cache], set()
    while waiting:
        one = waiting.pop()
        if id(one) in known:
            continue
        known.add(id(one))
        if isinstance(one, torch.Tensor):
            found[id(one)] = one
        elif isinstance(one, dict):
            waiting.extend(one.values())
        elif isinstance(one, (list, tuple)):
            waiting.extend(one)
        elif type(one).__module__.startswith("transformers.") and hasattr(one, "__dict__") and "config" not in type(one).__module__.split(".")[-1]:
            waiting.extend(vars(one).values())
    return sum(one.numel() * one.element_size() for one in found.values())
