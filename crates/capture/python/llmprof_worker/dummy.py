"""Dummy weights: a model from its config alone, made on its device in its own number format."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch
import transformers

# Random numbers are made once and repeated: this many, no power of two, so that rows of a matrix differ.
BLOCK = (1 << 20) + 7
# The spread that most models are initialized with. Logits stay finite in every format.
DEVIATION = 0.02


def make(build: Callable[[], torch.nn.Module], device: torch.device, seed: int) -> torch.nn.Module:
    """The model that `build` makes, on `device`, with weights that depend on `seed` alone."""
    with torch.device(device), without_initialization():
        module = build()
    # Skipping initialization skips the tying of weights in some versions.
    module.tie_weights()
    fill(module, device, seed)
    return module


def without_initialization() -> contextlib.AbstractContextManager[None]:
    """Leaves memory as it is: filling 7 B parameters twice, once by a slow rule, helps nobody."""
    for place in ("transformers.initialization", "transformers.modeling_utils"):
        with contextlib.suppress(ImportError, AttributeError):
            return getattr(__import__(place, fromlist=["no_init_weights"]), "no_init_weights")()
    return nothing_initialized()


@contextlib.contextmanager
def nothing_initialized() -> Iterator[None]:
    """For versions of transformers without their own switch."""
    before = transformers.PreTrainedModel.init_weights
    transformers.PreTrainedModel.init_weights = lambda self: None
    try:
        yield
    finally:
        transformers.PreTrainedModel.init_weights = before


def fill(module: torch.nn.Module, device: torch.device, seed: int) -> None:
    generator = torch.Generator(device=device).manual_seed(seed % (1 << 63))
    blocks: dict[torch.dtype, torch.Tensor] = {}
    done = 0
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if not parameter.is_floating_point():
                parameter.zero_()
            elif parameter.dim() == 1 and name.endswith("bias"):
                parameter.zero_()
            elif parameter.dim() == 1 and name.endswith("weight"):
                parameter.fill_(1.0)
            else:
                if parameter.dtype not in blocks:
                    block = torch.randn(BLOCK, generator=generator, device=device) * DEVIATION
                    blocks[parameter.dtype] = block.to(parameter.dtype)
                # Tensors of one shape must differ: an embedding that equals the head predicts its own input.
                repeat(blocks[parameter.dtype].roll(-(done % BLOCK)), parameter)
                done += parameter.numel()


def repeat(block: torch.Tensor, parameter: torch.Tensor) -> None:
    """Writes `block` over and over into a parameter."""
    flat = parameter.view(-1) if parameter.is_contiguous() else None
    if flat is None:
        parameter.normal_(0.0, DEVIATION)
        return
    whole = flat.numel() // block.numel()
    if whole:
        flat[: whole * block.numel()].view(whole, block.numel()).copy_(block)
    rest = flat[whole * block.numel() :]
    rest.copy_(block[: rest.numel()])
