"""Kernels that a model launches, found on torch's meta device: neither weights nor a GPU are needed.

A dispatch mode sees every operator with its shapes, formats and strides, and says what a GPU would run for it in the words of llmprof's
predictor (`Kernel` in crates/theory). Attention and grouped GEMM, which the meta device takes apart, are kept whole.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from .cases import gemm

# Operators that launch nothing, beside views, which their schema marks.
SILENT = {
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "detach", "alias", "_unsafe_view", "lift_fresh", "resolve_conj",
    "is_same_size", "_assert_async", "_assert_scalar", "set_", "resize_",
}
GEMM = {"mm", "addmm", "bmm", "baddbmm"}
REDUCE = {
    "mean", "sum", "amax", "amin", "max", "min", "var", "var_mean", "argmax", "argmin", "any", "all", "prod", "norm", "linalg_vector_norm",
    "logsumexp", "_log_softmax",
}
# By the way through memory, as the predictor's curves name it.
ACCESS = {
    "native_layer_norm": "norm", "_fused_rms_norm": "norm", "native_group_norm": "norm", "native_batch_norm": "norm",
    "embedding": "gather", "index": "gather", "index_select": "gather", "gather": "gather", "index_put": "gather", "index_put_": "gather",
    "_index_put_impl_": "gather", "scatter": "gather", "scatter_": "gather", "scatter_add": "gather", "index_add": "gather",
    "index_add_": "gather", "index_copy_": "gather", "repeat_interleave": "gather", "sort": "sort", "nonzero": "sort", "topk": "top_k",
    "cumsum": "scan", "cumprod": "scan", "histc": "histogram", "bincount": "histogram", "copy_": "copy", "clone": "copy", "constant_pad_nd": "copy",
    "roll": "copy", "flip": "copy", "repeat": "copy", "zeros": "fill", "ones": "fill", "full": "fill", "zeros_like": "fill", "ones_like": "fill",
    "full_like": "fill", "fill_": "fill", "zero_": "fill", "arange": "fill", "scalar_tensor": "fill", "new_zeros": "fill", "new_ones": "fill",
    "new_full": "fill",
}
HARD = {
    "silu", "gelu", "tanh", "sigmoid", "cos", "sin", "exp", "softplus", "polar", "erf", "floor_divide", "log", "rsqrt", "sqrt", "log1p", "expm1",
    "silu_", "exp_", "sigmoid_", "logsigmoid", "elu", "leaky_relu",
}
# Their kernels read dense rows: others are copied first.
WANTS_DENSE = {"native_layer_norm", "_fused_rms_norm", "native_group_norm", "_softmax"}
WRITES_PART = {"index_put", "index_put_", "_index_put_impl_", "scatter_", "index_add_", "index_copy_"}
LONG_ROW = 1024
# What memory delivers at least, and what the second-level cache of an H100 or H200 holds.
SECTOR, CACHE = 32, 50 << 20


class Operators(TorchDispatchMode):
    """Counts kernels by what they are."""

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.tokens = tokens
        self.kernels: Counter[str] = Counter()
        self.assumed = 0
        self._paused = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.split("::")[1]
        if name == "_local_scalar_dense":
            # A value that only a device knows. Transformers asks so whether a mask has padding; that it has none is assumed.
            self.assumed += 1
            return 1
        out = func(*args, **(kwargs or {}))
        inputs = [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, torch.Tensor)]
        outputs = [t for t in tree_flatten(out)[0] if isinstance(t, torch.Tensor)]
        if self._paused or name in SILENT or is_view(func) or sum(t.numel() for t in outputs) == 0:
            return out
        if name in GEMM:
            self.add(self.gemm(name, inputs))
        elif name == "convolution":
            self.add(self.convolution(inputs, outputs[0]))
        elif name == "_safe_softmax":
            self.safe_softmax(inputs[0], outputs[0])
        elif name in REDUCE and keeps_columns(inputs[0], args):
            # Threads go along the innermost dimension, as in any dense kernel.
            self.add(flow("pointwise", size(inputs[0]) + size(outputs[0]), inputs[0].numel()))
        else:
            if name in WANTS_DENSE and not inputs[0].is_contiguous():
                self.add(flow("broadcast", 2 * size(inputs[0]), inputs[0].numel()))
            self.add(stream(name, inputs, outputs))
            if name == "masked_fill":
                # On a GPU a copy, and then the fill in place.
                self.add(flow("pointwise", 2 * size(outputs[0]), outputs[0].numel()))
        return out

    def add(self, kernel: dict[str, Any]) -> None:
        self.kernels[json.dumps(kernel, sort_keys=True)] += 1

    def rows(self) -> list[dict[str, Any]]:
        return [{"kernel": json.loads(kernel), "launches": count} for kernel, count in self.kernels.items()]

    def empty(self, *shape: int, like: torch.Tensor) -> torch.Tensor:
        self._paused = True
        out = torch.empty(*shape, dtype=like.dtype, device=like.device)
        self._paused = False
        return out

    def gemm(self, name: str, inputs: list[torch.Tensor]) -> dict[str, Any]:
        a, b = inputs[1:3] if name in ("addmm", "baddbmm") else inputs[:2]
        groups = a.shape[0] if a.dim() == 3 else 1
        m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
        return gemm(m, n, k, a.element_size(), aligned(a) and aligned(b) and n % 8 == 0, groups)

    def safe_softmax(self, scores: torch.Tensor, out: torch.Tensor) -> None:
        """A softmax, and zeros in rows that are all minus infinity: compared, reduced and chosen by kernels of their own."""
        elements = scores.numel()
        self.add(stream("_softmax", [scores], [out]))
        self.add(flow("pointwise", size(scores) + elements, elements))
        self.add(flow("reduce", elements, elements, scores.shape[-1]))
        self.add(flow("broadcast", 2 * size(out), elements))
        for _ in range(2):
            self.add(flow("fill", out.element_size(), 1))

    def convolution(self, inputs: list[torch.Tensor], out: torch.Tensor) -> dict[str, Any]:
        x, weight = inputs[:2]
        if weight.shape[1] == 1:
            # Each channel by itself: a stream.
            return flow("broadcast", size(x) + size(weight) + size(out), out.numel())
        positions = out.numel() // out.shape[1]
        return gemm(positions, weight.shape[0], weight.numel() // weight.shape[0], x.element_size(), True)


class Whole(TorchFunctionMode):
    """Keeps calls whole that the meta device would take apart."""

    def __init__(self, operators: Operators) -> None:
        super().__init__()
        self.operators = operators

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.nn.functional.scaled_dot_product_attention:
            return self.attention(*args, **kwargs)
        if getattr(func, "__name__", "") in ("grouped_mm", "_grouped_mm"):
            return self.grouped(*args, **kwargs)
        return func(*args, **kwargs)

    def attention(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, attn_mask: Any = None, dropout_p: float = 0.0,
                  is_causal: bool = False, scale: Any = None, enable_gqa: bool = False) -> torch.Tensor:
        batch, heads, queries, dim = q.shape
        value = v.shape[-1]
        if taken_apart(q, k, attn_mask, enable_gqa):
            apart = torch.ops.aten._scaled_dot_product_attention_math
            return apart(q, k, v, attn_mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa)[0]
        self.operators.add({
            "kind": "attention", "batch": batch, "heads": heads, "kv_heads": k.shape[1], "queries": queries, "keys": k.shape[2],
            "key_dim": dim, "value_dim": value, "causal": bool(is_causal) and queries > 1, "masked": attn_mask is not None,
        })
        return self.operators.empty(batch, queries, heads, value, like=q).transpose(1, 2)

    def grouped(self, rows: torch.Tensor, weights: torch.Tensor, offs: Any = None, **_: Any) -> torch.Tensor:
        n, k = weights.shape[-1], rows.shape[-1]
        self.operators.add({"kind": "grouped", "experts": weights.shape[0], "tokens": self.operators.tokens, "pairs": rows.shape[0], "n": n, "k": k})
        return self.operators.empty(rows.shape[0], n, like=rows)


def taken_apart(q: torch.Tensor, k: torch.Tensor, mask: Any, enable_gqa: bool) -> bool:
    """Whether no fused kernel takes the call: heads that are only broadcast (Falcon), or a mask whose rows are not dense (T5's bias)."""
    broadcast = k.shape[1] != q.shape[1] and not enable_gqa
    scattered = mask is not None and mask.shape[-1] > 1 and mask.stride(-1) != 1
    return broadcast or scattered


def stream(name: str, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> dict[str, Any]:
    out = outputs[0]
    written = sum(size(t) for t in outputs)
    read = sum(distinct(t) for t in inputs)
    if name in ("embedding", "index", "index_select", "gather"):
        read = size(out)
    elif name in WRITES_PART and len(inputs) > 1:
        read, written = sum(size(t) for t in inputs[1:]), size(inputs[-1])
    elif name in ("fill_", "zero_"):
        read = 0
    elif name == "copy_":
        read = distinct(inputs[1]) if len(inputs) > 1 else 0
    access = access_of(name, inputs, out)
    if access == "broadcast" and any(is_scattered(t, out) for t in inputs):
        # Each element is a sector of its own.
        return flow("gather", sum(out.numel() * SECTOR if is_scattered(t, out) else distinct(t) for t in inputs) + written, out.numel())
    # What is reduced or normalized together is a row of the input.
    by_row = access in ("reduce", "norm") and inputs and inputs[0].dim()
    width = inputs[0].numel() // max(out.numel(), 1) if access == "reduce" else inputs[0].shape[-1] if by_row else 0
    elements = inputs[0].numel() if inputs and access in ("reduce", "sort", "top_k") else out.numel()
    return flow(access, read + written, elements, width)


def access_of(name: str, inputs: list[torch.Tensor], out: torch.Tensor) -> str:
    dense = all(t.is_contiguous() or distinct(t) <= 4096 for t in inputs) and all(t.shape == out.shape for t in inputs)
    if name in ("cat", "stack"):
        return "append" if all(t.is_contiguous() for t in inputs if t.numel()) else "append_sliced" if out.dim() == 4 and name == "cat" and along_tokens(inputs) else "concat"
    if name == "_softmax":
        return "softmax_long" if out.shape[-1] >= LONG_ROW else "softmax"
    if name == "_to_copy":
        if inputs and out.element_size() > inputs[0].element_size():
            return "widen"
        return "pointwise" if dense else "broadcast"
    if name in ACCESS:
        return ACCESS[name]
    if name in REDUCE:
        return "reduce"
    if not dense and out.numel() != (out.shape[-1] if out.dim() else 1):
        return "broadcast"
    return "transcendental" if name in HARD else "pointwise"


def keeps_columns(tensor: torch.Tensor, args: Any) -> bool:
    """Whether a reduction leaves the innermost dimension as it is: the sum over the experts of a token."""
    dims = args[1] if len(args) > 1 else None
    dims = [dims] if isinstance(dims, int) else dims
    if not isinstance(dims, (list, tuple)) or not dims or tensor.dim() < 2 or tensor.stride(-1) != 1:
        return False
    return all(dim % tensor.dim() != tensor.dim() - 1 for dim in dims) and tensor.shape[-1] > 1


def along_tokens(inputs: list[torch.Tensor]) -> bool:
    """Whether tensors are joined before their last dimension, as a KV cache is."""
    return len({t.shape[-1] for t in inputs if t.dim() == 4}) == 1


def flow(access: str, moved: int, elements: int, width: int = 0) -> dict[str, Any]:
    return {"kind": "stream", "access": access, "bytes": int(moved), "elements": int(elements), "width": int(width)}


def size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def distinct(tensor: torch.Tensor) -> int:
    """Bytes that are really read: an expanded dimension counts once."""
    elements = 1
    for extent, stride in zip(tensor.shape, tensor.stride()):
        if stride != 0:
            elements *= extent
    return elements * tensor.element_size()


def is_scattered(tensor: torch.Tensor, out: torch.Tensor) -> bool:
    """Whether neighbours in the result lie in sectors of their own in this operand, and the cache does not hold them until they are used again."""
    if tensor.dim() < 2 or tensor.shape[-1] != out.shape[-1] or out.stride(-1) != 1 or tensor.shape[-1] == 1:
        return False
    return tensor.stride(-1) * tensor.element_size() >= SECTOR and distinct(tensor) > CACHE


def aligned(tensor: torch.Tensor) -> bool:
    """Whether rows start at multiples of 16 bytes, as the fast GEMM kernels want."""
    pitch = [stride for stride in tensor.stride()[-2:] if stride != 1]
    return all(stride * tensor.element_size() % 16 == 0 for stride in pitch)


def is_view(func: Any) -> bool:
    schema = func._schema
    if schema.is_mutable:
        return False
    return any(result.alias_info is not None and not result.alias_info.is_write for result in schema.returns)
