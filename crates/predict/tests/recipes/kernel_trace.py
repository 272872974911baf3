"""Kernels that a model of transformers launches in one forward pass, found on torch's meta device: no weights, no GPU.

Read by kernel_curves.py, which joins them with times measured on a GPU.
"""

import inspect

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten


def SIZE(t):
    return t.numel() * t.element_size()


# Ops that launch nothing: views that the schema does not mark, and allocations.
SILENT = {
    "empty",
    "empty_like",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "detach",
    "alias",
    "_unsafe_view",
    "lift_fresh",
    "sym_size",
    "sym_numel",
    "_local_scalar_dense",
    "resolve_conj",
    "_to_copy_meta",
    "is_same_size",
    "item",
    "_assert_async",
    "_assert_scalar",
    "unbind_copy",
}
GEMM = {"mm", "addmm", "bmm", "baddbmm", "_grouped_mm"}
REDUCE = {
    "mean",
    "sum",
    "amax",
    "amin",
    "max",
    "min",
    "var",
    "var_mean",
    "argmax",
    "any",
    "all",
    "prod",
    "norm",
    "linalg_vector_norm",
    "logsumexp",
    "_log_softmax",
}
CLASS = {
    "_softmax": "softmax",
    "native_layer_norm": "norm",
    "_fused_rms_norm": "norm",
    "native_group_norm": "norm",
    "cat": "concat",
    "stack": "concat",
    "embedding": "gather",
    "index": "gather",
    "index_select": "gather",
    "gather": "gather",
    "index_put": "gather",
    "index_put_": "gather",
    "_index_put_impl_": "gather",
    "scatter": "gather",
    "scatter_": "gather",
    "scatter_add": "gather",
    "index_add": "gather",
    "index_add_": "gather",
    "sort": "sort",
    "topk": "topk",
    "cumsum": "scan",
    "histc": "histogram",
    "bincount": "histogram",
    "nonzero": "sort",
    "convolution": "convolution",
    "repeat_interleave": "gather",
    "_to_copy": "cast",
    "copy_": "copy",
    "clone": "copy",
    "constant_pad_nd": "copy",
    "zeros": "fill",
    "ones": "fill",
    "full": "fill",
    "zeros_like": "fill",
    "ones_like": "fill",
    "full_like": "fill",
    "fill_": "fill",
    "zero_": "fill",
    "arange": "fill",
    "scalar_tensor": "fill",
    "new_zeros": "fill",
    "new_ones": "fill",
    "new_full": "fill",
    "tril": "elementwise",
    "triu": "elementwise",
}


class Ops(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.rows = []
        self.names = []
        self.pause = 0
        self.syncs = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name.split("::")[1]
        if name == "_local_scalar_dense":
            # A value that only a device would know: all that transformers asks so is whether masks have padding.
            self.syncs += 1
            return 1
        out = func(*args, **(kwargs or {}))
        if self.pause:
            return out
        if name in SILENT or is_view(func):
            return out
        ins = [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, torch.Tensor)]
        outs = [t for t in tree_flatten(out)[0] if isinstance(t, torch.Tensor)]
        if not outs or sum(t.numel() for t in outs) == 0:
            return out
        self.names.append((name, [list(t.shape) for t in ins]))
        if name in GEMM:
            self.gemm(name, ins, outs)
        else:
            kind = CLASS.get(name) or ("reduce" if name in REDUCE else "elementwise")
            if name == "embedding" or name == "index_select" or name == "index" or name == "gather":
                read = SIZE(outs[0]) + sum(SIZE(t) for t in ins[1:])
            elif name in ("index_put", "index_put_", "_index_put_impl_", "scatter_", "index_add_"):
                read = sum(SIZE(t) for t in ins[1:])
            else:
                read = sum(distinct(t) for t in ins)
            write = sum(SIZE(t) for t in outs)
            if name in ("fill_", "zero_"):
                read = 0
            if name == "copy_":
                read = distinct(ins[1]) if len(ins) > 1 else 0
            if name in ("index_put", "index_put_", "_index_put_impl_", "scatter_", "index_add_"):
                write = SIZE(ins[-1]) if len(ins) > 1 else write
            shape = ins[0].shape if kind in ("reduce", "softmax", "norm", "topk", "sort") and ins else outs[0].shape
            width = shape[-1] if len(shape) else 1
            if kind == "concat":
                kind = "concat" if not all(t.is_contiguous() for t in ins if t.numel()) else "append"
            plain = all(t.is_contiguous() or distinct(t) <= 4096 for t in ins) and all(t.shape == outs[0].shape for t in ins)
            self.rows.append(
                {
                    "kind": kind,
                    "op": name,
                    "read": int(read),
                    "write": int(write),
                    "width": int(width),
                    "elements": int(outs[0].numel()),
                    "plain": plain,
                }
            )
        return out

    def gemm(self, name, ins, outs):
        a, b = (ins[1], ins[2]) if name in ("addmm", "baddbmm") else (ins[0], ins[1])
        groups = a.shape[0] if a.dim() == 3 else 1
        m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
        self.rows.append(
            {
                "kind": "gemm",
                "op": name,
                "groups": groups,
                "m": m,
                "n": n,
                "k": k,
                "size": a.element_size(),
                "aligned": aligned(a) and aligned(b) and n % 8 == 0,
            }
        )


