"""What recording costs on a GPU, against a bare injector, torch.profiler and Nsight Systems.

    gcc -O2 -shared -fPIC -o libbare_injector.so bare_injector.c -ldl
    python3 overhead.py --library $PWD/target/release/libllmprof_inject.so --bare $PWD/libbare_injector.so --out results

(a) recording on and off in turn inside one process: ratios of neighbouring units.
(b), (c) processes in turn: plain, attached but off, recorded, in slices, bare injector; ratios of units to the plain
    process's in the same round. torch.profiler and Nsight Systems against a plain process before them.
Prints medians with 95 % intervals (bootstrap) and keeps every number in results/overhead.json.
"""

import argparse
import gzip
import json
import os
import random
import sqlite3
import statistics
import struct
import subprocess
import sys
import time
from pathlib import Path

import transformers.models.qwen2.modeling_qwen2  # noqa: F401  so that children need not

import program

HERE = Path(__file__).resolve().parent


def interval(values, draws=4000):
    random.seed(1)
    medians = sorted(statistics.median(random.choices(values, k=len(values))) for _ in range(draws))
    return statistics.median(values), medians[int(draws * 0.025)], medians[int(draws * 0.975)]


class Child:
    """A process that runs a unit when asked."""

    def __init__(self, work, environment):
        sys.stdout.flush()
        commands, self.ask = os.pipe()
        self.answers, answers = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.close(self.ask)
            os.environ.update(environment)
            cores = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, cores[2:6] or cores)
            model = program.build("0.5b")
            unit = program.Decode(model, ranges=True) if work == "decode" else program.Graph(model)
            for _ in range(2):
                program.timed(unit)
            os.write(answers, b"0\n")
            while os.read(commands, 1) == b"u":
                os.write(answers, f"{program.timed(unit)}\n".encode())
            sys.exit(0)
        os.close(commands)
        os.close(answers)

    def read(self):
        return float(os.read(self.answers, 64))

    def unit(self):
        os.write(self.ask, b"u")
        return self.read()

    def end(self):
        os.write(self.ask, b"q")
        os.close(self.ask)
        os.waitpid(self.process, 0)
        os.close(self.answers)


