"""How a model is called: prefill over prompts, then a token per sequence and step, with a cache between them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Protocol

import torch
import transformers

from .failure import Failure, first_line
from .graphs import CapturedStep
from .inputs import Inputs
from .requests import LoadOptions


class Decoder(Protocol):
    """Holds the cache of one batch."""

    def begin(self, inputs: Inputs) -> None:
        """Makes room for a batch; nothing of an earlier one is left."""

    def prefill(self, inputs: Inputs) -> torch.Tensor:
        """The logits after the prompts, batch × vocabulary."""

    def decode(self, tokens: torch.Tensor, ranges: bool) -> torch.Tensor:
        """The logits after one more token per sequence. `ranges` says whether module ranges are on."""


class Call:
    """The arguments that a model's forward takes, which differ between models and versions of transformers."""

    def __init__(self, module: Any) -> None:
        self.module = module
        names = inspect.signature(module.forward).parameters
        # Models with a state in place of keys and values have another name for it.
        self._cache = "cache_params" if "cache_params" in names and "past_key_values" not in names else "past_key_values"
        self._takes_position_ids = "position_ids" in names
        self.takes_positions = "cache_position" in names
        self.takes_types = "mm_token_type_ids" in names
        # Logits of the last position alone: those of a whole prompt may be larger than the model.
        last = next((name for name in ("logits_to_keep", "num_logits_to_keep") if name in names), None)
        self.fixed: dict[str, Any] = {"use_cache": True, "return_dict": True}
        if last:
            self.fixed[last] = 1

    def __call__(self, forward: Any, cache: Any, **arguments: Any) -> tuple[torch.Tensor, Any]:
        """The logits of the last position, and the cache."""
        output = forward(**arguments, **{self._cache: cache}, **self.fixed)
        cache = getattr(output, self._cache, None)
        if cache is None:
            raise Failure("unsupported", f"{type(self.module).__name__} gives no cache back (`{self._cache}`)")
        return output.logits[:, -1], cache

    def padding(self, inputs: Inputs) -> dict[str, Any]:
        """What tells a model where prompts of different lengths begin."""
        if inputs.padding is None:
            return {}
        arguments = {"attention_mask": inputs.padding}
        if self._takes_position_ids:
            arguments["position_ids"] = inputs.positions()
        return arguments

    def prefill(self, inputs: Inputs, cache: Any, positions: torch.Tensor | None) -> tuple[torch.Tensor, Any]:
        arguments: dict[str, Any] = {"input_ids": inputs.ids, **inputs.images, **self.padding(inputs)}
        if self.takes_types and inputs.types is not None:
            arguments["mm_token_type_ids"] = inputs.types
        if self.takes_positions and positions is not None:
            arguments["cache_position"] = positions
        try:
            return self(self.module, cache, **arguments)
        except (ValueError, TypeError, IndexError, AttributeError) as error:
            if not inputs.images:
                raise
            raise Failure("unsupported", f"{type(self.module).__name__} does not take images as llmprof makes them: "
                          f"{first_line(error)}", "workload.images.count=0 runs it on text alone") from error


class GrowingDecoder:
    """The cache grows by a position per step, as `generate` of transformers does it."""

    def __init__(self, module: Any) -> None:
        self._call = Call(module)
        self._cache: Any = None
        self._inputs: Inputs | None = None

    def begin(self, inputs: Inputs) -> None:
        # Transformers 4 falls back to tuples where no cache is given; 5 makes one itself, with the config's windows.
        old = transformers.__version__.startswith("4.")
        wanted = old and getattr(self._call.module, "_supports_cache_class", False)
        self._cache = transformers.DynamicCache() if wanted else None
        self._inputs = inputs

    def prefill(self, inputs: Inputs) -> torch.Tensor:
        logits, self._cache = self._call.prefill(inputs, self._cache, None)
        return logits

    def decode(self, tokens: torch.Tensor, ranges: bool) -> torch.Tensor:
        arguments: dict[str, Any] = {"input_ids": tokens.unsqueeze(1)}
        if self._inputs is not None:
            self._inputs.grow()
            arguments.update(self._call.padding(self._inputs))
            if "position_ids" in arguments:
                arguments["position_ids"] = arguments["position_ids"][:, -1:]
        logits, self._cache = self._call(self._call.module, self._cache, **arguments)
        return logits


