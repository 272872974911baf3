"""What recording costs on a GPU, against a bare injector, torch.profiler and Nsight Systems.

    gcc -O2 -shared -fPIC -o libbare_injector.so bare_injector.c -ldl
    python3 overhead.py --library $PWD/target/release/libllmprof_inject.so --bare $PWD/libbare_injector.so --out results

By default, in fifteen minutes, with processes in turn (turns.py):
  decode    eager decode: plain, attached but off, recorded, bare injector
  launches  one launch after the other: the same four
  slices    the same decode with a budget of 2 %: plain, slices, slices between which CUPTI leaves
  graph     a CUDA graph: plain, recorded, bare injector
  replays   the same graph with a budget: plain, slices of 2 %, of 5 %, recorded and stopped
  residual  decode after recording: plain, never recorded, recorded and stopped, recorded and stopped and CUPTI gone
  within    decode steps of one process with a budget: those with a slice in them against those around them
  marks     the same without ranges that would show the steps
With --parts: subscription (whether it is ours that costs: a bare injector that subscribes too), gates (recording on and off in turn inside one process), others (torch.profiler and Nsight Systems against a
plain process before them), agreement (kernels a step by all of them).
--dry runs the default parts with loops in place of models: 10 % more for what is recorded, 2 % for slices.

Prints ratios of rounds with 95 % intervals (ratios.py) and keeps every number in results/overhead.json. Slices fall into
few rounds: for them the ratio of sums is the one that counts.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import ratios
import records
import turns

HERE = Path(__file__).resolve().parent
DEFAULT = ["decode", "launches", "slices", "graph", "replays", "residual", "within", "marks"]


def cuda_unit(work):
    """Makes the unit of a child."""
    import program

    if work == "launches":
        unit = program.Launches()
        return lambda: program.timed(unit)
    model = program.build("0.5b")
    unit = program.Decode(model, tokens=3, ranges=True) if work == "decode" else program.Graph(model, replays=16)
    return lambda: program.timed(unit)


def dry_unit(name):
    """A loop that takes longer where it stands for something that is recorded."""
    extra = 1.1 if name.startswith(("recorded", "bare")) else 1.02 if name.startswith("slices") else 1.0

    def unit():
        wall, thread = time.perf_counter(), time.thread_time()
        for _ in range(int(300_000 * extra)):
            pass
        return time.perf_counter() - wall, time.thread_time() - thread

    return unit


class Bench:
    def __init__(self, arguments):
        self.arguments = arguments
        self.out = Path(arguments.out).absolute()
        self.out.mkdir(parents=True, exist_ok=True)
        self.results = {}

    def record(self, name, options="", range_name=None, control=None):
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
        if control:
            environment["LLMPROF_CONTROL"] = str(control)
        return environment

    def bare(self, **more):
        return {"CUDA_INJECTION64_PATH": self.arguments.bare, "BARE_OUTPUT": str(self.out / "bare.bin"), **more}

    def group(self, title, work, environments, seconds, generations, before=None):
        """Runs processes in turn and prints what they took against the plain one, and recorded against bare.

        `environments` makes those of a generation, by the names of its processes.
        """
        began = time.monotonic()

        def start():
            children = {}
            for name, environment in environments().items():
                unit = ["--dry-unit", name] if self.arguments.dry else ["--unit", work]
                children[name] = turns.Child([sys.executable, __file__, *unit], environment)
            return children

        times = turns.take(start, seconds, generations, self.arguments.rounds, before)
        self.results[f"{title}: wall and thread seconds of a unit"] = times
        found = ratios.table(title, times, "plain")
        for bare in ("bare injector", "bare injector, subscribed"):
            pair = {name: times[name] for name in ("recorded", bare) if name in times}
            found |= ratios.table(title, pair, bare)
        for name, row in found.items():
            self.results[name] = row
            print(ratios.line(name, row), flush=True)
        kind = "plain" if "plain" in times else "recorded"
        unit = statistics.median(wall for rounds in times[kind] for wall, _ in rounds)
        print(f"  {title}: {time.monotonic() - began:.0f} s, {unit:.3f} s a unit", flush=True)

    def tell(self, folder):
        """What a recorded process of the last generation says of itself."""
        if (self.out / folder).is_dir():
            self.results[f"records of {folder}"] = said = records.summary(self.out / folder)
            print(f"  {folder}: {json.dumps(said)}", flush=True)

    def kinds(self):
        return {
            "plain": {},
            "attached, off": self.record("off", range_name="never"),
            "recorded": self.record("full"),
            "bare injector": self.bare(),
        }

    def decode(self):
        self.group("decode", "decode", self.kinds, 90, 3)
        self.tell("full")

    def launches(self):
        self.group("launches", "launches", self.kinds, 50, 4)

    def slices(self):
        # Few processes, so that none rests for a second: then time would earn credit, and every turn have a slice.
        def kinds():
            return {
                "plain": {},
                "slices": self.record("slices", "overhead_ppm=20000 detach=on"),
                "slices, CUPTI stays": self.record("stays", "overhead_ppm=20000 detach=off"),
            }

        self.group("decode, 2 %", "decode", kinds, 100, 3)
        self.tell("slices")
        self.tell("stays")

    def graph(self):
        def kinds():
            return {
                "plain": {},
                "recorded": self.record("graph"),
                "bare injector": self.bare(),
            }

        self.group("graph", "graph", kinds, 45, 2)
        self.tell("graph")

    def replays(self):
        """One generation: slices are few. What was recorded and stopped shows what CUPTI costs by staying."""
        lines = []

        def kinds():
            path = Path(tempfile.mkdtemp()) / "stopped"
            lines.append(turns.Line(path))
            return {
                "plain": {},
                "slices of 2 %": self.record("replays2", "overhead_ppm=20000 detach=on"),
                "slices of 5 %": self.record("replays5", "overhead_ppm=50000 detach=on"),
                "recorded, stopped": self.record("replays_stopped", "detach=on", control=path),
            }

        self.group("graph, budget", "graph", kinds, 110, 1, before=lambda: self.hang_up(lines))
        for folder in ("replays2", "replays5", "replays_stopped"):
            self.tell(folder)

    def residual(self):
        """Which part keeps launches slow after recording."""
        lines = []

        def kinds():
            # Names of sockets must be short.
            folder = Path(tempfile.mkdtemp())
            paths = {name: folder / name for name in ("stopped", "left")}
            lines.extend(turns.Line(path) for path in paths.values())
            return {
                "plain": {},
                "never recorded": self.record("never", "begin=off"),
                "recorded, stopped": self.record("stopped", control=paths["stopped"]),
                "recorded, stopped, CUPTI gone": self.record("left", "detach=on", control=paths["left"]),
            }

        self.group("after recording", "decode", kinds, 60, 2, before=lambda: self.hang_up(lines))
        self.tell("stopped")
        self.tell("left")

    def hang_up(self, lines):
        """Stops recording in the processes at the other ends."""
        for line in lines:
            if not self.arguments.dry:
                line.hang_up()
            line.close()
        lines.clear()

    def within(self):
        self.steps("steps", records.PUSH, b"decode_step")

    def marks(self):
        self.steps("marks", records.MARK, b"unit")

    def steps(self, option, kind, name):
        """Processes differ by more than slices cost, and hosts change their speed by half within seconds; but steps of one process differ little from those around them."""
        if self.arguments.dry:
            return
        for percent in (2, 5):
            folder = self.out / f"{option}{percent}"
            self.run(folder.name, ["--work", "decode", "--tokens", "1", "--units", "3000", f"--{option}"], self.record(folder.name, f"overhead_ppm={percent}0000"))
            found = ratios.slices(*records.cycles(folder, kind, name))
            title = f"within {percent} %, {option}"
            self.results[title] = found
            print(f"{title}: {ratios.slices_line(found)}", flush=True)
            self.tell(folder.name)

    def subscription(self):
        def kinds():
            return {
                "recorded": self.record("full"),
                "bare injector": self.bare(),
                "bare injector, subscribed": self.bare(BARE_SUBSCRIBE="1", BARE_OUTPUT=str(self.out / "bare2.bin")),
            }

        self.group("decode", "decode", kinds, 90, 3)

    def run(self, name, words, environment=None):
        """Runs the program; what it measured, or None where it failed."""
        started = time.monotonic()
        command = [sys.executable, str(HERE / "program.py"), *words]
        done = subprocess.run(command, env={**os.environ, **(environment or {})}, capture_output=True, text=True)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        print(f"  {name}: {time.monotonic() - started:.1f} s {done.stderr[-300:] if not lines else ''}", flush=True)
        return json.loads(lines[-1]) if lines else None

    def gates(self):
        """Every second unit is inside the range that is recorded: ratios of neighbours."""
        for label, words in (
            ("0.5b", ["--work", "decode,graph", "--units", "49", "--tokens", "8"]),
            ("7b", ["--model", "7b", "--work", "prefill,graph", "--units", "45", "--prompt", "1024"]),
        ):
            result = self.run(label, [*words, "--gate", "on"], self.record("gated", range_name="on"))
            for work in ("decode", "prefill", "graph"):
                units = (result or {}).get(work)
                if not units:
                    continue
                # Each recorded unit against the mean of the plain ones around it: hosts drift.
                plain = units[1::2]
                found = [on / ((plain[i - 1] + plain[i]) / 2) for i, on in enumerate(units[0::2]) if 0 < i < len(plain)]
                median, low, high = ratios.interval(found)
                self.results[f"{label} {work}: on/off in one process"] = dict(pairs=len(found), median=median, low=low, high=high)
                print(f"{label} {work}: on/off in one process {median:.4f} ({low:.4f} to {high:.4f}), {len(found)} pairs", flush=True)

    def others(self):
        """torch.profiler and Nsight Systems: a process each, against a plain one before it."""
        words = ["--work", "decode", "--units", "3", "--steps"]
        times = {"plain": [], "torch.profiler": []}
        for _ in range(2):
            for name, more in (("plain", []), ("torch.profiler", ["--profiler", str(self.out / "kineto.json")])):
                result = self.run(name, [*words, *more])
                times[name].append(statistics.median(result["decode"]) if result else None)
        if self.arguments.nsys:
            report = self.out / "report"
            command = [self.arguments.nsys, "profile", "-t", "cuda,nvtx", "-o", str(report), "-f", "true", "-s", "none", "--cpuctxsw=none"]
            command += [sys.executable, str(HERE / "program.py"), *words]
            done = subprocess.run(command, capture_output=True, text=True)
            lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
            print(f"  nsys: {done.returncode} {done.stderr[-300:] if not lines else ''}", flush=True)
            times["nsys -t cuda,nvtx"] = [statistics.median(json.loads(lines[-1])["decode"]) if lines else None]
        self.results["other tools: seconds of a unit"] = times
        for name, values in times.items():
            pairs = [value / plain for value, plain in zip(values, times["plain"]) if value and plain]
            if name != "plain" and pairs:
                print(f"decode: {name} / plain: {', '.join(f'{pair:.2f}' for pair in pairs)}", flush=True)

    def agreement(self):
        """Kernel time per decode step by three tools on the same program."""
        self.run("recorded", ["--work", "decode", "--units", "3", "--steps"], self.record("steps"))
        found = {"llmprof": records.wire_steps(self.out / "steps")}
        trace = self.out / "kineto.json"
        if trace.is_file():
            found["Kineto"] = records.kineto_steps(trace)
        if self.arguments.nsys and (self.out / "report.nsys-rep").is_file():
            subprocess.run([self.arguments.nsys, "export", "-t", "sqlite", "-f", "true", "-o", str(self.out / "report.sqlite"), str(self.out / "report.nsys-rep")], capture_output=True)
            found["nsys"] = records.nsys_steps(self.out / "report.sqlite")
        for name, steps in found.items():
            if steps:
                kernels = statistics.mean(count for count, _ in steps)
                busy = statistics.mean(busy for _, busy in steps)
                self.results[f"kernels by {name}"] = dict(steps=len(steps), kernels_a_step=kernels, ns_a_step=busy)
                print(f"{name}: {len(steps)} steps, {kernels:.1f} kernels and {busy / 1e3:.1f} us a step", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", default="")
    parser.add_argument("--bare", default="")
    parser.add_argument("--nsys")
    parser.add_argument("--out", default="overhead")
    parser.add_argument("--parts", default=",".join(DEFAULT), help="of decode, launches, slices, graph, replays, residual, within, marks, subscription, gates, others, agreement")
    parser.add_argument("--residual", action="store_true", help="only what stays after recording")
    parser.add_argument("--options", default="", help="more for LLMPROF_CAPTURE")
    parser.add_argument("--rounds", type=int, default=1000, help="at most, in a generation")
    parser.add_argument("--dry", action="store_true", help="without a GPU, to try this script")
    parser.add_argument("--unit", help=argparse.SUPPRESS)
    parser.add_argument("--dry-unit", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.unit:
        return turns.serve(lambda: cuda_unit(arguments.unit))
    if arguments.dry_unit:
        return turns.serve(lambda: dry_unit(arguments.dry_unit))
    if not arguments.dry:
        for given in (arguments.library, arguments.bare):
            if not Path(given).is_file():
                parser.error(f"--library and --bare name files that are there: {given!r}")
    bench = Bench(arguments)
    for part in ["residual"] if arguments.residual else arguments.parts.split(","):
        try:
            getattr(bench, part)()
        except (RuntimeError, OSError):
            # The others may still tell something.
            traceback.print_exc()
        (bench.out / "overhead.json").write_text(json.dumps(bench.results, indent=1))


if __name__ == "__main__":
    main()