class Bench:
    def __init__(self, arguments):
        self.arguments = arguments
        self.out = Path(arguments.out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.results = {}
        self.deadline = time.monotonic() + arguments.limit

    def run(self, name, words, environment=None):
        """Runs the program in a child; what it measured, or None where there is no time left or it failed.

        The child is forked from a process that has imported torch and not touched CUDA: imports take longer than what
        is measured. The driver and NVTX read the environment when the child first uses them.
        """
        if time.monotonic() > self.deadline:
            return None
        started = time.monotonic()
        answer = self.out / "answer.json"
        answer.unlink(missing_ok=True)
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            os.environ.update(environment or {})
            answer.write_text(json.dumps(program.main(words)))
            sys.exit(0)
        os.waitpid(child, 0)
        print(f"  {name}: {time.monotonic() - started:.1f} s", flush=True)
        return json.loads(answer.read_text()) if answer.is_file() else None

    def record(self, name, options="", range_name=None):
        """The environment that `llmprof record` sets."""
        folder = self.out / name
        subprocess.run(["rm", "-rf", str(folder)], check=True)
        folder.mkdir()
        environment = {
            "PYTHONWARNINGS": "ignore",
            "CUDA_INJECTION64_PATH": self.arguments.library,
            "NVTX_INJECTION64_PATH": self.arguments.library,
            "LLMPROF_WIRE_DIR": str(folder),
            "LLMPROF_CAPTURE": f"{options} {self.arguments.options}",
        }
        if range_name:
            environment["LLMPROF_NVTX_RANGE"] = range_name
        return environment

    def pairs(self, label, words):
        """(a): every second unit is inside the range that is recorded."""
        result = self.run(label, [*words, "--gate", "on"], self.record("gated", range_name="on"))
        if result is None:
            return
        for work in ("decode", "prefill", "graph"):
            units = result.get(work)
            if not units:
                continue
            # Each recorded unit against the mean of the plain ones around it: hosts drift.
            plain = units[1::2]
            ratios = [on / ((plain[i - 1] + plain[i]) / 2) for i, on in enumerate(units[0::2]) if 0 < i < len(plain)]
            median, low, high = interval(ratios)
            self.results[f"{label} {work}: on/off in one process"] = dict(pairs=len(ratios), median=median, low=low, high=high)
            print(f"(a) {label} {work}: {median:.4f} ({low:.4f} to {high:.4f}), {len(ratios)} pairs", flush=True)

    def processes(self, work, names, generations, rounds):
        """(b), (c): one process of each kind at a time, all on the same cores, which run a unit each in turn.

        A host changes its speed within seconds, so that processes one after the other would compare the seconds. Several
        generations of processes, since two processes of one program differ too.
        """
        bare = {"CUDA_INJECTION64_PATH": self.arguments.bare, "BARE_OUTPUT": str(self.out / "bare.bin")}
        kinds = {
            "plain": lambda: {},
            "attached, off": lambda: self.record("off", range_name="never"),
            "recorded": lambda: self.record("full"),
            "bare injector": lambda: bare,
            "slices, 2 %": lambda: self.record("budget", "overhead_ppm=20000"),
        }
        times = {name: [] for name in names}
        for generation in range(generations):
            if time.monotonic() > self.deadline:
                break
            children = {name: Child(work, kinds[name]()) for name in names}
            for child in children.values():
                child.read()
            for turn in range(rounds):
                order = list(names)
                random.Random(generation * 1000 + turn).shuffle(order)
                for name in order:
                    times[name].append(children[name].unit())
            for child in children.values():
                child.end()
        self.results[f"{work}: seconds of a unit"] = times
        self.table(work, times)

    def others(self):
        """torch.profiler and Nsight Systems: a process each, against a plain one before it."""
        words = ["--work", "decode", "--units", "3", "--steps"]
        times = {"plain": [], "torch.profiler": []}
        for _ in range(2):
            for name, more in (("plain", []), ("torch.profiler", ["--profiler", str(self.out / "kineto.json")])):
                result = self.run(name, [*words, *more])
                times[name].append(statistics.median(result["decode"]) if result else None)
        if self.arguments.nsys and time.monotonic() < self.deadline:
            report = self.out / "report"
            command = [self.arguments.nsys, "profile", "-t", "cuda,nvtx", "-o", str(report), "-f", "true", "-s", "none", "--cpuctxsw=none"]
            command += [sys.executable, str(HERE / "program.py"), *words]
            done = subprocess.run(command, capture_output=True, text=True)
            lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
            print(f"  nsys: {done.returncode} {done.stderr[-300:] if not lines else ''}", flush=True)
            times["nsys -t cuda,nvtx"] = [statistics.median(json.loads(lines[-1])["decode"]) if lines else None]
        self.results["other tools: seconds of a unit"] = times
        self.table("decode", times)

    def table(self, work, times):
        for against in ("plain", "bare injector"):
            for name, values in times.items():
                ratios = [value / base for value, base in zip(values, times.get(against, [])) if value and base]
                if name == against or not ratios or (against != "plain" and name != "recorded"):
                    continue
                median, low, high = interval(ratios)
                self.results[f"{work}: {name} / {against}"] = dict(pairs=len(ratios), median=median, low=low, high=high)
                print(f"{work}: {name} / {against}: {median:.4f} ({low:.4f} to {high:.4f}), {len(ratios)} pairs", flush=True)

    def agreement(self):
        """Kernel time per decode step by three tools on the same program."""
        self.run("recorded", ["--work", "decode", "--units", "3", "--steps"], self.record("steps"))
        found = {"llmprof": wire_steps(self.out / "steps")}
        trace = self.out / "kineto.json"
        if trace.is_file():
            found["Kineto"] = kineto_steps(trace)
        if self.arguments.nsys and (self.out / "report.nsys-rep").is_file():
            subprocess.run([self.arguments.nsys, "export", "-t", "sqlite", "-f", "true", "-o", str(self.out / "report.sqlite"), str(self.out / "report.nsys-rep")], capture_output=True)
            found["nsys"] = nsys_steps(self.out / "report.sqlite")
        for name, steps in found.items():
            if steps:
                kernels = statistics.mean(count for count, _ in steps)
                busy = statistics.mean(busy for _, busy in steps)
                self.results[f"kernels by {name}"] = dict(steps=len(steps), kernels_a_step=kernels, ns_a_step=busy)
                print(f"{name}: {len(steps)} steps, {kernels:.1f} kernels and {busy / 1e3:.1f} us a step", flush=True)


def wire_steps(folder):
    """Kernels and their time by decode step: by the call that launched each."""
    steps, calls, kernels, open_ranges = [], {}, [], {}
    for path in sorted(folder.glob("*.wire")):
        data, at = path.read_bytes(), 48
        while at + 8 <= len(data):
            length, kind, _ = struct.unpack_from("<IHH", data, at)
            body = at + 8
            if kind == 12:
                moment, thread, domain = struct.unpack_from("<qII", data, body)
                open_ranges.setdefault((thread, domain), []).append((moment, data[body + 16 : at + length]))
            elif kind == 13:
                moment, thread, domain = struct.unpack_from("<qII", data, body)
                start, name = open_ranges[(thread, domain)].pop()
                if name == b"decode_step":
                    steps.append((start, moment))
            elif kind == 9:
                start, _, _, _, correlation = struct.unpack_from("<qqIII", data, body)
                calls[correlation] = start
            elif kind == 5:
                start, end, _, _, _, _, _, correlation = struct.unpack_from("<qqQIIIII", data, body)
                kernels.append((correlation, end - start))
            at += length
    return by_step(steps, [(calls.get(correlation), duration) for correlation, duration in kernels])


def by_step(steps, kernels):
    import bisect

    steps.sort()
    starts = [start for start, _ in steps]
    sums = [[0, 0] for _ in steps]
    for launched, duration in kernels:
        if launched is None:
            continue
        index = bisect.bisect_right(starts, launched) - 1
        if index >= 0 and launched <= steps[index][1]:
            sums[index][0] += 1
            sums[index][1] += duration
    return [tuple(total) for total in sums if total[0]]


def kineto_steps(path):
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "rt") as file:
        events = json.load(file)["traceEvents"]
    steps = [(event["ts"], event["ts"] + event["dur"]) for event in events if event.get("name") == "decode_step" and event.get("cat") == "user_annotation"]
    calls = {event["args"]["correlation"]: event["ts"] for event in events if event.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in event.get("args", {})}
    kernels = [(calls.get(event["args"]["correlation"]), event["dur"] * 1000) for event in events if event.get("cat") == "kernel"]
    return by_step(steps, kernels)