class FixedDecoder:
    """The cache has all its memory from the start, so that a decode step can be compiled or captured as a CUDA graph."""

    def __init__(self, module: Any, device: torch.device, dtype: torch.dtype, batch: int, length: int,
                 options: LoadOptions) -> None:
        self._call = Call(module)
        self.length = length
        self._cache = fixed_cache(module, device, dtype, batch, length)
        check_windows(self._cache, length)
        self._ids = torch.zeros((batch, 1), dtype=torch.long, device=device)
        self._position = torch.zeros(1, dtype=torch.long, device=device)
        self._device = device
        self._forward = module
        self._compiles = options.compile != "off"
        if self._compiles:
            self._forward = torch.compile(module.forward, mode=options.compile, dynamic=False)
        self._graphs: dict[bool, CapturedStep] | None = {} if options.cuda_graph else None

    def begin(self, inputs: Inputs) -> None:
        if inputs.padding is not None:
            raise Failure("unsupported", "a fixed cache (compile, cuda_graph) takes prompts of one length",
                          "runtime.batch_size=1, or prompts of equal length")
        self._cache.reset()

    def prefill(self, inputs: Inputs) -> torch.Tensor:
        length = inputs.ids.shape[1]
        logits, _ = self._call.prefill(inputs, self._cache, torch.arange(length, device=self._device))
        self._position.fill_(length)
        return logits

    def decode(self, tokens: torch.Tensor, ranges: bool) -> torch.Tensor:
        self._ids.copy_(tokens.unsqueeze(1))
        if self._graphs is None:
            return self._step()
        if ranges not in self._graphs:
            # Ranges are seen when a graph is captured, so a graph with them is another graph.
            self._graphs[ranges] = CapturedStep(self._step, self._restore_point())
        return self._graphs[ranges].replay()

    def _step(self) -> torch.Tensor:
        if self._compiles and self._device.type == "cuda":
            torch.compiler.cudagraph_mark_step_begin()
        arguments: dict[str, Any] = {"input_ids": self._ids}
        if self._call.takes_positions:
            arguments["cache_position"] = self._position
        logits, _ = self._call(self._forward, self._cache, **arguments)
        self._position.add_(1)
        return logits

    def _restore_point(self) -> Callable[[], None]:
        """Takes back what steps count up from now on: those of a capture must not count."""
        layers = getattr(self._cache, "layers", [])
        counts = [getattr(layer, "cumulative_length", None) for layer in layers]
        tensors = [self._position, *(count for count in counts if isinstance(count, torch.Tensor))]
        saved = [tensor.clone() for tensor in tensors]
        # Windows count on the host too.
        hosts = [(layer, layer.cumulative_length_int) for layer in layers if hasattr(layer, "cumulative_length_int")]

        def restore() -> None:
            for tensor, value in zip(tensors, saved):
                tensor.copy_(value)
            for layer, value in hosts:
                layer.cumulative_length_int = value

        return restore


def fixed_cache(module: Any, device: torch.device, dtype: torch.dtype, batch: int, length: int) -> Any:
    """A `StaticCache`, whose arguments changed between versions."""
    names = inspect.signature(transformers.StaticCache.__init__).parameters
    known = {"max_batch_size": batch, "batch_size": batch, "device": device, "dtype": dtype}
    told = {name: value for name, value in known.items() if name in names}
    if "max_batch_size" in told:
        told.pop("batch_size", None)
    try:
        return transformers.StaticCache(config=module.config, max_cache_len=length, **told)
    except Exception as error:
        name = type(module).__name__
        raise Failure("unsupported", f"{name} has no cache of fixed size, which compile and cuda_graph need: {error}") from error


def check_windows(cache: Any, length: int) -> None:
    """A full window makes transformers take another path, which a captured step would not."""
    for layer in getattr(cache, "layers", []):
        window = getattr(layer, "max_cache_len", length)
        if getattr(layer, "is_sliding", False) and window < length:
            raise Failure("unsupported", f"a step over a sliding window of {window} positions cannot be fixed for {length}",
                          "fewer positions than the window, or runtime.compile=off and runtime.cuda_graph=false")
