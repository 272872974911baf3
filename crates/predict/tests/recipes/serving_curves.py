"""Writes crates/predict/data/curves/DEVICE_{vllm,sglang,trtllm}.json.gz: GEMM, experts, attention and gated delta kernels as serving engines run them on each device that has tables,
and crates/predict/tests/data/serving_rows.csv: rows of the tables, drawn at random, that a test compares with the curves.

    pip download --no-deps aiconfigurator-core==0.12.0 && unzip aiconfigurator_core-*.whl 'aiconfigurator_core/systems/data/*' -d wheel
    python serving_curves.py wheel/aiconfigurator_core/systems/data crates [DEVICE…]    (needs pyarrow and pyyaml)

The tables (Apache-2.0) were measured with vLLM 0.24, SGLang 0.5.14 and TensorRT-LLM 1.3.0rc20, on the A100 with older versions: the newest that the wheel's
`query_versions.yaml` calls complete. Later ones hold a few shapes of new models; where a table was not measured again, the newest before is read. Each engine
has a file of its own; formats that it has no table of on a device come from the fastest of the others, and those that none has are left out (the code then takes
the H200's). What is written are medians of measured ÷ (roofline + a fixed time) on axes that the code interpolates in; peaks are those of
crates/theory/devices. No measurement of a served model has a part in it. The Intel B60 is left out: no device file describes it.

Two things are taken out of the tables. GEMMs in FP8 were measured with scales of activations computed in front of them; engines have those in the norm
before, or the checkpoint states them, so that the time of `computescale_perf` is subtracted. vLLM's block-scaled GEMMs take 55 µs (H100) to 290 µs (L40S) or
more however small they are, since the host launched several kernels for each: SGLang's stand for them, which are of the same library (DeepGEMM), or
TensorRT-LLM's where SGLang has none. GEMMs in NVFP4 contain the quantization of their activations, as engines run it.

SGLang's table of gated delta kernels was disturbed on the H200: a sixth of the shapes, the large ones, take 1.3 to 4.9 times as long as on an H100, which is the
same chip with less bandwidth; with vLLM no shape takes more than 1.08 times as long. Its ratios are the lower ones of the two devices.

MXFP4 experts are as fast as the engine runs them, with activations in 16 bits or in MXFP8: TensorRT-LLM has the latter on Blackwell.
"""

import csv
import functools
import gzip
import json
import math
import random
import re
import statistics
import sys
from collections import defaultdict
from pathlib import Path

import pyarrow.parquet as parquet
import yaml

