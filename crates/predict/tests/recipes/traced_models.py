"""Writes fixtures/h200/kernels/traced.json: kernels of models that no family knows, traced on the meta device, beside GPU times on an H200.

    python crates/predict/tests/recipes/traced_models.py MEASURED.json.gz

MEASURED has, for each cell, `model`, `config`, `batch`, `prompt` and the sums over kernels `prefill_ns` and `decode_ns` (torch's profiler, bf16,
random weights, real widths with fewer layers). Falcon-7B is taken from times.json. The worker of crates/capture traces them.
"""

import gzip
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[4]
DATA = ROOT / "fixtures/h200/kernels"
sys.path.insert(0, str(ROOT / "crates/capture/python"))


def cells(measured):
    for cell in json.load(gzip.open(measured)):
        yield cell["model"], cell["config"], cell["batch"], cell["prompt"], cell["prefill_ns"], cell["decode_ns"]
    for model in json.loads((DATA / "times.json").read_text())["models"]:
        if model["model"] == "falcon_7b":
            config = {"model_type": model["model_type"], **model["config"]}
            for cell in model["cells"]:
                yield model["model"], config, cell["batch"], cell["prompt"], cell["prefill_ns"], cell["decode_step_ns"][0]


def main(measured):
    from llmprof_worker import tracing
    from llmprof_worker.requests import Trace

    rows = []
    for model, config, batch, prompt, prefill_ns, decode_ns in cells(measured):
        traced = tracing.run(Trace(config, batch, prompt, [prompt]))
        rows.append({"model": model, "batch": batch, "prompt": prompt, "prefill_ns": prefill_ns, "decode_step_ns": decode_ns, "traced": traced})
        print(model, batch, prompt, flush=True)
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    (DATA / "traced.json").write_text("[\n" + lines + "\n]\n")


main(*sys.argv[1:])
