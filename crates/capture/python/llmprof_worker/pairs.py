"""Models of two stacks: an encoder reads the prompt or audio once, a decoder writes (T5, BART, Whisper)."""

from __future__ import annotations

from typing import Any

import torch

from . import images
from .decoders import Call
from .failure import Failure, first_line
from .inputs import Inputs

# What models that hear call their input.
FEATURES = "input_features"


def is_pair(module: Any) -> bool:
    """Whether a model generates from an encoder's result."""
    return bool(getattr(module.config, "is_encoder_decoder", False)) and callable(getattr(module, "get_encoder", None))


def hears(module: Any) -> bool:
    """Whether the encoder reads audio, so that prompts are the decoder's."""
    return is_pair(module) and getattr(module, "main_input_name", "input_ids") == FEATURES


def start_token(module: Any) -> int:
    """The token that a decoder begins with."""
    for place in (getattr(module, "generation_config", None), module.config):
        for name in ("decoder_start_token_id", "bos_token_id", "pad_token_id"):
            found = getattr(place, name, None)
            if isinstance(found, int):
                return found
    return 0


def audio(ready: Any, batch: int) -> torch.Tensor:
    """Frames of a log-mel spectrogram at random, as many as the encoder has positions for."""
    config = ready.module.config
    bins, positions = getattr(config, "num_mel_bins", None), getattr(config, "max_source_positions", None)
    if not isinstance(bins, int) or not isinstance(positions, int):
        raise Failure("unsupported", f"audio for `{config.model_type}` cannot be made from its config")
    encoder = ready.module.get_encoder()
    stride = 1
    for name in ("conv1", "conv2"):
        stride *= getattr(getattr(encoder, name, None), "stride", (1,))[0]
    generator = torch.Generator(device=ready.device).manual_seed(images.SEED)
    # Whisper's features lie between about -1 and 1.
    return images.random((batch, bins, positions * stride), ready, generator).clamp_(-1.0, 1.0)


class PairDecoder:
    """Encodes once; the decoder's cache grows by a position per step."""

    def __init__(self, ready: Any) -> None:
        self._ready = ready
        self._call = Call(ready.module)
        self._cache: Any = None
        self._given: dict[str, Any] = {}
        self._start: torch.Tensor | None = None
        self._mask: dict[str, Any] = {}
        self._encoded: Any = None

    def begin(self, inputs: Inputs) -> None:
        ready = self._ready
        batch = len(inputs.prompts)
        self._cache = self._encoded = None
        self._mask = {}
        if hears(ready.module):
            if inputs.padding is not None:
                raise Failure("unsupported", "prompts beside audio must have one length", "runtime.batch_size=1")
            self._given = {FEATURES: audio(ready, batch)}
            self._start = inputs.ids
            return
        self._given = {"input_ids": inputs.ids}
        if inputs.padding is not None:
            self._mask = {"attention_mask": inputs.padding}
        token = start_token(ready.module)
        self._start = torch.full((batch, 1), token, dtype=torch.long, device=ready.device)

    def encode(self) -> None:
        """Runs the encoder."""
        try:
            self._encoded = self._ready.module.get_encoder()(**self._given, **self._mask, return_dict=True)
        except (ValueError, TypeError) as error:
            name = type(self._ready.module).__name__
            raise Failure("unsupported", f"the encoder of {name} does not take its input as llmprof makes it: "
                          f"{first_line(error)}") from error

    def prefill(self, inputs: Inputs) -> torch.Tensor:
        assert self._start is not None
        return self._step(self._start)

    def decode(self, tokens: torch.Tensor, ranges: bool) -> torch.Tensor:
        return self._step(tokens.unsqueeze(1))

    def _step(self, ids: torch.Tensor) -> torch.Tensor:
        logits, self._cache = self._call(self._call.module, self._cache, encoder_outputs=self._encoded,
                                         decoder_input_ids=ids, **self._mask)
        return logits
