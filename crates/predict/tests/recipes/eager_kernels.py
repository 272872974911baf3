"""Writes tests/data/eager_kernels.json: the kernels that transformers launches for one model of each family.

    python crates/predict/tests/recipes/eager_kernels.py

Models are built on torch's meta device, so that neither weights nor a GPU are needed; a dispatch mode sees every operator with
its shapes, formats and strides. Attention and grouped GEMM are kept whole, as a GPU runs them. The designs are those of
fixtures/h200/kernels/times.json, where the names of the kernels that really ran were compared with this list.
"""

import collections
import inspect
import json
import pathlib

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

HERE = pathlib.Path(__file__).resolve().parent
TIMES = HERE.parents[3] / "fixtures/h200/kernels/times.json"
OUT = HERE.parent / "data/eager_kernels.json"

SILENT = {
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "detach", "alias", "_unsafe_view", "lift_fresh",
}
GEMM = {"mm", "addmm", "bmm", "baddbmm"}
HARD = {"silu", "gelu", "tanh", "sigmoid", "cos", "sin", "exp", "softplus", "polar", "erf", "floor_divide"}
REDUCE = {"mean", "sum", "amax", "amin", "max", "min", "var", "argmax", "any", "all"}
ACCESS = {
    "_softmax": "softmax", "native_layer_norm": "norm", "embedding": "gather", "index": "gather", "index_select": "gather",
    "gather": "gather", "index_put": "gather", "index_put_": "gather", "_index_put_impl_": "gather", "scatter": "gather",
    "scatter_": "gather", "sort": "sort", "topk": "top_k", "cumsum": "scan", "histc": "histogram", "copy_": "copy", "clone": "copy",
    "zeros": "fill", "ones": "fill", "full": "fill", "zeros_like": "fill", "ones_like": "fill", "fill_": "fill", "zero_": "fill",
    "arange": "fill", "scalar_tensor": "fill", "new_ones": "fill", "new_zeros": "fill",
}


def size(tensor):
    return tensor.numel() * tensor.element_size()


def distinct(tensor):
    """Bytes that are really read: an expanded dimension counts once."""
    elements = 1
    for extent, stride in zip(tensor.shape, tensor.stride()):
        if stride != 0:
            elements *= extent
    return elements * tensor.element_size()


def is_view(func):
    schema = func._schema
    if schema.is_mutable:
        return False
    return any(result.alias_info is not None and not result.alias_info.is_write for result in schema.returns)


class Operators(TorchDispatchMode):
    """Every operator that launches a kernel, as (class, FLOPs, bytes)."""

    def __init__(self):
        super().__init__()
        self.kernels = []
        self.paused = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name.split("::")[1]
        if name == "_local_scalar_dense":
            # What only a device knows: transformers asks so whether a mask has padding.
            return 1
        out = func(*args, **(kwargs or {}))
        inputs = [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, torch.Tensor)]
        outputs = [t for t in tree_flatten(out)[0] if isinstance(t, torch.Tensor)]
        silent = self.paused or name in SILENT or is_view(func)
        if silent or sum(t.numel() for t in outputs) == 0:
            return out
        if name in GEMM:
            a, b = (inputs[1], inputs[2]) if name in ("addmm", "baddbmm") else (inputs[0], inputs[1])
            flops = 2 * outputs[0].numel() * a.shape[-1]
            self.kernels.append(("gemm", flops, size(a) + size(b) + size(outputs[0])))
        else:
            self.kernels.append((access(name, inputs, outputs), 0, moved(name, inputs, outputs)))
            if name == "masked_fill":
                # On a GPU a copy, and then the fill in place.
                self.kernels.append(("elementwise", 0, 2 * size(outputs[0])))
        return out


def access(name, inputs, outputs):
    if name in ("cat", "stack"):
        dense = all(t.is_contiguous() for t in inputs if t.numel())
        return "append" if dense else "concat"
    if name == "_to_copy":
        return "widen" if outputs[0].element_size() > inputs[0].element_size() else "elementwise"
    if name in ACCESS:
        return ACCESS[name]
    if name in REDUCE:
        return "reduce"
    return "transcendental" if name in HARD else "elementwise"


