"""Writes crates/theory/curves/h200_{vllm,sglang,trtllm}.json: GEMM, experts and attention as serving engines run them on an H200.

    pip download --no-deps aiconfigurator-core==0.12.0 && unzip aiconfigurator_core-*.whl 'aiconfigurator_core/systems/data/h200_sxm/*' -d wheel
    python serving_curves.py wheel/aiconfigurator_core/systems/data/h200_sxm crates/theory/curves    (needs pyarrow)

The tables (Apache-2.0) were measured with vLLM 0.24, SGLang 0.5.14 and TensorRT-LLM 1.3.0rc20. Each engine has a file of its own; formats that it has no
table of come from the fastest of the others. What is written are medians of measured ÷ (roofline + a fixed time) on axes that the code interpolates in.
No measurement of a served model has a part in it.

Two things are taken out of the tables. GEMMs in FP8 were measured with scales of activations computed in front of them; engines have those in the norm
before, or the checkpoint states them, so that the time of `computescale_perf` is subtracted. vLLM's block-scaled GEMMs take 58 µs or more
however small they are, since the host launched several kernels for each: SGLang's stand for them, which are of the same library (DeepGEMM).
"""

import json
import math
import statistics
import sys
from collections import defaultdict
from pathlib import Path

import pyarrow.parquet as parquet

ENGINES = {"vllm": "0.24.0", "sglang": "0.5.14", "trtllm": "1.3.0rc20"}
BYTES_PER_S = 4.8e12
FLOPS = {2: 989.4e12, 1: 1978.9e12}
GEMM = {"bfloat16": ("bf16", 2.0), "fp8": ("fp8", 1.0), "fp8_block": ("fp8_block", 1.0)}
EXPERTS = {**GEMM, "w4a16_mxfp4": ("mxfp4", 0.53125), "int4_wo": ("int4", 0.515625)}
CACHE = {"bfloat16": ("bf16", 2.0), "fp8": ("fp8", 1.0)}
GEMM_FIXED, EXPERTS_FIXED, ATTENTION_FIXED = 2.0, 10.0, 3.0
M = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768]
N = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 65536]
K = [128, 256, 512, 1024, 2048, 4096, 8192, 16384, 65536]
ROWS = [2**power for power in range(13)]
ELEMENTS = [2**power for power in range(18, 29)]
REACHED = [4, 16, 64, 256]
WORK = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192]
KEYS = [16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 131072]


def rows(root, table, name, engine):
    path = root / table / engine / ENGINES[engine] / f"{name}.parquet"
    return parquet.read_table(path).to_pylist() if path.is_file() else []


def fastest(entries):
    found = {}
    for key, microseconds in entries:
        found[key] = min(found.get(key, math.inf), microseconds)
    return found


def nearest(axis, value):
    return min(axis, key=lambda known: abs(math.log(known / value)))


def filled(axes, cells):
    """All cells of a table, the last axis innermost; those without a measurement as the nearest that has one."""
    known = {key: statistics.median(values) for key, values in cells.items() if values}

    def at(key):
        if key in known:
            return known[key]

        def apart(other):
            return sum(math.log2(a / b) ** 2 for a, b in zip(key, other))

        return known[min(known, key=apart)]

    keys = [()]
    for axis in axes:
        keys = [(*key, value) for key in keys for value in axis]
    return [float(f"{at(key):.3g}") for key in keys]


def without_spikes(rows, others, ratio):
    """The table without cells that take 1.5 times as long as both of their neighbours in rows: a clock that fell, or a disturbed measurement."""
    out = list(ratio)
    for a in range(1, rows - 1):
        for b in range(others):
            before, at, after = (ratio[(a + step) * others + b] for step in (-1, 0, 1))
            if at > 1.5 * max(before, after):
                out[a * others + b] = float(f"{math.sqrt(before * after):.3g}")
    return out


def own_or_fastest(engine, read):
    """What `read` finds for the engine; else the fastest of each shape among the others."""
    own = fastest(read(engine))
    if own:
        return own
    return fastest(entry for other in ENGINES for entry in read(other))


def gemm(root, engine):
    scales = {}
    for other in ENGINES:
        for r in rows(root, "quantize", "computescale_perf", other):
            scales[other, r["m"], r["k"]] = r["latency"] * 1e3

    def read(dtype, engine):
        for r in rows(root, "gemm", "gemm_perf", engine):
            if r["gemm_dtype"] == dtype:
                taken = r["latency"] * 1e3
                if dtype == "fp8":
                    taken -= min(scales.get((engine, r["m"], r["k"]), 0.0), taken / 2)
                yield (r["m"], r["n"], r["k"]), taken

    out = {}
    for dtype, (name, size) in GEMM.items():
        whose = "sglang" if (engine, dtype) == ("vllm", "fp8_block") else engine
        cells = defaultdict(list)
        for (m, n, k), taken in own_or_fastest(whose, lambda engine: read(dtype, engine)).items():
            if m in M and n in N and k in K:
                roof = max(2 * m * n * k / FLOPS[size], (n * k * size + (m * k + m * n) * 2) / BYTES_PER_S)
                cells[m, n, k].append(taken / (roof * 1e6 + GEMM_FIXED))
        ratio = without_spikes(len(M), len(N) * len(K), filled([M, N, K], cells))
        out[name] = {"fixed_us": GEMM_FIXED, "m": M, "n": N, "k": K, "ratio": ratio}
    return out


