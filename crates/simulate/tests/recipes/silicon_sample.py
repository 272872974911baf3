"""Writes fixtures/silicon/h200.csv: the H200 rows of silicon_sample.csv in the wheel aiconfigurator 0.10.0 (PyPI, Apache-2.0), aggregated serving only.

    pip download --no-deps aiconfigurator==0.10.0 && unzip aiconfigurator-*.whl aiconfigurator/systems/silicon_sample.csv -d wheel
    python silicon_sample.py wheel/aiconfigurator/systems/silicon_sample.csv fixtures/silicon/h200.csv
"""

import csv
import sys

KEPT = ["backend", "model_path", "precision", "isl", "osl", "tp_size", "pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size"]


def main(source, target):
    with open(source, newline="") as file, open(target, "w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["concurrency", *KEPT, "ttft_ms", "tpot_ms"])
        for row in csv.DictReader(file):
            if row["system"] != "h200_sxm" or row["mode"] != "agg":
                continue
            # The batch is that of one data-parallel group; the source says how many requests were in flight.
            said = row["silicon_data_source"].split("silicon_concurrency=")
            concurrency = said[1].split(";")[0] if len(said) > 1 else row["batch_size"]
            times = [f"{float(row[key]):.4g}" for key in ("silicon_ttft_ms", "silicon_tpot_ms")]
            writer.writerow([concurrency, *(row[key] for key in KEPT), *times])


main(*sys.argv[1:])
