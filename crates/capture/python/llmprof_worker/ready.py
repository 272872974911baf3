"""A model that is ready, with what batches need to know of it."""

from __future__ import annotations

from typing import Any

import torch

from . import pairs
from .decoders import Decoder, FixedDecoder, GrowingDecoder
from .failure import Failure
from .requests import Load


class Ready:
    """The module, where it runs, and the decoders that were made for it."""

    def __init__(self, module: Any, device: torch.device, dtype: torch.dtype, request: Load, tokenizer: Any,
                 processor: Any = None) -> None:
        self.module = module
        self.device = device
        self.dtype = dtype
        self.request = request
        self.tokenizer = tokenizer
        self.processor = processor
        self.vocabulary = int(module.get_input_embeddings().weight.shape[0])
        self.end_tokens = end_tokens(module, tokenizer)
        self.is_pair = pairs.is_pair(module)
        self.most_positions = learned_positions(module, "decoder" if self.is_pair else "")
        # Of prompts that an encoder reads.
        reads = self.is_pair and not pairs.hears(module)
        self.most_encoded = learned_positions(module, "encoder") if reads else None
        self.encodes_prompts = reads
        self._decoders: dict[int, FixedDecoder] = {}

    def decoder(self, batch: int, positions: int) -> Decoder:
        """The decoder for so many sequences. One with a fixed cache is kept while it has room: its graphs point into its memory."""
        if self.is_pair:
            if self.request.options.fixed_cache:
                raise Failure("unsupported", f"{type(self.module).__name__} has an encoder; its decoder runs with a cache that grows",
                              "runtime.compile=off and runtime.cuda_graph=false")
            return pairs.PairDecoder(self)
        if not self.request.options.fixed_cache:
            return GrowingDecoder(self.module)
        kept = self._decoders.get(batch)
        if kept is None or kept.length < positions:
            length = max(positions, self.request.max_positions)
            kept = self._decoders[batch] = FixedDecoder(self.module, self.device, self.dtype, batch, length, self.request.options)
        return kept


def end_tokens(module: Any, tokenizer: Any) -> frozenset[int]:
    """The ids that end a text, from wherever the model states them."""
    places = [getattr(module, "generation_config", None), module.config, tokenizer]
    for place in places:
        stated = getattr(place, "eos_token_id", None)
        if stated is not None:
            return frozenset(stated if isinstance(stated, (list, tuple)) else [stated])
    return frozenset()


def learned_positions(module: torch.nn.Module, part: str) -> int | None:
    """How many positions of a part have an embedding, for models that learn them; a position beyond would break a CUDA device."""
    sizes = [
        one.num_embeddings - int(getattr(one, "offset", 0))
        for name, one in module.named_modules()
        if isinstance(one, torch.nn.Embedding) and "vision" not in name and (not part or part in name.split("."))
        and name.split(".")[-1] in ("wpe", "embed_positions", "position_embeddings")
    ]
    return min(sizes, default=None)
