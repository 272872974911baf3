"""Counters for decode: those that llmprof plans, beside `ncu --set full` on consecutive launches.

    python3 counters.py --llmprof llmprof --out DIR [--launches 120] [--override KEY=VALUE ...]

Both are timed from starting ncu to the CSV pages written, with loading the model. Needs a GPU whose counters may be read, nsys,
ncu, torch and transformers. Prints one JSON object, and a line for each.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import time

MODEL = ["model=qwen2_5_0_5b", "model.load_format=dummy"]

# The same model and batch without llmprof: a prompt of 128 tokens, then decode steps inside a range.
PROGRAM = """
import sys
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

config = Qwen2Config(hidden_size=896, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2,
                     intermediate_size=4864, vocab_size=151936, tie_word_embeddings=True)
torch.manual_seed(0)
torch.set_default_dtype(torch.bfloat16)
with torch.device("cuda"):
    model = Qwen2ForCausalLM(config).eval()
with torch.no_grad():
    for is_watched in (False, True):
        out = model(input_ids=torch.randint(0, 1000, (1, 128), device="cuda"), use_cache=True)
        if is_watched:
            torch.cuda.nvtx.range_push("decode")
        for _ in range(3):
            token = out.logits[:, -1:].argmax(-1)
            out = model(input_ids=token, past_key_values=out.past_key_values, use_cache=True)
        if is_watched:
            torch.cuda.nvtx.range_pop()
        torch.cuda.synchronize()
"""


def planned(arguments):
    """One run of llmprof; what it says of its counters."""
    directory = arguments.out / "planned"
    shutil.rmtree(directory, ignore_errors=True)
    command = [arguments.llmprof, "run", "+preset=stage2", "runtime=pytorch", *MODEL, *arguments.override,
               f"hydra.run.dir={directory}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    issues = json.loads((directory / "run.json").read_text())["issues"]
    covered = [issue["values"] for issue in issues if issue["code"] == "ncu.covered"]
    if not covered:
        sys.exit(f"llmprof collected no counters: {[issue['code'] for issue in issues]}")
    return {"seconds": float(covered[0]["seconds"]), "launches": int(covered[0]["launches"]), "share": covered[0]["share"]}


def full(arguments):
    """ncu with everything, launch after launch."""
    program = arguments.out / "program.py"
    program.write_text(PROGRAM)
    report = arguments.out / "full"
    started = time.monotonic()
    subprocess.run(["ncu", "--set", "full", "--clock-control", "none", "--nvtx", "--nvtx-include", "decode/",
                    "--launch-count", str(arguments.launches), "--force-overwrite", "--export", str(report),
                    sys.executable, str(program)], check=True, stdout=subprocess.DEVNULL)
    for page in ("raw", "details"):
        with open(arguments.out / f"full_{page}.csv", "wb") as file:
            subprocess.run(["ncu", "--import", f"{report}.ncu-rep", "--page", page, "--csv"], check=True, stdout=file)
    return {"seconds": time.monotonic() - started, "launches": arguments.launches}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llmprof", default="llmprof")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--launches", type=int, default=120, help="consecutive launches of `ncu --set full`")
    parser.add_argument("--override", action="append", default=[], help="for the run of llmprof, repeatable")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    plan, whole = planned(arguments), full(arguments)
    print(f"planned: {plan['launches']} launches stand for {plan['share']} of decode, {plan['seconds']:.1f} s from starting ncu to CSV")
    print(f"ncu --set full: {whole['launches']} consecutive launches, {whole['seconds']:.1f} s from starting ncu to CSV")
    print(json.dumps({"planned": plan, "full": whole}))


if __name__ == "__main__":
    main()