def experts(root, engine):
    """Both GEMMs with what stands between and after them, over tokens spread evenly, so that the experts reached are known."""

    def read(dtype, engine):
        for r in rows(root, "moe", "moe_perf", engine):
            gated = "nongated" not in r["kernel_source"]
            if r["moe_dtype"] == dtype and r["distribution"] == "balanced" and r["moe_ep_size"] == 1 and gated:
                inner = r["inter_size"] // r["moe_tp_size"]
                yield (r["num_tokens"] * r["topk"], r["num_experts"], r["hidden_size"], inner), r["latency"] * 1e3

    out = {}
    for dtype, (name, size) in EXPERTS.items():
        cells = defaultdict(list)
        for (pairs, count, hidden, inner), taken in own_or_fastest(engine, lambda engine: read(dtype, engine)).items():
            reached = min(count, pairs)
            roof = 0.0
            for n, k in ((2 * inner, hidden), (hidden, inner)):
                moved = reached * n * k * size + pairs * (n + k) * 2
                roof += max(2 * pairs * n * k / FLOPS[1 if size == 1.0 else 2], moved / BYTES_PER_S)
            ratio = taken / (roof * 1e6 + 2 * EXPERTS_FIXED)
            # The two GEMMs have 2 × inner × hidden and inner × hidden elements.
            cells[nearest(ROWS, pairs / reached), nearest(ELEMENTS, 1.414 * inner * hidden), nearest(REACHED, reached)].append(ratio)
        axes = [ROWS, ELEMENTS, REACHED]
        out[name] = {"fixed_us": EXPERTS_FIXED, "rows": ROWS, "elements": ELEMENTS, "reached": REACHED, "ratio": filled(axes, cells)}
    return out


def attention(root, engine, decode):
    table = "generation_attention_perf" if decode else "context_attention_perf"

    def read(dtype, engine):
        for r in rows(root, "attention", table, engine):
            if r["kv_cache_dtype"] == dtype and not r["window_size"]:
                keys = r["step"] + 1 if decode else r["isl"]
                yield (r["batch_size"], r["num_heads"], r["num_key_value_heads"], keys, r["head_dim"]), r["latency"] * 1e3

    def latent(dtype, engine):
        for r in rows(root, "mla", "generation_mla_perf", engine) if decode else ():
            if r["kv_cache_dtype"] == dtype:
                # One latent of 576 for all heads.
                yield (r["batch_size"], r["num_heads"], 1, r["step"] + 1, 576), r["latency"] * 1e3

    out = {}
    for dtype, (name, size) in CACHE.items():
        found = own_or_fastest(engine, lambda engine: read(dtype, engine))
        found.update(own_or_fastest(engine, lambda engine: latent(dtype, engine)))
        cells, dims = defaultdict(list), set()
        for (batch, heads, kv_heads, keys, dim), taken in found.items():
            if keys not in KEYS or (decode and heads == kv_heads and heads > 1) or dim == 512:
                continue
            dims.add(dim)
            both = 576 + 512 if dim == 576 else 2 * dim
            queries = 1 if decode else keys
            flops = 2 * batch * heads * queries * keys * both * (1.0 if decode else 0.5)
            # As `Kernel::bytes` counts them: of a latent, keys and values apart.
            moved = batch * heads * queries * both * 2 + batch * kv_heads * keys * both * size
            roof = max(flops / FLOPS[2], moved / BYTES_PER_S) * 1e6 + ATTENTION_FIXED
            cells[dim, nearest(WORK, batch * (kv_heads if decode else heads)), keys].append(taken / roof)
        dims = sorted(dims)
        out[name] = {"dims": dims, "ratio": filled([dims, WORK, KEYS], cells)}
    return {"fixed_us": ATTENTION_FIXED, "work": WORK, "keys": KEYS, "cache": out}


def main(source, target):
    root = Path(source)
    for engine, version in ENGINES.items():
        out = {
            "source": f"aiconfigurator-core 0.12.0 (PyPI, Apache-2.0), tables of the H200 SXM measured with {engine} {version}; "
            "ratios are to 989.4 TFLOP/s in 16 bits, 1978.9 in 8, and 4.8 TB/s",
            "gemm": gemm(root, engine),
            "experts": experts(root, engine),
            "decode_attention": attention(root, engine, True),
            "prefill_attention": attention(root, engine, False),
        }
        text = json.dumps(out, separators=(",", ":")).replace('"gemm"', '\n"gemm"').replace('"experts"', '\n"experts"')
        text = text.replace('"decode_', '\n"decode_').replace('"prefill_', '\n"prefill_').replace('},"', '},\n"') + "\n"
        (Path(target) / f"h200_{engine}.json").write_text(text)


main(*sys.argv[1:])
