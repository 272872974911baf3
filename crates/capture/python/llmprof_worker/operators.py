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
# Elementwise kernels, which compute the place of each element.
INDEXED = {"pointwise", "transcendental", "broadcast", "cast", "transposed", "widen", "copy"}
WRITES_PART = {"index_put", "index_put_", "_index_put_impl_", "scatter_", "index_add_", "index_copy_"}
# Arithmetic on operands of several formats: each is cast on its way.
MIXES = {"add", "sub", "rsub", "mul", "div", "maximum", "minimum", "pow", "add_", "sub_", "mul_", "div_"}
# The longest row that a warp holds for a softmax.
WARP_ROW = 2048
# What a cache delivers at least, what memory does, and what the second-level cache of an H100 or H200 holds.
SECTOR, BURST, CACHE = 32, 64, 50 << 20
# Offsets in bytes beyond this do not fit an index of 32 bits: elementwise kernels are launched for halves.
SPAN = (1 << 31) - 1


class Operators(TorchDispatchMode):
    """Counts kernels by what they are."""

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.tokens = tokens
        self.kernels: Counter[str] = Counter()
        self.assumed = 0
        # Where a model's own code goes through the experts one by one, the last choice of tokens among them.
        self.choice: Choice | None = None
        self._paused = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.split("::")[1]
        if name == "_local_scalar_dense":
            # A value that only a device knows. Transformers asks so whether a mask has padding; that it has none is assumed.
            self.assumed += 1
            return self.choice.next() if self.choice and args[0].dtype == torch.int64 else 1
        if name == "nonzero" and self.choice and not self._paused:
            # Counted, summed up and written.
            self.add(flow("scan", size(args[0]), args[0].numel()), 3)
            return self.empty(self.choice.found(args[0]), args[0].dim(), like=torch.empty(0, dtype=torch.int64, device="meta"))
        out = func(*args, **(kwargs or {}))
        inputs = [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, torch.Tensor)]
        outputs = [t for t in tree_flatten(out)[0] if isinstance(t, torch.Tensor)]
        if self._paused or name in SILENT or is_view(func) or sum(t.numel() for t in outputs) == 0:
            return out
        if name in GEMM:
            self.add(self.gemm(name, inputs))
        elif name == "convolution":
            self.convolution(inputs, outputs[0])
        elif name == "linalg_solve_triangular":
            self.solve(inputs, outputs[0])
        elif name == "_safe_softmax":
            self.safe_softmax(inputs[0], outputs[0])
        elif name in REDUCE and keeps_columns(inputs[0], args):
            # Threads go along the innermost dimension, as in any dense kernel.
            self.add(flow("pointwise", size(inputs[0]) + size(outputs[0]), inputs[0].numel()))
        else:
            if name in WANTS_DENSE and not inputs[0].is_contiguous():
                self.add(flow("broadcast", 2 * size(inputs[0]), inputs[0].numel()))
            self.launch(stream(name, inputs, outputs), [*inputs, *outputs])
            if name == "masked_fill":
                # On a GPU a copy, and then the fill in place.
                self.add(flow("pointwise", 2 * size(outputs[0]), outputs[0].numel()))
        return out

    def add(self, kernel: dict[str, Any], launches: int = 1) -> None:
        self.kernels[json.dumps(kernel, sort_keys=True)] += launches

    def launch(self, kernel: dict[str, Any], tensors: list[torch.Tensor]) -> None:
        """An elementwise kernel, in as many parts as its indices need."""
        parts = halves(tensors) if kernel["access"] in INDEXED else 1
        self.add(flow(kernel["access"], kernel["bytes"] // parts, kernel["elements"] // parts, kernel["width"]), parts)

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

    def convolution(self, inputs: list[torch.Tensor], out: torch.Tensor) -> None:
        x, weight = inputs[:2]
        groups = x.shape[1] // weight.shape[1]
        if weight.shape[1] == 1 and groups > 1:
            self.add(flow("depthwise", size(x) + size(weight) + size(out), out.numel()))
            return
        positions = out.numel() // out.shape[1]
        for tensor in (x, weight, out) if groups > 1 else ():
            # Each group by itself, with its channels innermost.
            self.add(flow("copy", 2 * size(tensor) // groups, tensor.numel() // groups), groups)
        self.add(gemm(positions, weight.shape[0] // groups, weight.numel() // weight.shape[0], x.element_size(), True), groups)

    def solve(self, inputs: list[torch.Tensor], out: torch.Tensor) -> None:
        """Equations, in columns: the right side is copied, and pointers to matrices are written."""
        self.add(flow("transposed", 2 * size(out), out.numel()))
        self.add(flow("fill", 8 * out.numel() // (out.shape[-1] * out.shape[-2]), 1), 2)
        self.add(flow("solve", size(inputs[0]) + 2 * size(out), out.numel() * inputs[0].shape[-1]))


class Choice:
    """What tokens choose among experts, each as likely as the others."""

    def __init__(self, tokens: int, chosen: int, experts: int) -> None:
        self.pairs, self.experts = tokens * chosen, experts
        share = min(chosen / experts, 1.0)
        self.reached = max(round(experts * (1 - (1 - share) ** tokens)), 1)
        self._turn = 0

    def next(self) -> int:
        """The number of an expert that is reached, another one each time."""
        self._turn += 1
        return (self._turn - 1) % self.reached * self.experts // self.reached

    def found(self, tensor: torch.Tensor) -> int:
        """How many are not zero: of one number for each expert, or of the tokens that one of them is chosen by."""
        if tensor.dim() == 1 and tensor.numel() == self.experts:
            return self.reached
        return min(max(round(self.pairs / self.reached), 1), tensor.numel())

    def counts(self) -> list[int]:
        """Tokens of each expert."""
        whole, rest = divmod(self.pairs, self.reached)
        return [(whole + (at < rest)) if at < self.reached else 0 for at in range(self.experts)]


class Whole(TorchFunctionMode):
    """Keeps calls whole that the meta device would take apart."""

    def __init__(self, operators: Operators) -> None:
        super().__init__()
        self.operators = operators

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.nn.functional.scaled_dot_product_attention:
            return self.attention(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if name in ("grouped_mm", "_grouped_mm"):
            return self.grouped(*args, **kwargs)
        choice = self.operators.choice
        if name == "tolist" and choice and args[0].dim() == 1 and args[0].numel() == choice.experts:
            return choice.counts()
        out = func(*args, **kwargs)
        if name == "topk":
            self.chosen(out[1], args[0].shape[-1])
        elif name == "one_hot":
            self.chosen(args[0], out.shape[-1])
        return out

    def chosen(self, ids: torch.Tensor, experts: int) -> None:
        self.operators.choice = Choice(ids.numel() // ids.shape[-1], ids.shape[-1], experts)

    def attention(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, attn_mask: Any = None, dropout_p: float = 0.0,
                  is_causal: bool = False, scale: Any = None, enable_gqa: bool = False) -> torch.Tensor:
        batch, heads, queries, dim = q.shape
        value = v.shape[-1]
        if taken_apart(q, k, attn_mask, enable_gqa):
            apart = torch.ops.aten._scaled_dot_product_attention_math
            return apart(q, k, v, attn_mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa)[0]
        if dim % 8:
            return self.padded(q, k, v, attn_mask, is_causal)
        self.operators.add({
            "kind": "attention", "batch": batch, "heads": heads, "kv_heads": k.shape[1], "queries": queries, "keys": k.shape[2],
            "key_dim": dim, "value_dim": value, "causal": bool(is_causal) and queries > 1, "masked": attn_mask is not None,
        })
        return self.operators.empty(batch, queries, heads, value, like=q).transpose(1, 2)

    def padded(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Any, is_causal: bool) -> torch.Tensor:
        """Heads whose width is no multiple of eight are copied into wider ones that were cleared; the result is a slice."""
        batch, heads, queries, dim = q.shape
        wide = -(-dim // 8) * 8
        for tensor in (q, k, v):
            rows = tensor.numel() // dim
            self.operators.add(flow("fill", rows * wide * tensor.element_size(), rows * wide))
            self.operators.add(flow("broadcast", 2 * size(tensor), tensor.numel()))
        self.operators.add({
            "kind": "attention", "batch": batch, "heads": heads, "kv_heads": k.shape[1], "queries": queries, "keys": k.shape[2],
            "key_dim": dim, "value_dim": dim, "causal": bool(is_causal) and queries > 1, "masked": mask is not None,
        })
        return self.operators.empty(batch, queries, heads, wide, like=q)[..., :dim].transpose(1, 2)

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
    if access in ("broadcast", "cast") and any(is_scattered(t, out) for t in inputs):
        if any(is_far(t, out) for t in inputs):
            # Each element is a burst of memory of its own.
            return flow("pointwise", sum(out.numel() * BURST if is_far(t, out) else distinct(t) for t in inputs) + written, out.numel())
        access = "transposed"
    # What is reduced or normalized together is a row of the input; what is looked up, a row of the table.
    by_row = (access in ("reduce", "norm") or name == "embedding") and inputs and inputs[0].dim()
    width = inputs[0].numel() // max(out.numel(), 1) if access == "reduce" else inputs[0].shape[-1] if by_row else 0
    elements = inputs[0].numel() if inputs and access in ("reduce", "sort", "top_k") else out.numel()
    return flow(access, read + written, elements, width)


def access_of(name: str, inputs: list[torch.Tensor], out: torch.Tensor) -> str:
    dense = all(t.is_contiguous() or distinct(t) <= 4096 for t in inputs) and all(t.shape == out.shape for t in inputs)
    if name in ("cat", "stack"):
        if all(t.is_contiguous() for t in inputs if t.numel()):
            return "append" if all(on_sixteen(t) for t in inputs) else "copy"
        return "append_sliced" if out.dim() == 4 and name == "cat" and along_tokens(inputs) else "concat"
    if name == "_softmax":
        return "softmax_long" if out.shape[-1] > WARP_ROW else "softmax"
    if name == "_to_copy":
        if inputs and out.element_size() > inputs[0].element_size():
            return "widen" if dense else "cast"
        return "pointwise" if dense else "broadcast"
    if name in ACCESS:
        return ACCESS[name]
    if name in REDUCE:
        return "reduce"
    if name in MIXES and len({t.dtype for t in inputs if t.dim()}) > 1:
        return "cast"
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
    """Whether neighbours in the result lie in sectors of their own in this operand."""
    if tensor.dim() < 2 or tensor.shape[-1] != out.shape[-1] or out.stride(-1) != 1 or tensor.shape[-1] == 1:
        return False
    return tensor.stride(-1) * tensor.element_size() >= SECTOR


def is_far(tensor: torch.Tensor, out: torch.Tensor) -> bool:
    """Whether no cache holds its sectors until the neighbours in them are used: all that is read before goes through it."""
    if not is_scattered(tensor, out) or distinct(tensor) < CACHE:
        return False
    nearest = min((dim for dim in range(tensor.dim()) if tensor.stride(dim) and tensor.shape[dim] > 1), key=tensor.stride)
    between = 1
    for dim in range(nearest + 1, tensor.dim()):
        between *= tensor.shape[dim]
    return between * SECTOR >= CACHE


def halves(tensors: list[torch.Tensor]) -> int:
    """Parts of a call whose operands reach further than indices of 32 bits: the dimension that reaches furthest is halved until they fit."""
    strides = [(t.element_size(), t.shape, t.stride()) for t in tensors if t.dim()]
    if max((reach(*one) for one in strides), default=0) <= SPAN:
        return 1
    shape = max((t.shape for t in tensors), key=len)
    sizes, parts = list(shape), 1

    def extents(one: tuple[int, Any, Any]) -> list[int]:
        width, own, stride = one
        skipped = len(sizes) - len(own)
        return [0] * skipped + [(sizes[skipped + at] - 1) * stride[at] * width if own[at] > 1 else 0 for at in range(len(own))]

    while max(sum(extents(one)) for one in strides) > SPAN:
        furthest = max(range(len(sizes)), key=lambda dim: max(extents(one)[dim] for one in strides))
        sizes[furthest] = -(-sizes[furthest] // 2)
        parts *= 2
    return parts


def reach(width: int, shape: Any, stride: Any) -> int:
    return sum((extent - 1) * step * width for extent, step in zip(shape, stride))


def on_sixteen(tensor: torch.Tensor) -> bool:
    """Whether its rows start at multiples of 16 bytes."""
    return tensor.dim() == 0 or tensor.shape[-1] * tensor.element_size() % 16 == 0


def aligned(tensor: torch.Tensor) -> bool:
    """Whether rows start at multiples of 16 bytes, as the fast GEMM kernels want."""
    pitch = [stride for stride in tensor.stride()[-2:] if stride != 1]
    return all(stride * tensor.element_size() % 16 == 0 for stride in pitch)


def is_view(func: Any) -> bool:
    schema = func._schema
    if schema.is_mutable:
        return False
    return any(result.alias_info is not None and not result.alias_info.is_write for result in schema.returns)