def aligned(t):
    """Whether rows start at multiples of 16 bytes, as the fast GEMM kernels want."""
    pitch = [stride for stride in t.stride()[-2:] if stride != 1]
    return all(stride * t.element_size() % 16 == 0 for stride in pitch)


def distinct(t):
    """Bytes of the storage that a tensor really reads: expanded dimensions count once."""
    n = 1
    for size, stride in zip(t.shape, t.stride()):
        if stride != 0:
            n *= size
    return n * t.element_size()


def is_view(func):
    s = func._schema
    if s.is_mutable:
        return False
    return any(r.alias_info is not None and not r.alias_info.is_write for r in s.returns)


class Functions(TorchFunctionMode):
    """Ops that the meta device takes apart differently from a GPU are kept whole."""

    def __init__(self, ops):
        super().__init__()
        self.ops = ops

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.nn.functional.scaled_dot_product_attention:
            return self.sdpa(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if name in ("grouped_mm", "_grouped_mm"):
            return self.grouped(*args, **kwargs)
        return func(*args, **kwargs)

    def sdpa(self, q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        b, h, n, d = q.shape
        dv = v.shape[-1]
        backend = "flash" if attn_mask is None and d == dv and d <= 256 else "efficient"
        if q.dtype not in (torch.bfloat16, torch.float16):
            backend = "efficient"
        self.ops.names.append(
            ("sdpa", [list(q.shape), list(k.shape), list(v.shape)] + ([list(attn_mask.shape)] if attn_mask is not None else []))
        )
        self.ops.rows.append(
            {
                "kind": "attention",
                "op": backend,
                "batch": b,
                "heads": h,
                "kv_heads": k.shape[1],
                "queries": n,
                "keys": k.shape[2],
                "key_dim": d,
                "value_dim": dv,
                "causal": bool(is_causal),
                "mask": None if attn_mask is None else [str(attn_mask.dtype), list(attn_mask.shape), list(attn_mask.stride())],
                "size": q.element_size(),
            }
        )
        self.ops.pause += 1
        out = torch.empty(b, n, h, dv, dtype=q.dtype, device=q.device).transpose(1, 2)
        self.ops.pause -= 1
        return out

    def grouped(self, x, w, offs=None, **kw):
        self.ops.names.append(("grouped_mm", [list(x.shape), list(w.shape)]))
        self.ops.rows.append(
            {
                "kind": "grouped",
                "op": "grouped_mm",
                "experts": w.shape[0],
                "pairs": x.shape[0],
                "n": w.shape[-1],
                "k": x.shape[-1],
                "size": x.element_size(),
            }
        )
        self.ops.pause += 1
        out = torch.empty(x.shape[0], w.shape[-1], dtype=x.dtype, device=x.device)
        self.ops.pause -= 1
        return out


def build(model_type, config, dtype=torch.bfloat16):
    from transformers import AutoConfig, AutoModelForCausalLM

    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(AutoConfig.for_model(model_type, **config), dtype=dtype).eval()


def trace(model, batch, prompt):
    params = inspect.signature(model.forward).parameters
    kw = {"use_cache": True}
    if "logits_to_keep" in params:
        kw["logits_to_keep"] = 1
    cn = "past_key_values" if "past_key_values" in params else "cache_params"
    phases = {}
    cache = None
    for phase, n in (("prefill", prompt), ("decode", 1)):
        ops = Ops()
        ids = torch.zeros(batch, n, dtype=torch.long, device="meta")
        with torch.no_grad(), ops, Functions(ops):
            out = model(ids, **({cn: cache} if cache is not None else {}), **kw)
        cache = out[cn]
        phases[phase] = ops
    return phases