def moved(name, inputs, outputs):
    written = sum(size(t) for t in outputs)
    if name in ("embedding", "index", "index_select", "gather"):
        return size(outputs[0]) + written
    if name in ("fill_", "zero_"):
        return written
    if name == "copy_":
        return distinct(inputs[1]) + written if len(inputs) > 1 else written
    return sum(distinct(t) for t in inputs) + written


class Whole(TorchFunctionMode):
    """Keeps calls whole that the meta device would take apart."""

    def __init__(self, operators):
        super().__init__()
        self.operators = operators

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.nn.functional.scaled_dot_product_attention:
            return self.attention(*args, **kwargs)
        if getattr(func, "__name__", "") in ("grouped_mm", "_grouped_mm"):
            return self.grouped(*args, **kwargs)
        return func(*args, **kwargs)

    def empty(self, *shape, like):
        self.operators.paused = True
        out = torch.empty(*shape, dtype=like.dtype, device=like.device)
        self.operators.paused = False
        return out

    def attention(self, q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        batch, heads, queries, width = q.shape
        flops = 2 * batch * heads * queries * k.shape[2] * (width + v.shape[-1])
        self.operators.kernels.append(("attention", flops // 2 if is_causal else flops, size(q) + size(k) + size(v)))
        return self.empty(batch, queries, heads, v.shape[-1], like=q).transpose(1, 2)

    def grouped(self, rows, weights, offs=None, **_):
        flops = 2 * rows.shape[0] * rows.shape[1] * weights.shape[-1]
        self.operators.kernels.append(("grouped_gemm", flops, 0))
        return self.empty(rows.shape[0], weights.shape[-1], like=rows)


def trace(model, batch, prompt):
    names = inspect.signature(model.forward).parameters
    fixed = {"use_cache": True}
    if "logits_to_keep" in names:
        fixed["logits_to_keep"] = 1
    cache, phases = None, {}
    for phase, queries in (("prefill", prompt), ("decode", 1)):
        operators = Operators()
        ids = torch.zeros(batch, queries, dtype=torch.long, device="meta")
        with torch.no_grad(), operators, Whole(operators):
            out = model(ids, **({} if cache is None else {"past_key_values": cache}), **fixed)
        cache = out["past_key_values"]
        sums = collections.defaultdict(lambda: [0, 0, 0])
        for name, flops, moved_bytes in operators.kernels:
            one = sums[name]
            one[0] += 1
            one[1] += flops
            one[2] += moved_bytes
        phases[phase] = {name: dict(zip(("kernels", "flops", "bytes"), one)) for name, one in sorted(sums.items())}
    return phases


def main():
    from transformers import AutoConfig, AutoModelForCausalLM, __version__

    seen, rows = set(), []
    for entry in json.loads(TIMES.read_text())["models"]:
        kind = entry["model_type"]
        if kind in seen or kind not in FAMILIES:
            continue
        seen.add(kind)
        with torch.device("meta"):
            config = AutoConfig.for_model(kind, **entry["config"])
            model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
        for batch, prompt in ((1, 128), (2, 256), (2, 2048)):
            rows.append({"model": entry["model"], "batch": batch, "prompt": prompt, **trace(model, batch, prompt)})
        print(entry["model"], flush=True)
    text = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    OUT.write_text(f'{{\n"transformers": "{__version__}", "torch": "{torch.__version__}",\n"rows": [\n{text}\n]}}\n')


FAMILIES = {
    "llama", "mistral", "qwen2", "qwen3", "phi3", "gemma2", "gemma3_text", "gpt2", "gpt_neox", "opt", "mixtral", "qwen2_moe",
    "qwen3_moe", "gpt_oss", "deepseek_v2", "deepseek_v3",
}

if __name__ == "__main__":
    main()
