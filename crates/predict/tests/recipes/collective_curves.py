"""Writes crates/predict/data/collectives/*.yaml from the tables of the wheel aiconfigurator-core (PyPI, Apache-2.0).

    pip download --no-deps aiconfigurator-core==0.12.0 && unzip aiconfigurator_core-*.whl 'aiconfigurator_core/systems/data/*/comm/*' -d wheel
    python collective_curves.py wheel/aiconfigurator_core/systems/data crates/predict/data/collectives

Needs pandas and pyarrow. Sizes in the tables are elements: of two bytes for `half` and `bfloat16`, of one for `int8`. Times are in ms. Of each curve every
second size is kept (a factor of four between neighbours), rounded to three digits; `check` says how far the kept ones interpolate from those left out.
"""

import math
import pathlib
import sys

import pandas

VERSION = "0.12.0"
# Folder of the wheel: file here, devices here, the newest NCCL table, the newest table of vLLM's own all-reduce in CUDA graphs.
SYSTEMS = {
    "a100_sxm": ("a100_sxm", ["a100_sxm_80gb", "a100_sxm_40gb"], "2.27.3", "0.14.0"),
    "h100_sxm": ("h100_sxm", ["h100_sxm"], "2.29.2", "0.24.0"),
    "h200_sxm": ("h200", ["h200"], "2.29.2", "0.24.0"),
    "b200_sxm": ("b200", ["b200"], "2.29.2", "0.24.0"),
    "b300_sxm": ("b300", ["b300"], "2.29.2", None),
    "gb200": ("gb200", ["gb200"], "2.29.2", "0.24.0"),
    "l40s": ("l40s", ["l40s"], "2.27.3", "0.22.0"),
}
OPERATIONS = {"all_reduce": "all_reduce", "all_gather": "all_gather", "reduce_scatter": "reduce_scatter", "alltoall": "all_to_all"}


def curve(table):
    """Bytes to µs, the median of equal sizes."""
    points = {}
    for size, latency in zip(table.message_size, table.latency):
        points.setdefault(int(size) * 2, []).append(float(latency) * 1e3)
    return {size: sorted(times)[len(times) // 2] for size, times in sorted(points.items())}


def between(points, size):
    sizes = sorted(points)
    for a, b in zip(sizes, sizes[1:]):
        if a <= size <= b:
            share = math.log(size / a) / math.log(b / a)
            return math.exp(math.log(points[a]) * (1 - share) + math.log(points[b]) * share)
    return None


def thin(points):
    sizes = sorted(points)
    kept = {size: points[size] for size in sizes[:: 2]}
    kept[sizes[-1]] = points[sizes[-1]]
    off = [abs(between(kept, size) / points[size] - 1) for size in sizes if size not in kept]
    return kept, off


def main(data, target):
    data, target = pathlib.Path(data), pathlib.Path(target)
    for folder, (name, devices, nccl, custom) in SYSTEMS.items():
        comm = data / folder / "comm"
        table = pandas.read_parquet(comm / "nccl" / nccl / "nccl_perf.parquet")
        half = table[table.nccl_dtype == "half"]
        lines = [
            f"# Written by tests/recipes/collective_curves.py. Time of a collective over a buffer of so many bytes, in one node.",
            f"devices: [{', '.join(devices)}]",
            f"source: >-",
            f"  aiconfigurator-core {VERSION} (PyPI, Apache-2.0), systems/data/{folder}/comm: nccl/{nccl}/nccl_perf.parquet (half)"
            + (f"; all_reduce is the lower of that and vllm/{custom}/custom_allreduce_perf.parquet in CUDA graphs" if custom else ""),
            "curves:",
        ]
        worst = []
        for theirs, ours in OPERATIONS.items():
            of = half[half.op_name == theirs]
            for ranks in sorted(of.num_gpus.unique()):
                points = curve(of[of.num_gpus == ranks])
                path = comm / "vllm" / str(custom) / "custom_allreduce_perf.parquet"
                if ours == "all_reduce" and custom and path.exists():
                    own = pandas.read_parquet(path)
                    own = own[(own.num_gpus == ranks) & own.kernel_source.str.contains("graph")]
                    for size, time in curve(own).items():
                        points[size] = min(points.get(size, time), time)
                kept, off = thin(points)
                worst += off
                text = ", ".join(f"[{size}, {time:.3g}]" for size, time in sorted(kept.items()))
                lines.append(f"  - {{ operation: {ours}, ranks: {ranks}, bytes_us: [{text}] }}")
        worst.sort()
        print(name, f"median {worst[len(worst) // 2]:.1%}, p90 {worst[len(worst) * 9 // 10]:.1%}, worst {worst[-1]:.1%} between kept sizes")
        (target / f"{name}.yaml").write_text("\n".join(lines) + "\n")


main(*sys.argv[1:3])
