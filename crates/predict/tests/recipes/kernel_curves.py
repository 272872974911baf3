"""Writes curves/h200.json: how long kernels take on an H200, by shape.

    python crates/predict/tests/recipes/kernel_curves.py

Reads fixtures/h200/kernels/micro.jsonl.gz and micro_shapes.jsonl (micro-benchmarks) and truth.jsonl.gz (kernels of models, by operator and shapes). Of
the models only those of the calibration split are read. Their kernels are joined with what kernel_trace.py finds on the
meta device, by operator and shapes, which gives bytes, formats and strides.
"""

import bisect
import collections
import gzip
import json
import math
import pathlib
import statistics

import kernel_trace

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parents[3] / "fixtures/h200/kernels"
OUT = HERE.parents[1] / "data/curves/h200.json"
PEAK, BANDWIDTH = 989.4e12, 4.8e12

# Fixed time in us, ns per kB, ns per thousand elements: read off the calibration models (medians of small and of large kernels).
STREAMS = {
    "append": (1.15, 0.256, 0), "append_sliced": (2.4, 0.24, 6.3), "concat": (2.3, 0.24, 4.4),
    "copy": (1.3, 0.24, 2.6), "fill": (0.8, 0.25, 0), "gather": (1.7, 0.3, 0), "histogram": (1.4, 0, 1.0),
    # By kernels alone (micro_shapes.jsonl): softmax of rows up to 2048 and beyond, prefix sums, columns read as rows, convolutions of 2 to 4 taps, triangular
    # systems of 64 rows.
    "softmax": (1.25, 0.35, 2.3), "softmax_long": (2.5, 0.35, 4.4), "scan": (2.3, 0, 2.6), "transposed": (1.9, 0, 6.5), "depthwise": (2.5, 0, 10.5),
    "solve": (18, 0, 0.376),
}
HARD = {"silu", "gelu", "tanh", "sigmoid", "cos", "sin", "exp", "softplus", "polar", "erf", "floor_divide"}
WORK = [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]
KEYS = [128, 256, 512, 1024, 2048, 4096]


def read(name):
    lines = [json.loads(line) for line in gzip.open(DATA / name, "rt")]
    return lines[:-1], lines[-1]["names"]


