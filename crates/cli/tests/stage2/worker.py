"""A worker that knows no model and writes down what it is asked, one line of JSON each, to `STANDIN_ASKED`. Under the stand-in for
ncu, what that prints of twelve launches comes while a batch runs."""

import json
import os
import socket
import sys
import time

import launches

connection = socket.socket(socket.AF_UNIX)
connection.connect(os.environ["LLMPROF_WORKER_SOCKET"])
stream = connection.makefile("rw", encoding="utf-8", newline="\n")
now = time.monotonic_ns
logging = ("CUBLAS_LOGINFO_DBG", "CUBLAS_LOGDEST_DBG", "CUBLASLT_LOG_LEVEL", "CUBLASLT_LOG_FILE")


def write_down(kind, request):
    asked = {"tool": os.environ.get("STANDIN_TOOL"), "kind": kind, "request": request,
             "logging": {name: os.environ[name] for name in logging if name in os.environ},
             "secret": "DATABASE_PASSWORD" in os.environ}
    with open(os.environ["STANDIN_ASKED"], "a", encoding="utf-8") as file:
        file.write(json.dumps(asked) + "\n")


def hello(_):
    return {"version": 1, "runtime": "pytorch", "runtime_version": "1", "pid": os.getpid(), "monotonic_ns": now()}


def load(_):
    return {"start_ns": now(), "end_ns": now(), "dtype": "bf16", "parameters": 1, "weight_bytes": 2, "vocab_size": 1,
            "tokenizer": False}


def generate(batch):
    start = now()
    if os.environ.get("STANDIN_TOOL") == "ncu" and batch.get("instruments", {}).get("cuda_profiler"):
        launches.show(sys.stdout, 12, 0.002)
    results = []
    for request in batch["requests"]:
        times = [now() for _ in range(request["max_new_tokens"])]
        results.append({"id": request["id"], "prompt_tokens": len(request["prompt"]["tokens"]), "start_ns": start,
                        "output_tokens": [0] * len(times), "token_ns": times, "finish": "length"})
    first, end = results[0]["token_ns"][0], now()
    return {"start_ns": start, "end_ns": end, "requests": results,
            "phases": [{"phase": "prefill", "start_ns": start, "end_ns": first},
                       {"phase": "decode", "start_ns": first, "end_ns": end}]}


steps = {"hello": hello, "load": load, "warm_up": generate, "generate": generate, "bye": lambda _: {}}
for line in stream:
    [(kind, request)] = json.loads(line).items()
    write_down(kind, request)
    stream.write(json.dumps({kind: steps[kind](request)}) + "\n")
    stream.flush()
    if kind == "bye":
        break
