"""A stand-in for `ncu`: it runs what it is given, and its report is one of an H200. `STANDIN_NCU=denied` lets it end as where
counters are forbidden."""

import gzip
import os
import pathlib
import subprocess
import sys

recorded = pathlib.Path(os.environ["STANDIN_FIXTURES"])
words = sys.argv[1:]
SECTIONS = ["ComputeWorkloadAnalysis", "LaunchStats", "MemoryWorkloadAnalysis", "Occupancy", "SpeedOfLight", "WarpStateStats"]


def after(option):
    return words[words.index(option) + 1]


if words == ["--version"]:
    print("NVIDIA (R) Nsight Compute Command Line Profiler\nVersion 2025.3.1.0 (build 36398880) (public-release)")
elif words == ["--list-sections"]:
    print("---- ----\nIdentifier  Display Name\n---- ----")
    print("\n".join(f"{name}   {name}  yes  {name}.section" for name in SECTIONS))
elif words == ["--query-metrics"]:
    print("Device NVIDIA H200 (GH100)\n---- ----\ndram__bytes_read   Counter  byte\n")
elif words[0] == "--import":
    sys.stdout.buffer.write(gzip.decompress((recorded / f"ncu/decode_{after('--page')}.csv.gz").read_bytes()))
else:
    program = words[words.index(os.environ["STANDIN_PYTHON"]):]
    code = subprocess.run(program, env={**os.environ, "STANDIN_TOOL": "ncu"}).returncode
    if os.environ.get("STANDIN_NCU") == "denied":
        print("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters")
        sys.exit(1)
    others = pathlib.Path(f"/proc/{os.getppid()}/environ").read_bytes()
    report = gzip.decompress((recorded / "ncu/decode_12.ncu-rep.gz").read_bytes())
    path = pathlib.Path(after("--export") + ".ncu-rep")
    path.write_bytes(report)
    path.with_suffix(".found").write_bytes(others)
    sys.exit(code)