# Device here: folder of the wheel, name of the part.
DEVICES = {
    "a100_sxm_80gb": ("a100_sxm", "A100 SXM"),
    "b200": ("b200_sxm", "B200 SXM"),
    "b300": ("b300_sxm", "B300 SXM"),
    "gb200": ("gb200", "GB200"),
    "gb300": ("gb300", "GB300"),
    "h100_sxm": ("h100_sxm", "H100 SXM"),
    "h200": ("h200_sxm", "H200 SXM"),
    "l40s": ("l40s", "L40S"),
    "rtx_pro_6000_server": ("rtx_pro_6000_server", "RTX PRO 6000 Blackwell Server Edition"),
}
ENGINES = {"vllm": "0.24.0", "sglang": "0.5.14", "trtllm": "1.3.0rc20"}
OLDER_ENGINES = {"a100_sxm_80gb": {"vllm": "0.14.0", "sglang": "0.5.10", "trtllm": "1.0.0"}}
# Formats here: those of the tables, and bytes of an element with its scales.
GEMM = {"bf16": (["bfloat16"], 2.0), "fp8": (["fp8"], 1.0), "fp8_block": (["fp8_block"], 1.0), "nvfp4": (["nvfp4"], 0.5625)}
EXPERTS = {
    "bf16": (["bfloat16"], 2.0),
    "fp8": (["fp8"], 1.0),
    "fp8_block": (["fp8_block"], 1.0),
    "mxfp4": (["w4a16_mxfp4", "w4a8_mxfp4_mxfp8"], 0.53125),
    "int4": (["int4_wo"], 0.515625),
    "nvfp4": (["nvfp4"], 0.5625),
}
CACHE = {"bf16": ("bfloat16", 2.0), "fp8": ("fp8", 1.0)}
# Bytes as the code counts them: a format is multiplied at the rate of so many bits.
RATE = {"bf16": "bf16", "fp8": "fp8", "fp8_block": "fp8", "nvfp4": "fp4", "mxfp4": "bf16", "int4": "bf16"}
GEMM_FIXED, EXPERTS_FIXED, ATTENTION_FIXED = 2.0, 10.0, 3.0
# Gated delta kernels: what their names begin with, the phase, a fixed time, and the axes of heads of all sequences and of tokens of one.
DELTA = {
    "conv_prefill": ("causal_conv1d", "context", 2.0, [2**power for power in range(2, 13)], [2**power for power in range(16)]),
    "conv_decode": ("causal_conv1d", "generation", 2.0, [2**power for power in range(2, 17)], [1]),
    "rule_prefill": ("chunk_gated_delta_rule", "context", 20.0, [2**power for power in range(1, 13)], [2**power for power in range(16)]),
    "rule_decode": ("fused_recurrent_gated_delta_rule", "generation", 4.0, [2**power for power in range(1, 17)], [1]),
}
DISTURBED = {("h200", "sglang"): "h100_sxm"}
# As the code has it: elements of a head, tokens of a chunk, inputs that the convolution keeps.
HEAD, CHUNK, KEPT = 128, 64, 3
M = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768]
N = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 65536]
K = [128, 256, 512, 1024, 2048, 4096, 8192, 16384, 65536]
ROWS = [2**power for power in range(13)]
ELEMENTS = [2**power for power in range(18, 29)]
REACHED = [4, 16, 64, 256]
WORK = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192]
KEYS = [16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 131072]


def order(version):
    """So that 1.3.0rc9 < 1.3.0rc20 < 1.3.0 < 1.3.1."""
    numbers, _, candidate = version.partition("rc")
    return [int(number) for number in re.findall(r"\d+", numbers)], int(candidate or 10**6)


class Tables:
    """The tables of one device, and its peaks."""

    def __init__(self, data, devices, device):
        folder, self.title = DEVICES[device]
        self.device, self.root = device, data / folder
        self.newest = OLDER_ENGINES.get(device, ENGINES)
        self.older = defaultdict(dict)
        known = yaml.safe_load((devices / f"{device}.yaml").read_text())
        self.flops = {}
        for peak in known["peaks"]:
            if peak["engine"] == "tensor" and peak["dtype"] in RATE.values() and peak.get("accumulate", "f32") == "f32":
                self.flops[peak["dtype"]] = peak["tflops"] * 1e12
        self.bytes_per_s = known["memory"]["bandwidth_gb_s"]["value"] * 1e9

    @functools.cache
    def rows(self, table, name, engine):
        complete = self.newest[engine]
        paths = (self.root / table / engine).glob(f"*/{name}.parquet")
        known = [path for path in paths if order(path.parent.name) <= order(complete)]
        if not known:
            return []
        path = max(known, key=lambda path: order(path.parent.name))
        if path.parent.name != complete:
            self.older[engine][name] = path.parent.name
        return parquet.read_table(path).to_pylist()

    def own_or_fastest(self, engine, read):
        """What `read` finds for the engine; else the fastest of each shape among the others."""
        own = fastest(read(engine))
        if own:
            return own
        return fastest(entry for other in ENGINES for entry in read(other))

    def source(self, engine):
        older = "".join(f", {name} with {version}" for name, version in sorted(self.older[engine].items()))
        widths = [("16", "bf16"), ("8", "fp8"), ("4", "fp4")]
        known = [f"{self.flops[dtype] / 1e12:g}{' TFLOP/s' if bits == '16' else ''} in {bits}" for bits, dtype in widths if dtype in self.flops]
        peaks = ", ".join([known[0] + " bits", *known[1:]])
        return (
            f"aiconfigurator-core 0.12.0 (PyPI, Apache-2.0), tables of the {self.title} measured with {engine} {self.newest[engine]}{older}; "
            f"ratios are to {peaks}, and {self.bytes_per_s / 1e12:g} TB/s"
        )


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