def nsys_steps(path):
    if not path.is_file():
        return []
    base = sqlite3.connect(path)
    steps = base.execute("SELECT start, end FROM NVTX_EVENTS LEFT JOIN StringIds ON textId = StringIds.id WHERE coalesce(text, value) = 'decode_step' AND end IS NOT NULL").fetchall()
    kernels = base.execute("SELECT r.start, k.end - k.start FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId").fetchall()
    return by_step(steps, kernels)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--bare", required=True)
    parser.add_argument("--nsys")
    parser.add_argument("--out", required=True)
    parser.add_argument("--options", default="", help="more for LLMPROF_CAPTURE")
    parser.add_argument("--generations", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--limit", type=float, default=1e9, help="begin nothing new after so many seconds")
    arguments = parser.parse_args()
    bench = Bench(arguments)
    for part in (
        lambda: bench.pairs("0.5b", ["--work", "decode,graph", "--units", "49", "--tokens", "8"]),
        lambda: bench.pairs("7b", ["--model", "7b", "--work", "prefill,graph", "--units", "45", "--prompt", "1024"]),
        lambda: bench.processes("decode", ["plain", "attached, off", "recorded", "bare injector", "slices, 2 %"], arguments.generations, arguments.rounds),
        lambda: bench.processes("graph", ["plain", "recorded", "bare injector"], arguments.generations, arguments.rounds),
        bench.others,
        bench.agreement,
    ):
        part()
        (bench.out / "overhead.json").write_text(json.dumps(bench.results, indent=1))


if __name__ == "__main__":
    main()
