"""Writes fixtures/silicon/rows.csv: rows of aggregated serving in silicon_sample.csv of the wheel aiconfigurator-core 0.12.0 (PyPI, Apache-2.0), with what
aiconfigurator 0.12 estimates for those on H200s.

    pip download --no-deps aiconfigurator-core==0.12.0 && unzip aiconfigurator_core-*.whl aiconfigurator_core/systems/silicon_sample.csv -d wheel
    python -m venv estimates && estimates/bin/pip install aiconfigurator==0.12.0 aiconfigurator-core==0.12.0
    estimates/bin/python silicon_sample.py estimate wheel/aiconfigurator_core/systems/silicon_sample.csv estimates.jsonl     (2 s a row)
    python silicon_sample.py write wheel/aiconfigurator_core/systems/silicon_sample.csv estimates.jsonl fixtures/silicon/rows.csv
    python silicon_sample.py disaggregated wheel/aiconfigurator_core/systems/silicon_sample.csv fixtures/silicon/disaggregated.csv

Ranks are written as they were. Some rows state the product of tensor- and expert-parallel ranks as `tp_size` (64 with 8 × 8 experts): 34 of these 86 are in the
file a second time, with times equal to the last digit, as 8 ranks that share experts by 8. Where `attention_dp_size` is empty, it is what makes ranks of
attention as many as those of experts.
"""

import csv
import json
import logging
import sys
from pathlib import Path

SYSTEMS = {"h100_sxm": "h100_sxm", "h200_sxm": "h200", "b200_sxm": "b200"}
# Names under which aiconfigurator has the designs.
NAMES = {
    "meta-llama/Llama-3.1-70B": "meta-llama/Meta-Llama-3.1-70B",
    "meta-llama/Llama-3.1-8B-Instruct": "meta-llama/Meta-Llama-3.1-8B",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "meta-llama/Meta-Llama-3.1-8B",
}
DENSE = ("meta-llama/", "nvidia/Llama", "Qwen/Qwen3-32B")
KEPT = ["backend", "backend_version", "model_path", "precision", "gemm_quant_mode", "isl", "osl"]
RANKS = ["tp_size", "pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size"]


def rows(source):
    """Rows of an engine that prefills and decodes; of B200s those that the constants of SGLang and TensorRT-LLM are fitted to."""
    with open(source, newline="") as file:
        for row in csv.DictReader(file):
            wanted = row["system"] != "b200_sxm" or (row["backend"] != "vllm" and (row["precision"] == "fp8" or "gpt-oss" in row["model_path"]))
            if row["system"] in SYSTEMS and row["mode"] == "agg" and wanted:
                yield row


