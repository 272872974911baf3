"""Writes fixtures/silicon/rows.csv: rows of aggregated serving in silicon_sample.csv of the wheel aiconfigurator 0.10.0 (PyPI, Apache-2.0) on H100 and H200,
with what aiconfigurator 0.12 estimates for them.

    pip download --no-deps aiconfigurator==0.10.0 && unzip aiconfigurator-*.whl aiconfigurator/systems/silicon_sample.csv -d wheel
    python -m venv estimates && estimates/bin/pip install aiconfigurator==0.12.0 aiconfigurator-core==0.12.0
    estimates/bin/python silicon_sample.py estimate wheel/aiconfigurator/systems/silicon_sample.csv estimates.jsonl     (1 to 4 s a row)
    python silicon_sample.py write wheel/aiconfigurator/systems/silicon_sample.csv estimates.jsonl fixtures/silicon/rows.csv
"""

import csv
import json
import logging
import sys
from pathlib import Path

SYSTEMS = {"h100_sxm": "h100_sxm", "h200_sxm": "h200"}
# Names under which aiconfigurator has the designs.
NAMES = {
    "meta-llama/Llama-3.1-70B": "meta-llama/Meta-Llama-3.1-70B",
    "meta-llama/Llama-3.1-8B-Instruct": "meta-llama/Meta-Llama-3.1-8B",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "meta-llama/Meta-Llama-3.1-8B",
}
KEPT = ["backend", "model_path", "precision", "gemm_quant_mode", "isl", "osl", "tp_size", "pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size"]


def rows(source):
    with open(source, newline="") as file:
        for row in csv.DictReader(file):
            if row["system"] in SYSTEMS and row["mode"] == "agg":
                yield row


def estimate(source, target):
    """aiconfigurator's own estimate of each row, by its newest tables of the row's engine."""
    logging.disable(logging.CRITICAL)
    from aiconfigurator.cli.api import cli_estimate

    done = {json.loads(line)["id"] for line in Path(target).read_text().splitlines()} if Path(target).is_file() else set()
    with open(target, "a") as out:
        for row in rows(source):
            if row["id"] in done:
                continue
            given = {"backend_name": row["backend"], "isl": int(row["isl"]), "osl": int(row["osl"]), "batch_size": int(row["batch_size"])}
            for key in ("tp_size", "pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size"):
                if row[key]:
                    given[key] = int(row[key])
            for key in ("gemm_quant_mode", "moe_quant_mode"):
                if row[key]:
                    given[key] = row[key]
            model = NAMES.get(row["model_path"], row["model_path"])
            try:
                try:
                    found = cli_estimate(model, row["system"], mode="agg", **given)
                except Exception:
                    # Formats that its tables lack for the device: those that it takes by itself.
                    given = {key: value for key, value in given.items() if not key.endswith("quant_mode")}
                    found = cli_estimate(model, row["system"], mode="agg", **given)
                answer = {"id": row["id"], "ttft": found.ttft, "tpot": found.tpot}
            except (Exception, SystemExit) as error:
                answer = {"id": row["id"], "error": f"{type(error).__name__}: {error}"[:200]}
            out.write(json.dumps(answer) + "\n")
            out.flush()


def write(source, estimates, target):
    known = {}
    for line in Path(estimates).read_text().splitlines():
        answer = json.loads(line)
        known[answer["id"]] = answer
    with open(target, "w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["device", "source", "concurrency", *KEPT, "ttft_ms", "tpot_ms", "estimated_ttft_ms", "estimated_tpot_ms"])
        for row in rows(source):
            # The batch is that of one data-parallel group; the source says how many requests were in flight.
            said = row["silicon_data_source"].split("silicon_concurrency=")
            concurrency = said[1].split(";")[0] if len(said) > 1 else row["batch_size"]
            kind = "sweep" if "gap-analysis" in row["silicon_data_source"] else "dashboard"
            times = [f"{float(row[key]):.4g}" for key in ("silicon_ttft_ms", "silicon_tpot_ms")]
            answer = known.get(row["id"], {})
            theirs = [f"{answer[key]:.4g}" if answer.get(key) else "" for key in ("ttft", "tpot")]
            writer.writerow([SYSTEMS[row["system"]], kind, concurrency, *(row[key] for key in KEPT), *times, *theirs])


if __name__ == "__main__":
    {"estimate": estimate, "write": write}[sys.argv[1]](*sys.argv[2:])