def read_gemm(tables, name, engine):
    """Times of products of m × k by k × n, without the scales of activations."""
    if (engine, name) == ("vllm", "fp8_block"):
        return
    scales = {}
    if name == "fp8":
        for r in tables.rows("quantize", "computescale_perf", engine):
            scales[r["m"], r["k"]] = r["latency"] * 1e3
    for r in tables.rows("gemm", "gemm_perf", engine):
        if r["gemm_dtype"] in GEMM[name][0]:
            taken = r["latency"] * 1e3
            taken -= min(scales.get((r["m"], r["k"]), 0.0), taken / 2)
            yield (r["m"], r["n"], r["k"]), taken


def gemm(tables, engine):
    out = {}
    for name, (_, size) in GEMM.items():
        whose = "sglang" if (engine, name) == ("vllm", "fp8_block") else engine
        cells = defaultdict(list)
        for (m, n, k), taken in tables.own_or_fastest(whose, lambda engine: read_gemm(tables, name, engine)).items():
            if m in M and n in N and k in K:
                roof = max(2 * m * n * k / tables.flops[RATE[name]], (n * k * size + (m * k + m * n) * 2) / tables.bytes_per_s)
                cells[m, n, k].append(taken / (roof * 1e6 + GEMM_FIXED))
        if cells:
            ratio = without_spikes(len(M), len(N) * len(K), filled([M, N, K], cells))
            out[name] = {"fixed_us": GEMM_FIXED, "m": M, "n": N, "k": K, "ratio": ratio}
    return out


def read_experts(tables, name, engine):
    """Both GEMMs with what stands between and after them, over tokens spread evenly, so that the experts reached are known."""
    for r in tables.rows("moe", "moe_perf", engine):
        gated = "nongated" not in r["kernel_source"]
        if r["moe_dtype"] in EXPERTS[name][0] and r["distribution"] == "balanced" and r["moe_ep_size"] == 1 and gated:
            inner = r["inter_size"] // r["moe_tp_size"]
            yield (r["num_tokens"] * r["topk"], r["num_experts"], r["hidden_size"], inner), r["latency"] * 1e3


def experts(tables, engine):
    out = {}
    for name, (_, size) in EXPERTS.items():
        cells = defaultdict(list)
        for (pairs, count, hidden, inner), taken in tables.own_or_fastest(engine, lambda engine: read_experts(tables, name, engine)).items():
            reached = min(count, pairs)
            roof = 0.0
            for n, k in ((2 * inner, hidden), (hidden, inner)):
                moved = reached * n * k * size + pairs * (n + k) * 2
                roof += max(2 * pairs * n * k / tables.flops[RATE[name]], moved / tables.bytes_per_s)
            ratio = taken / (roof * 1e6 + 2 * EXPERTS_FIXED)
            # The two GEMMs have 2 × inner × hidden and inner × hidden elements.
            cells[nearest(ROWS, pairs / reached), nearest(ELEMENTS, 1.414 * inner * hidden), nearest(REACHED, reached)].append(ratio)
        if cells:
            axes = [ROWS, ELEMENTS, REACHED]
            out[name] = {"fixed_us": EXPERTS_FIXED, "rows": ROWS, "elements": ELEMENTS, "reached": REACHED, "ratio": filled(axes, cells)}
    return out


def read_attention(tables, name, engine, decode):
    table = "generation_attention_perf" if decode else "context_attention_perf"
    for r in tables.rows("attention", table, engine):
        if r["kv_cache_dtype"] == CACHE[name][0] and not r.get("window_size"):
            keys = r["step"] + 1 if decode else r["isl"]
            # Decode of as many KV heads as heads has ratios of its own, and few rows; no model has heads of 512.
            if not (decode and r["num_heads"] == r["num_key_value_heads"] > 1) and r["head_dim"] != 512:
                yield (r["batch_size"], r["num_heads"], r["num_key_value_heads"], keys, r["head_dim"]), r["latency"] * 1e3


