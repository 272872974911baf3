"""Writes fixtures/h200/kernels/blind.json and blind_traced.json.gz.

    python crates/predict/tests/recipes/blind_times.py [LIST=MEASURED.json.gz…]

The first file has configs and GPU times: those of a list that is named are replaced by what measure_blind.py found. The second has kernels of the models that no
family reads, traced on the meta device by the worker of crates/capture: those of the lists that are named, or of all where none is.
"""

import gzip
import json
import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[4]
DATA = ROOT / "fixtures/h200/kernels"
sys.path.insert(0, str(ROOT / "crates/capture/python"))

FAMILIES = {
    "llama", "qwen2", "qwen3", "qwen3_moe", "qwen2_moe", "mistral", "gemma3_text", "gemma2", "phi3", "gpt2", "gpt_neox", "opt", "deepseek_v2", "deepseek_v3",
    "mixtral", "gpt_oss",
}
# Keys that say nothing of sizes or kernels.
IDLE = {
    "architectures", "transformers_version", "_name_or_path", "id2label", "label2id", "return_dict", "output_attentions", "output_hidden_states",
    "problem_type", "chunk_size_feed_forward", "is_encoder_decoder", "dtype", "torch_dtype", "model_type", "bos_token_id", "eos_token_id", "pad_token_id",
    "use_cache", "initializer_range", "task_specific_params",
}
# Keys that a config's own parts do not take back (DBRX).
NOWHERE = {"_name_or_path", "output_attentions"}
# Kernels that come with others: clears of workspaces, split-K reductions, inner passes of sorts.
HELPERS = re.compile(r"Memset|splitKreduce|RadixSort|DeviceScan", re.IGNORECASE)


def helpers(phase):
    return sum(count for name, (count, _) in phase["names"].items() if HELPERS.search(name))


def cell(found):
    prefill, first, second = found["prefill"], found["decode0"], found["decode1"]
    return {
        "batch": found["batch"], "prompt": found["prompt"],
        "prefill_ns": prefill["ns"], "prefill_kernels": prefill["n"], "prefill_helpers": helpers(prefill),
        "decode_step_ns": [first["ns"], second["ns"]], "decode_kernels": first["n"], "decode_helpers": helpers(first),
        "wall_ns": found["wall_ns"],
    }


def lines(rows):
    return ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)


def plain(value):
    """A value of a config as JSON has it: transformers writes infinity so, too."""
    if isinstance(value, list):
        return [plain(entry) for entry in value]
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items() if key not in NOWHERE}
    return {"__float__": "Infinity"} if value == math.inf else value


def measured(which, source):
    for model in json.load(gzip.open(source))["models"]:
        config = {key: plain(value) for key, value in model["config"].items() if value is not None and key not in IDLE}
        row = {"model": model["model"], "split": "grading", "list": which, "model_type": model["config"]["model_type"]}
        if model["model"].endswith("_eager"):
            row["attn_implementation"] = model["attention"]
        if model["cells"]:
            yield {**row, "config": config, "cells": [cell(found) for found in model["cells"]]}


def traces(models):
    from llmprof_worker import tracing
    from llmprof_worker.failure import Failure
    from llmprof_worker.requests import Trace

    for model in models:
        if model["model_type"] in FAMILIES and "attn_implementation" not in model:
            continue
        config = {"model_type": model["model_type"], **model["config"]}
        for one in model["cells"]:
            try:
                kernels = tracing.run(Trace(config, one["batch"], one["prompt"], [one["prompt"]], attn_implementation=model.get("attn_implementation")))
            except Failure as failure:
                print(model["model"], failure)
                break
            yield {"model": model["model"], "list": model["list"], "batch": one["batch"], "prompt": one["prompt"], "prefill_ns": one["prefill_ns"],
                   "decode_step_ns": one["decode_step_ns"][0], "traced": kernels}
        print(model["model"], flush=True)


def main(*sources):
    models = json.loads((DATA / "blind.json").read_text())["models"]
    for which, source in (source.split("=") for source in sources):
        models = [model for model in models if model["list"] != which] + list(measured(which, source))
    head = '{"device":"NVIDIA H200","software":"torch 2.11.0, transformers 5.17.0","token_kinds":null,"models":[\n'
    (DATA / "blind.json").write_text(head + lines(models) + "\n]}\n")
    named = {source.split("=")[0] for source in sources}
    path = DATA / "blind_traced.json.gz"
    kept = [row for row in json.load(gzip.open(path)) if row["list"] not in named] if named else []
    traced = lines([*kept, *traces([model for model in models if not named or model["list"] in named])])
    with gzip.GzipFile(path, "wb", mtime=0) as file:
        file.write(("[\n" + traced + "\n]\n").encode())


main(*sys.argv[1:])