def ranks(row):
    """Tensor parallel, pipeline, data parallel, and experts by width and by number."""
    tensor, pipeline, data, width, number = (int(float(row[key])) if row[key] else None for key in RANKS)
    tensor, pipeline, width, number = tensor or 1, pipeline or 1, width or 1, number or 1
    if width == number > 1 and width * number == tensor * (data or 1):
        return (1, pipeline, number, 1, number) if (data or 1) > 1 else (number, pipeline, 1, 1, number)
    return tensor, pipeline, data or max(1, width * number // tensor), width, number


def concurrency(row):
    """The batch is that of one data-parallel group; the source says how many requests were in flight."""
    said = row["silicon_data_source"].split("silicon_concurrency=")
    return int(said[1].split(";")[0]) if len(said) > 1 else int(float(row["batch_size"]))


def estimate(source, target):
    """aiconfigurator's own estimate of each row on H200s, by its newest tables of the row's engine."""
    logging.disable(logging.CRITICAL)
    from aiconfigurator.cli.api import cli_estimate

    done = {json.loads(line)["id"] for line in Path(target).read_text().splitlines()} if Path(target).is_file() else set()
    known = {}
    with open(target, "a") as out:
        for row in sorted(rows(source), key=lambda row: (row["model_path"], row["backend"], row["tp_size"])):
            if row["id"] in done or row["system"] != "h200_sxm":
                continue
            tensor, pipeline, data, width, number = ranks(row)
            given = {"backend_name": row["backend"], "isl": int(row["isl"]), "osl": int(row["osl"]), "tp_size": tensor, "attention_dp_size": data}
            given["batch_size"] = -(-concurrency(row) // data)
            if not row["model_path"].startswith(DENSE):
                given.update(moe_tp_size=width, moe_ep_size=number)
            formats = {key: row[key] for key in ("gemm_quant_mode", "moe_quant_mode") if row[key]}
            model = NAMES.get(row["model_path"], row["model_path"])
            key = (model, json.dumps(given, sort_keys=True), json.dumps(formats))
            if key not in known:
                # Formats that its tables lack for the device (rows of gpt-oss state nvfp4, which an H200 does not have): those that it takes by itself. It
                # takes a KV cache of 16 bits where the config states no other; our simulation takes 8 bits for TensorRT-LLM, so that those are not alike.
                stated = "own" if row["backend"] == "trtllm" else "row"
                attempts = [(stated, {**given, **formats}), ("own", given)]
                for formats_of, attempt in attempts:
                    try:
                        found = cli_estimate(model, row["system"], mode="agg", **attempt)
                        known[key] = {"ttft": found.ttft, "tpot": found.tpot, "formats": formats_of}
                        break
                    except (Exception, SystemExit) as error:
                        known[key] = {"error": f"{type(error).__name__}: {error}"[:200]}
            out.write(json.dumps({"id": row["id"], **known[key]}) + "\n")
            out.flush()


def write(source, estimates, target):
    known = {}
    for line in Path(estimates).read_text().splitlines():
        answer = json.loads(line)
        known[answer["id"]] = answer
    with open(target, "w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["device", "source", "concurrency", *KEPT, *RANKS, "ttft_ms", "tpot_ms", "estimated_ttft_ms", "estimated_tpot_ms", "estimated_formats"])
        for row in rows(source):
            # Sweeps by aiconfigurator's authors have the path of a file on their machine as their source.
            kind = "sweep" if "/projects/" in row["silicon_data_source"] else "dashboard"
            times = [f"{float(row[key]):.4g}" for key in ("silicon_ttft_ms", "silicon_tpot_ms")]
            answer = known.get(row["id"], {})
            theirs = [f"{answer[key]:.4g}" if answer.get(key) else "" for key in ("ttft", "tpot")]
            stated = [row[key] for key in KEPT]
            writer.writerow([SYSTEMS[row["system"]], kind, concurrency(row), *stated, *ranks(row), *times, *theirs, answer.get("formats", "")])


def disaggregated(source, target):
    """Rows of H200s that prefill and decode on different GPUs. Most do not state how many workers there are. Some of these are in the file a second time,
    with times equal to the last digit, and state it there; of the others workers are empty."""
    sides = [f"{side}_{key}" for side in ("prefill", "decode") for key in ("num_workers", "tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")]
    with open(source, newline="") as file:
        found = [row for row in csv.DictReader(file) if row["system"] == "h200_sxm" and row["mode"] == "disagg"]

    def measurement(row):
        return row["backend"], row["isl"], row["osl"], concurrency(row), *(f"{float(row[key]):.6g}" for key in ("silicon_ttft_ms", "silicon_tpot_ms"))

    stated = {measurement(row): row for row in found if row["prefill_num_workers"]}
    with open(target, "w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["concurrency", *KEPT, *sides, "ttft_ms", "tpot_ms"])
        for row in found:
            twin = stated.get(measurement(row), row)
            counts = [str(int(float(twin[key]))) if twin[key] else "" for key in sides]
            times = [f"{float(row[key]):.4g}" for key in ("silicon_ttft_ms", "silicon_tpot_ms")]
            writer.writerow([concurrency(row), *(row[key] for key in KEPT), *counts, *times])


if __name__ == "__main__":
    {"estimate": estimate, "write": write, "disaggregated": disaggregated}[sys.argv[1]](*sys.argv[2:])