def median(values):
    return sorted(values)[len(values) // 2]


def digits(values):
    return [float(f"{value:.4g}") for value in values]


def between(axis, x):
    """Neighbours on an axis with their shares, by the logarithm."""
    if x <= axis[0]:
        return [(0, 1.0)]
    if x >= axis[-1]:
        return [(len(axis) - 1, 1.0)]
    i = bisect.bisect_right(axis, x) - 1
    share = math.log(x / axis[i]) / math.log(axis[i + 1] / axis[i])
    return [(i, 1 - share), (i + 1, share)] if share > 0 else [(i, 1.0)]


def joined(models):
    """Traced kernels with their measured time: (first traced row, all traced rows, ns of one)."""
    lines, names = read("truth.jsonl.gz")
    info = {line["model"]: line for line in lines if "split" in line}
    built = {}
    for cell in (line for line in lines if "b" in line and line["model"] in models):
        name = cell["model"]
        if name not in built:
            built = {name: kernel_trace.build(info[name]["type"], info[name]["config"])}
        phases = kernel_trace.trace(built[name], cell["b"], cell["s"])
        for key, phase in (("@P", "prefill"), ("@D0", "decode")):
            measured = collections.defaultdict(float)
            for op, kernel, shapes, _, ns in cell[key]["rows"]:
                try:
                    shapes = [shape for shape in json.loads(names[shapes]) if isinstance(shape, list)]
                except ValueError:
                    continue
                measured[operator(names[op].replace("aten::", ""), shapes)] += ns
            traced = collections.defaultdict(list)
            for row, (op, shapes) in zip(phases[phase].rows, phases[phase].names):
                traced[operator(op, shapes)].append(row)
            for key_, rows in traced.items():
                if key_ in measured and key_[0] != "cat":
                    yield rows[0], rows, measured[key_] / len(rows)


def operator(op, shapes):
    if op in ("_to_copy", "clone", "copy_"):
        return "copy_", tuple(shapes[0]) if shapes else ()
    if op in ("cat", "stack"):
        return "cat", ()
    return op, tuple(tuple(shape) for shape in shapes if shape)


def flavor(row):
    if row["kind"] == "cast":
        return "widen" if row["write"] > row["read"] else ("pointwise" if row["plain"] else "broadcast")
    if row["kind"] == "elementwise":
        if not row["plain"] and row["elements"] != row["width"]:
            return "broadcast"
        return "transcendental" if row["plain"] and row["op"] in HARD else "pointwise"
    return row["kind"]


def gemm_curve(micro, rows):
    times = {}
    for case in micro:
        if case["c"][0] == "gemm":
            times[tuple(case["c"][1:])] = sum(mid * count / 3 for _, count, mid, _ in case["k"]) * 1e-9

    def roof(m, n, k):
        return max(2 * m * n * k / PEAK, (m * k + n * k + m * n) * 2 / BANDWIDTH) + 2e-6

    axes = [sorted({key[i] for key in times}) for i in range(3)]
    ratio = {}
    for a, m in enumerate(axes[0]):
        for b, n in enumerate(axes[1]):
            for c, k in enumerate(axes[2]):
                if (m, n, k) in times:
                    ratio[a, b, c] = times[m, n, k] / roof(m, n, k)
                else:
                    # Too large to measure: as with fewer rows, else columns, else depth.
                    ratio[a, b, c] = next(
                        ratio[at] for at in ((a - 1, b, c), (a, b - 1, c), (a, b, c - 1)) if at in ratio
                    )

    def alone(m, n, k):
        total = 0
        for a, x in between(axes[0], m):
            for b, y in between(axes[1], n):
                for c, z in between(axes[2], k):
                    total += x * y * z * ratio[a, b, c]
        return total * roof(m, n, k)

    factors = collections.defaultdict(list)
    for row, _, ns in rows:
        if row["op"] in ("mm", "addmm") and row["size"] == 2 and row["n"] % 8 == 0 and row["n"] >= 64:
            factors[round(math.log2(row["m"]))].append(ns * 1e-9 / alone(row["m"], row["n"], row["k"]))
    at = sorted(factors)
    return {
        "fixed_us": 2.0, "m": axes[0], "n": axes[1], "k": axes[2], "ratio": [round(ratio[key], 3) for key in sorted(ratio)],
        "rows": digits(2.0**x for x in at), "in_model": digits(median(factors[x]) for x in at),
    }


def attention_curves(micro, names):
    points = collections.defaultdict(list)
    for case in micro:
        if case["c"][0] != "sdpa":
            continue
        _, masked, b, heads, kv, q, t, d, v = case["c"]
        seconds = sum(total / 2 for n, _, _, total in case["k"] if "cudnn" in names[n] or "Memset" in names[n]) * 1e-9
        causal = 0.5 if q > 1 and not masked else 1
        roof = max(2 * b * heads * q * t * (d + v) * causal / PEAK, 2 * b * (heads * q + kv * t) * (d + v) / BANDWIDTH) + 3e-6
        kind = ("prefill" if q > 1 else "decode") + ("_masked" if masked and q > 1 else "") + ("_grouped" if q == 1 and heads > kv else "")
        points[kind, d].append((b * heads if q > 1 else b * kv, t, seconds / roof))

    def near(known, work, keys):
        best = sorted((math.log2(work / x) ** 2 + math.log2(keys / y) ** 2, ratio) for x, y, ratio in known)[:4]
        if best[0][0] < 1e-6:
            return best[0][1]
        weights = [(1 / (distance + 1e-3), ratio) for distance, ratio in best]
        return sum(w * ratio for w, ratio in weights) / sum(w for w, _ in weights)

    curves = {"fixed_us": 3.0, "work": WORK, "keys": KEYS}
    for kind in sorted({kind for kind, _ in points}):
        dims = sorted({d for known, d in points if known == kind})
        curves[kind] = {"dims": dims, "ratio": [round(near(points[kind, d], w, t), 3) for d in dims for w in WORK for t in KEYS]}
    # Measured in the calibration models divided by measured alone, by the time alone.
    curves["alone_us"] = [4, 8, 16, 32, 64, 256]
    curves["decode_in_model"] = [1.38, 1.3, 1.1, 1.13, 1.08, 1.02]
    curves["prefill_in_model"] = [1.25, 1.12, 1.15, 1.15, 1.03, 1.04]
    return curves


def grouped_curve(micro, names):
    ratios = collections.defaultdict(list)
    for case in micro:
        if case["c"][0] != "grouped":
            continue
        _, experts, n, k, chosen, tokens = case["c"]
        seconds = sum(total / 3 for name, _, _, total in case["k"] if "distribution" not in names[name]) * 1e-9
        pairs, touched = tokens * chosen, experts * (1 - (1 - chosen / experts) ** tokens)
        roof = max(2 * pairs * n * k / PEAK, 2 * (touched * n * k + pairs * (n + k)) / BANDWIDTH) + 4e-6
        ratios[round(math.log2(pairs / touched) * 2) / 2].append(seconds / roof)
    at = sorted(ratios)
    return {"fixed_us": 4.0, "rows": digits(2**x for x in at), "ratio": digits(median(ratios[x]) for x in at)}


def rising(values, weights):
    """The nearest sequence that never falls."""
    blocks = [[value, weight, 1] for value, weight in zip(values, weights)]
    i = 0
    while i + 1 < len(blocks):
        if blocks[i][0] <= blocks[i + 1][0]:
            i += 1
            continue
        (a, w, n), (b, v, m) = blocks[i : i + 2]
        blocks[i : i + 2] = [[(a * w + b * v) / (w + v), w + v, n + m]]
        i = max(i - 1, 0)
    return [value for value, _, n in blocks for _ in range(n)]


def table(rows, kind, by, low, high):
    bins = collections.defaultdict(list)
    for row, all_rows, ns in rows:
        if "read" not in row or {flavor(one) for one in all_rows} != {kind}:
            continue
        x = row["elements"] if by == "elements" else sum(one["read"] + one["write"] for one in all_rows) / len(all_rows)
        if x > 0:
            at = round(math.log2(x))
            bins[min(max(at, low), high)].append((ns / (x / 2.0**at) if ns > 8000 else ns, len(all_rows)))
    xs, ys, weights = [], [], []
    for at in sorted(bins):
        total, seen = sum(weight for _, weight in bins[at]), 0
        for ns, weight in sorted(bins[at]):
            seen += weight
            if 2 * seen >= total:
                break
        xs.append(2.0**at)
        ys.append(math.log(ns))
        weights.append(total)
    return {"by": by, "x": digits(xs), "us": digits(math.exp(y) / 1e3 for y in rising(ys, weights))}


def binned(rows, kind, by, key):
    bins = collections.defaultdict(list)
    for row, _, ns in rows:
        if row["kind"] == kind and key(row) > 0:
            bins[round(math.log2(key(row)))].append(ns)
    return {"by": by, "x": digits(2.0**at for at in sorted(bins)), "us": digits(median(bins[at]) / 1e3 for at in sorted(bins))}


def widen_table():
    """Small ones as in the calibration models, 2 us and 0.285 ns per kB; those beyond the second-level cache as measured alone."""
    sizes = {float(1 << power): 2.0 + 0.285e-6 * (1 << power) for power in (10, 16, 20, 22, 23)}
    for line in (DATA / "micro_shapes.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row["kind"] == "widen_dense":
            sizes[6.0 * math.prod(row["shape"])] = row["us"]
    return {"by": "bytes", "x": sorted(sizes), "us": [round(sizes[size], 3) for size in sorted(sizes)]}


def cast_table():
    """Formats mixed in one kernel: dense, with a row for all, and with a number for each row, in the mean."""
    sizes = collections.defaultdict(list)
    for line in (DATA / "micro_shapes.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row["kind"] in ("cast_dense", "cast_broadcast", "cast_row"):
            sizes[float(row["n"])].append(row["us"])
    return {"by": "elements", "x": sorted(sizes), "us": [round(statistics.mean(sizes[size]), 3) for size in sorted(sizes)]}


def unaligned_curve():
    """Bytes per second of weights, by rows of the input: with an odd number of columns, and with an even one that is no multiple of eight."""
    rates = collections.defaultdict(list)
    for line in (DATA / "micro_shapes.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row["kind"] == "lmhead" and row["n"] % 8:
            rates[row["n"] % 2, row["m"]].append(2 * row["n"] * row["k"] / row["us"] * 1e6)
    sizes = sorted({m for _, m in rates})
    odd, even = ([float(f"{statistics.median(rates[parity, m]):.3g}") for m in sizes] for parity in (1, 0))
    return {"rows": sizes, "bytes_per_s": odd, "even_bytes_per_s": even}


def main():
    micro, names = read("micro.jsonl.gz")
    split = {model["model"]: model["split"] for model in json.loads((DATA / "times.json").read_text())["models"]}
    # Falcon's attention takes a way of its own.
    models = sorted(name for name, side in split.items() if side == "calibration" and name != "falcon_7b")
    rows = list(joined(models))
    streams = {
        name: {"fixed_us": fixed, "ns_per_kb": per_kb, "ns_per_kelement": per_element}
        for name, (fixed, per_kb, per_element) in STREAMS.items()
    }
    streams["reduce"] = {
        "fixed_us": 1.9, "ns_per_kb": 0.2, "ns_per_kelement": 0, "ns_per_width": 1.85, "ns_per_width_and_row": 0.115,
        "narrow_ns_per_kb": 41,
    }
    # By layer norms of 32 to 786,432 rows of 64 to 1024 elements (micro_shapes.jsonl): about 1 ns a row, and its bytes.
    streams["norm"] = {"fixed_us": 2.2, "ns_per_kb": 0.345, "ns_per_kelement": 0, "ns_per_width": 1.6, "narrow_ns_per_kb": 250}
    # Half a nanosecond for each row of a table that is looked up.
    streams["gather"]["narrow_ns_per_kb"] = 120
    curves = {
        "source": "torch 2.11 and transformers 5.17 on an NVIDIA H200: micro-benchmarks and kernels of the calibration models (fixtures/h200/kernels)",
        "models": models, "peak_flops": PEAK, "bytes_per_s": BANDWIDTH,
        "gemm": gemm_curve(micro, rows),
        "gemm_unaligned": unaligned_curve(),
        "gemm_batched": {"fixed_us": 2.4, "aligned_bytes_per_s": 3.5e12, "unaligned_bytes_per_s": 1.3e12, "compute": 0.6},
        "gemm_f32": {"fixed_us": 2.5, "ns_per_k": 2.2, "flops_per_s": 47e12},
        "attention": attention_curves(micro, names),
        "grouped": grouped_curve(micro, names),
        "streams": streams,
        "tables": {
            "sort": binned(rows, "sort", "elements", lambda row: row["elements"]),
            "top_k": binned(rows, "topk", "bytes", lambda row: row["read"]),
            "pointwise": table(rows, "pointwise", "bytes", 6, 33),
            "widen": widen_table(),
            "cast": cast_table(),
            "transcendental": table(rows, "transcendental", "bytes", 9, 33),
            "broadcast": table(rows, "broadcast", "elements", 6, 31),
        },
    }
    lines = (f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}" for key, value in curves.items())
    OUT.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
