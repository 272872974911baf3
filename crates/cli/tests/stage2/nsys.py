"""A stand-in for `nsys`: it runs what it is given, keeps the environment that it finds as the real one does, and exports what was
recorded on an H200. `STANDIN_NSYS=fails` lets it end without a report."""

import gzip
import os
import pathlib
import shutil
import subprocess
import sys

recorded = pathlib.Path(os.environ["STANDIN_FIXTURES"])
words = sys.argv[1:]


def after(option):
    return words[words.index(option) + 1]


if words == ["--version"]:
    print("NVIDIA Nsight Systems version 2025.3.1.90-253135822126v0")
elif words[0] == "profile":
    program = words[words.index(os.environ["STANDIN_PYTHON"]):]
    code = subprocess.run(program, env={**os.environ, "STANDIN_TOOL": "nsys"}).returncode
    if os.environ.get("STANDIN_NSYS") == "fails":
        sys.exit("Error: QdstrmImporter could not be started")
    others = pathlib.Path(f"/proc/{os.getppid()}/environ").read_bytes()
    pathlib.Path(after("-o") + ".nsys-rep").write_bytes(b"QDSTRM\0" + others)
    sys.exit(code)
elif words[0] == "export":
    pathlib.Path(after("-o")).write_bytes(gzip.decompress((recorded / "stage2/run.sqlite.gz").read_bytes()))
elif words[0] == "stats":
    shutil.copy(recorded / "stage2/summary_cuda_gpu_kern_sum.csv", after("-o") + "_cuda_gpu_kern_sum.csv")
else:
    sys.exit(f"no such command: {words}")