def read_latent(tables, name, engine, decode):
    for r in tables.rows("mla", "generation_mla_perf", engine) if decode else ():
        if r["kv_cache_dtype"] == CACHE[name][0]:
            # One latent of 576 for all heads.
            yield (r["batch_size"], r["num_heads"], 1, r["step"] + 1, 576), r["latency"] * 1e3


def attention(tables, engine, decode):
    out = {}
    for name, (_, size) in CACHE.items():
        found = tables.own_or_fastest(engine, lambda engine: read_attention(tables, name, engine, decode))
        if not found:
            continue
        found.update(tables.own_or_fastest(engine, lambda engine: read_latent(tables, name, engine, decode)))
        cells, dims = defaultdict(list), set()
        for (batch, heads, kv_heads, keys, dim), taken in found.items():
            if keys not in KEYS:
                continue
            dims.add(dim)
            both = 576 + 512 if dim == 576 else 2 * dim
            queries = 1 if decode else keys
            flops = 2 * batch * heads * queries * keys * both * (1.0 if decode else 0.5)
            # As `Kernel::bytes` counts them: of a latent, keys and values apart.
            moved = batch * heads * queries * both * 2 + batch * kv_heads * keys * both * size
            roof = max(flops / tables.flops["bf16"], moved / tables.bytes_per_s) * 1e6 + ATTENTION_FIXED
            cells[dim, nearest(WORK, batch * (kv_heads if decode else heads)), keys].append(taken / roof)
        dims = sorted(dims)
        out[name] = {"dims": dims, "ratio": filled([dims, WORK, KEYS], cells)}
    return {"fixed_us": ATTENTION_FIXED, "work": WORK, "keys": KEYS, "cache": out}


def read_delta(tables, name, engine):
    """Sequences, tokens of each, key heads and value heads, all of 128 elements."""
    kernel, phase, *_ = DELTA[name]
    for r in tables.rows("linear_attention", "gdn_perf", engine):
        if r["kernel_source"].startswith(kernel) and r["phase"] == phase and r["head_k_dim"] == r["head_v_dim"] == HEAD and r["d_conv"] == KEPT + 1:
            tokens = r["seq_len"] if phase == "context" else 1
            yield (r["batch_size"], tokens, r["num_k_heads"], r["num_v_heads"]), r["latency"] * 1e3


def delta_work(name, key):
    batch, _, key_heads, value_heads = key
    return batch * (2 * key_heads + value_heads if name.startswith("conv") else value_heads)


def delta_ratios(tables, name, engine):
    """Measured ÷ (roofline + a fixed time) by shape; states are in 32 bits, read and written."""
    _, phase, fixed, *_ = DELTA[name]
    out = {}
    for key, taken in tables.own_or_fastest(engine, lambda engine: read_delta(tables, name, engine)).items():
        batch, tokens, key_heads, value_heads = key
        flops = 0
        if name.startswith("conv"):
            moved = batch * (2 * key_heads + value_heads) * HEAD * 4 * (tokens + KEPT)
        else:
            moved = batch * (tokens * 4 * HEAD * (key_heads + value_heads) + 2 * value_heads * HEAD * HEAD * 4)
            if tokens > 1:
                chunk = 2 * CHUNK**2 * 3 * HEAD + CHUNK * (CHUNK - 1) * 2 * HEAD + 6 * CHUNK * HEAD**2
                flops = batch * value_heads * math.ceil(tokens / CHUNK) * chunk
        roof = max(flops / tables.flops["bf16"], moved / tables.bytes_per_s)
        out[key] = taken / (roof * 1e6 + fixed)
    return out


