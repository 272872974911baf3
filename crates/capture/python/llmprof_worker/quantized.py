"""Linear layers with quantized weights, multiplied by torch's own operators."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from .failure import Failure, first_line

# The largest value of torch.float8_e4m3fn.
FP8_MAX = 448.0
# Groups of inputs with one scale that torch's int4 kernel takes.
INT4_GROUPS = (32, 64, 128, 256)
# Tiles of 16 inputs that a warp of the int4 kernel keeps.
INT4_TILES = 8


class QuantizedLinear(torch.nn.Module):
    """A linear layer whose weights are stored in `format`. `elements` counts weights as they were."""

    def __init__(self, linear: torch.nn.Linear, multiply: Callable[[torch.Tensor], torch.Tensor], stored: list[torch.Tensor]):
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.bias = linear.bias
        self.elements = linear.weight.numel()
        for number, tensor in enumerate(stored):
            self.register_buffer(f"stored_{number}", tensor, persistent=False)
        self.stored_bytes = sum(tensor.numel() * tensor.element_size() for tensor in stored)
        self._multiply = multiply

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self._multiply(x.reshape(-1, self.in_features)).reshape(*x.shape[:-1], self.out_features)
        return y if self.bias is None else y + self.bias


def quantize(module: torch.nn.Module, format: str) -> str:
    """Replaces the linear layers of a model in place; the answer says by which operators they are multiplied."""
    make = maker(format)
    embedding = getattr(module, "get_input_embeddings", lambda: None)()
    used: set[str] = set()
    for name, layer in list(module.named_modules()):
        if not isinstance(layer, torch.nn.Linear) or (embedding is not None and layer.weight is embedding.weight):
            continue
        try:
            multiply, stored, operator = make(layer.weight.detach())
        except Failure:
            raise
        except Exception as error:
            raise Failure("unsupported", f"{name} cannot be quantized to {format}: {first_line(error)}",
                          "workload.weights=int8; `llmprof predict` computes every format") from error
        parent, _, last = name.rpartition(".")
        setattr(module.get_submodule(parent), last, QuantizedLinear(layer, multiply, stored))
        used.add(operator)
    return ", ".join(sorted(used)) or "no linear layer"


Made = tuple[Callable[[torch.Tensor], torch.Tensor], list[torch.Tensor], str]


def maker(format: str) -> Callable[[torch.Tensor], Made]:
    if format == "int8":
        return int8
    if format == "fp8":
        return fp8
    group = re.fullmatch(r"int4_g(\d+)", format)
    if group and int(group[1]) in INT4_GROUPS:
        return lambda weight: int4(weight, int(group[1]))
    raise Failure("unsupported", f"the PyTorch worker cannot multiply weights in {format}",
                  "int8, fp8 and int4_gN (N of 32, 64, 128, 256) run; other formats are for `llmprof predict` only")


def works(multiply: Callable[[torch.Tensor], torch.Tensor], weight: torch.Tensor) -> bool:
    """Whether an operator takes these shapes here: it is asked with one row."""
    try:
        multiply(torch.zeros(1, weight.shape[1], dtype=weight.dtype, device=weight.device))
        return True
    except Exception:
        return False


def int8(weight: torch.Tensor) -> Made:
    scale = (weight.float().abs().amax(dim=1) / 127.0).clamp_min(1e-12)
    stored = (weight.float() / scale[:, None]).round().to(torch.int8)
    scale = scale.to(weight.dtype)
    packed = getattr(torch, "_weight_int8pack_mm", None)
    if packed is not None and works(lambda x: packed(x, stored, scale), weight):
        return (lambda x: packed(x, stored, scale)), [stored, scale], "torch._weight_int8pack_mm"
    return (lambda x: F.linear(x, stored.to(x.dtype)) * scale), [stored, scale], "a cast to the activations' dtype, then aten::linear"


def fp8(weight: torch.Tensor) -> Made:
    scale = (weight.float().abs().amax() / FP8_MAX).clamp_min(1e-12)
    stored = (weight.float() / scale).to(torch.float8_e4m3fn)

    def scaled(x: torch.Tensor) -> torch.Tensor:
        own = (x.float().abs().amax() / FP8_MAX).clamp_min(1e-12)
        narrow = (x.float() / own).to(torch.float8_e4m3fn)
        return torch._scaled_mm(narrow, stored.t(), scale_a=own, scale_b=scale, out_dtype=x.dtype)

    if works(scaled, weight):
        return scaled, [stored, scale], "torch._scaled_mm"
    wide = scale.to(weight.dtype)
    return (lambda x: F.linear(x, stored.to(x.dtype)) * wide), [stored, scale], "a cast to the activations' dtype, then aten::linear"


def int4(weight: torch.Tensor, group: int) -> Made:
    rows, columns = weight.shape
    grouped = weight.float().reshape(rows, columns // group, group)
    scale = (grouped.abs().amax(dim=2) / 7.0).clamp_min(1e-12)
    values = ((grouped / scale[:, :, None]).round() + 8).clamp(0, 15).to(torch.int32).reshape(rows, columns)
    scales = torch.stack([scale.t(), torch.zeros_like(scale.t())], dim=2).to(weight.dtype).contiguous()
    operators: Any = torch.ops.aten
    if weight.device.type == "cuda":
        pairs = (values[:, ::2] << 4 | values[:, 1::2]).to(torch.uint8)
        packed = operators._convert_weight_to_int4pack(pairs, INT4_TILES)
        multiply, operator = operators._weight_int4pack_mm, "torch._weight_int4pack_mm"
    else:
        packed = operators._convert_weight_to_int4pack_for_cpu(values, 1)
        multiply, operator = operators._weight_int4pack_mm_for_cpu, "torch._weight_int4pack_mm_for_cpu"
    multiply(torch.zeros(1, columns, dtype=weight.dtype, device=weight.device), packed, group, scales)
    return (lambda x: multiply(x, packed, group, scales)), [packed, scales], operator


def sums(module: torch.nn.Module) -> tuple[int, int]:
    """Weights of quantized layers as they were, and the bytes that they take."""
    layers = [layer for layer in module.modules() if isinstance(layer, QuantizedLinear)]
    return sum(layer.elements for layer in layers), sum(layer.stored_bytes for layer in layers)
