"""Threads that launch while CUPTI comes and goes as often as it can: does the program still compute what it should?

    python3 come_and_go.py --library $PWD/target/release/libllmprof_inject.so [--seconds 15]

Four threads, each with a stream of its own, add, multiply, copy and wait, and check every result. Once without graphs, where
CUPTI leaves after every slice; once with a graph that is captured while a slice is on or off, or CUPTI out, as it comes, after
which it must stay. Prints what each process says of itself, and fails where one fails.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import records


def launch(number, until, failures, graphs):
    import torch

    stream = torch.cuda.Stream()
    rounds = 0
    with torch.cuda.stream(stream):
        value = torch.zeros(1024, device="cuda")
        matrix = torch.eye(256, device="cuda") * 2
        graph, counter = None, torch.zeros(1, device="cuda")
        stream.synchronize()
        while time.monotonic() < until and not failures:
            rounds += 1
            value.zero_()
            for _ in range(100):
                value.add_(1)
            product = matrix @ matrix
            total = value.sum().item()
            corner = product[0, 0].item()
            if (total, corner) != (102400.0, 4.0):
                failures.append(f"thread {number}, round {rounds}: {total}, {corner}")
            if graphs and graph is None and rounds == 200 * (number + 1):
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
                    for _ in range(50):
                        counter.add_(1)
            if graph is not None:
                counter.zero_()
                graph.replay()
                if counter.item() != 50.0:
                    failures.append(f"thread {number}, round {rounds}: a graph gave {counter.item()}")
    return rounds


def program(seconds, graphs):
    failures, rounds = [], []
    until = time.monotonic() + seconds
    # One thread of several may capture, since graphs of one process share memory.
    work = [lambda number=number: rounds.append(launch(number, until, failures, graphs and number == 0)) for number in range(4)]
    threads = [threading.Thread(target=one) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({"rounds": rounds, "failures": failures[:3]}))
    return 1 if failures or len(rounds) != 4 else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", default="")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--program", choices=["eager", "graphs"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.program:
        return program(arguments.seconds, arguments.program == "graphs")
    status = 0
    for kind in ("eager", "graphs"):
        folder = Path(tempfile.mkdtemp())
        environment = {
            **os.environ,
            "CUDA_INJECTION64_PATH": arguments.library,
            "NVTX_INJECTION64_PATH": arguments.library,
            "LLMPROF_WIRE_DIR": str(folder),
            "LLMPROF_CAPTURE": "overhead_ppm=500000 detach=on",
        }
        command = [sys.executable, __file__, "--program", kind, "--seconds", str(arguments.seconds)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        print(f"{kind}: exit code {done.returncode}, {done.stdout.strip()} {done.stderr[-500:] if done.returncode else ''}")
        print(f"  {json.dumps(records.summary(folder))}", flush=True)
        status |= done.returncode != 0
    return status


if __name__ == "__main__":
    sys.exit(main())
