"""Writes fixtures/h200/kernels/parts.json: GPU time of GEMMs and attention, and of all other kernels, in each measured cell.

    python crates/predict/tests/recipes/kernel_parts.py

Reads truth.jsonl.gz beside it. By model, then for each cell: batch, prompt, and of prefill and of the first decode step the ns of both.
"""

import gzip
import json
import pathlib

DATA = pathlib.Path(__file__).resolve().parents[4] / "fixtures/h200/kernels"
MATRIX = {"mm", "addmm", "bmm", "baddbmm", "_grouped_mm", "matmul", "linear"}


def parts(phase, names):
    matrix = 0
    for operator, _, _, _, ns in phase["rows"]:
        name = names[operator].replace("aten::", "")
        if name in MATRIX or "attention" in name or "attn" in name:
            matrix += ns
    return [matrix, max(phase["ns"] - matrix, 0)]


def main():
    lines = [json.loads(line) for line in gzip.open(DATA / "truth.jsonl.gz", "rt")]
    names = lines[-1]["names"]
    found = {}
    for line in lines[:-1]:
        if "b" in line:
            found.setdefault(line["model"], []).append([line["b"], line["s"], parts(line["@P"], names), parts(line["@D0"], names)])
    text = ",\n".join(f"{json.dumps(model)}:{json.dumps(cells, separators=(',', ':'))}" for model, cells in found.items())
    (DATA / "parts.json").write_text("{\n" + text + "\n}\n")


main()
