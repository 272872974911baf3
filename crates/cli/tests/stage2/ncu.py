"""A stand-in for `ncu`: it runs what it is given, and its report is one of an H200. `STANDIN_NCU=denied` lets it end as where
counters are forbidden, `exits` with an exit code, `empty` with a report that cannot be read; `STANDIN_NCU=blackwell` names counters as that chip does, and `STANDIN_PRINTS` names the stream on which it
shows how far it has come with a program that is not the worker."""

import gzip
import os
import pathlib
import subprocess
import sys
import time

import launches

recorded = pathlib.Path(os.environ["STANDIN_FIXTURES"])
words = sys.argv[1:]
SECTIONS = ["ComputeWorkloadAnalysis", "LaunchStats", "MemoryWorkloadAnalysis", "Occupancy", "SpeedOfLight", "WarpStateStats"]
DRAM = "dram__bytes_op_" if os.environ.get("STANDIN_NCU") == "blackwell" else "dram__bytes_"


def after(option):
    return words[words.index(option) + 1]


if words == ["--version"]:
    print("NVIDIA (R) Nsight Compute Command Line Profiler\nVersion 2025.3.1.0 (build 36398880) (public-release)")
elif words == ["--list-sections"]:
    print("---- ----\nIdentifier  Display Name\n---- ----")
    print("\n".join(f"{name}   {name}  yes  {name}.section" for name in SECTIONS))
elif words == ["--list-sets"]:
    print("---------- --------\nIdentifier Sections                     Enabled Estimated Metrics\n---------- --------")
    print("basic      LaunchStats, Occupancy,      yes     213\n           SpeedOfLight")
    print("roofline   SpeedOfLight                 no      6679")
elif words == ["--query-metrics"]:
    print(f"Device NVIDIA H200 (GH100)\n---- ----\n{DRAM}read   Counter  byte\n{DRAM}write   Counter  byte\n")
elif words[0] == "--import":
    sys.stdout.buffer.write(gzip.decompress((recorded / f"ncu/decode_{after('--page')}.csv.gz").read_bytes()))
else:
    program = words[words.index(os.environ["STANDIN_PYTHON"]):]
    code = subprocess.run(program, env={**os.environ, "STANDIN_TOOL": "ncu"}).returncode
    if "STANDIN_PRINTS" in os.environ:
        launches.show(getattr(sys, os.environ["STANDIN_PRINTS"]), 12, 0.02)
        # Long enough for whoever looks at it to see the last one.
        time.sleep(1)
    if os.environ.get("STANDIN_NCU") == "denied":
        print("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters")
        sys.exit(1)
    others = pathlib.Path(f"/proc/{os.getppid()}/environ").read_bytes()
    report = gzip.decompress((recorded / "ncu/decode_12.ncu-rep.gz").read_bytes())
    path = pathlib.Path(after("--export") + ".ncu-rep")
    path.write_bytes(report)
    path.with_suffix(".found").write_bytes(others)
    if os.environ.get("STANDIN_NCU") == "empty":
        path.write_bytes(b"NVR\0" + others)
    if os.environ.get("STANDIN_NCU") == "exits":
        print("==ERROR== The application returned an error code (11).")
        sys.exit(11)
    sys.exit(code)
