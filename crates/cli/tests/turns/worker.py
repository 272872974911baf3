"""A worker whose decode steps take a known time: `worker.py SIDE usSTEP noiseSHARE`.

Every run of a side is slower or faster than STEP µs by its own part of SHARE, so that rounds differ in a known way. The times are stated, not
measured: what else runs on the machine does not change them. `order.txt` gets a line per run.
"""

import json, os, socket, sys, time

SHARES = [0.2, -0.7, 0.5, -0.1, 0.9, -0.4, 0.0, -0.9]
side = sys.argv[1]
step_us, noise = float(sys.argv[2].removeprefix("us")), float(sys.argv[3].removeprefix("noise"))
with open("order.txt", "a+") as order:
    order.write(side + "\n")
    order.seek(0)
    number = order.read().count(side)
# The sides do not meet the same share in the same round.
share = SHARES[(number + 3 * (side == "B")) % len(SHARES)]
step = int(step_us * 1000 * (1 + noise * share))

now = time.monotonic_ns
connection = socket.socket(socket.AF_UNIX)
connection.connect(os.environ["LLMPROF_WORKER_SOCKET"])
stream = connection.makefile("rw", encoding="utf-8", newline="\n")


def hello(_):
    return {"version": 1, "runtime": "known", "runtime_version": "1", "pid": os.getpid(), "monotonic_ns": now()}


def load(_):
    start = now()
    return {"start_ns": start, "end_ns": now(), "dtype": "f32", "parameters": 0, "weight_bytes": 0, "vocab_size": 96,
            "tokenizer": False}


def generate(batch):
    start, results = now(), []
    for request in batch["requests"]:
        count = request["max_new_tokens"]
        times = [start + (place + 1) * step for place in range(count)]
        results.append({"id": request["id"], "prompt_tokens": len(request["prompt"]["tokens"]), "start_ns": start,
                        "output_tokens": [0] * count, "token_ns": times, "finish": "length"})
    middle, end = results[0]["token_ns"][0], results[0]["token_ns"][-1]
    while now() < end:
        time.sleep(max(0, end - now()) / 1e9)
    return {"start_ns": start, "end_ns": end, "requests": results,
            "phases": [{"phase": "prefill", "start_ns": start, "end_ns": middle},
                       {"phase": "decode", "start_ns": middle, "end_ns": end}]}


steps = {"hello": hello, "load": load, "warm_up": generate, "generate": generate, "bye": lambda _: {}}
for line in stream:
    [(kind, request)] = json.loads(line).items()
    stream.write(json.dumps({kind: steps[kind](request)}) + "\n")
    stream.flush()
    if kind == "bye":
        break