def gated_delta(tables, engine, other):
    """`other` gives the tables of another device. Heads that are no power of two lie between cells, where a test looks for them."""
    out = {}
    for name, (_, _, fixed, work, tokens) in DELTA.items():
        found = delta_ratios(tables, name, engine)
        if (tables.device, engine) in DISTURBED:
            elsewhere = delta_ratios(other(DISTURBED[tables.device, engine]), name, engine)
            found = {key: min(ratio, elsewhere.get(key, ratio)) for key, ratio in found.items()}
        cells = defaultdict(list)
        for key, ratio in found.items():
            if delta_work(name, key) in work and key[1] in tokens:
                cells[delta_work(name, key), key[1]].append(ratio)
        if cells:
            out[name] = {"fixed_us": fixed, "work": work, "tokens": tokens, "ratio": filled([work, tokens], cells)}
    return out


def delta_sources(name):
    """Three rows of any shape, and three whose heads lie between cells. The disturbed table is left out."""
    work = DELTA[name][3]

    def read(tables, _, engine):
        return () if (tables.device, engine) in DISTURBED else read_delta(tables, name, engine)

    def inside(key):
        # A prefill of one token runs as a decode step.
        return work[0] <= delta_work(name, key) <= work[-1] and (key[1] > 1 or name.endswith("decode"))

    def between(key):
        return inside(key) and delta_work(name, key) not in work

    return [(name, 3, ["bf16"], read, inside), (name, 3, ["bf16"], read, between)]


def drawn(tables):
    """Rows of each table of the device: engine, table, format, sizes (rows, columns and depth; pairs, experts, hidden and inner; batch, heads, KV heads, keys and
    width of a head; batch, tokens, key heads and value heads), µs. Four GEMMs have the shape of a cell of the curves; all else is any shape within the axes."""
    random.seed(tables.device)
    sources = [
        ("gemm", 4, GEMM, read_gemm, lambda key: key[0] in M and key[1] in N and key[2] in K),
        ("gemm", 8, GEMM, read_gemm, lambda key: key[0] <= M[-1] and N[0] <= key[1] <= N[-1] and K[0] <= key[2] <= K[-1]),
        ("experts", 8, EXPERTS, read_experts, lambda key: key[0] / min(key[:2]) <= ROWS[-1]),
        ("decode_attention", 6, CACHE, lambda *of: read_attention(*of, True), lambda key: KEYS[0] <= key[3] <= KEYS[-1]),
        ("prefill_attention", 6, CACHE, lambda *of: read_attention(*of, False), lambda key: KEYS[0] <= key[3] <= KEYS[-1]),
    ]
    sources += [source for name in DELTA for source in delta_sources(name)]
    for table, count, formats, read, inside in sources:
        choices = [(engine, name, fastest(read(tables, name, engine))) for engine in ENGINES for name in formats]
        choices = [choice for choice in choices if any(map(inside, choice[2]))]
        if not choices:
            continue
        for _ in range(count):
            engine, name, found = random.choice(choices)
            key = random.choice(sorted(key for key in found if inside(key)))
            yield [tables.device, engine, table, name, " ".join(map(str, key)), f"{found[key]:.5g}"]


def main(data, crates, *only):
    devices, predict, rows = Path(crates) / "theory/devices", Path(crates) / "predict", []
    for device in only or DEVICES:
        tables = Tables(Path(data), devices, device)
        for engine in ENGINES:
            out = {
                "gemm": gemm(tables, engine),
                "experts": experts(tables, engine),
                "decode_attention": attention(tables, engine, True),
                "prefill_attention": attention(tables, engine, False),
                "gated_delta": gated_delta(tables, engine, lambda device: Tables(Path(data), devices, device)),
            }
            out = {"source": tables.source(engine), **out}
            text = json.dumps(out, separators=(",", ":")).replace('"gemm"', '\n"gemm"').replace('"experts"', '\n"experts"')
            text = text.replace('"decode_', '\n"decode_').replace('"prefill_', '\n"prefill_').replace('"gated_', '\n"gated_').replace('},"', '},\n"') + "\n"
            # Without a date, so that equal tables make equal files.
            (predict / "data/curves" / f"{device}_{engine}.json.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
        rows += drawn(tables)
    if not only:
        with (predict / "tests/data/serving_rows.csv").open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["device", "engine", "table", "format", "sizes", "us"])
            writer.writerows(rows)


main(*sys.argv[1:])
