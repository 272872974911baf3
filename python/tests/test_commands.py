from __future__ import annotations

import csv
import gzip
import shlex
from pathlib import Path

from llmprof_harness import advise_ncu_cmd, advise_nsys_cmd
from llmprof_harness.commands import NCU_METRICS


def test_nsys_records_the_whole_script_or_one_range() -> None:
    assert advise_nsys_cmd(script="serve.py", out="nsys_llm") == (
        "nsys profile --trace=cuda,nvtx,osrt --sample=none --force-overwrite=true -o nsys_llm python serve.py"
    )
    command = advise_nsys_cmd("my serve.py", extra_args=["--prompt", "a b"], nvtx_capture="e2e")
    assert shlex.split(command)[4:] == [
        "--capture-range=nvtx",
        "--nvtx-capture=e2e",
        "--capture-range-end=stop",
        "--env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0",
        "--force-overwrite=true",
        "-o",
        "nsys_llm",
        "python",
        "my serve.py",
        "--prompt",
        "a b",
    ]


def test_ncu_is_told_which_launches() -> None:
    command = shlex.split(advise_ncu_cmd("serve.py", nvtx_include="decode", kernel="gemm|attention", launch_count=20))
    text = " ".join(command)
    assert command[:5] == ["ncu", "--target-processes", "all", "--set", "full"]
    assert "--nvtx --nvtx-include decode/ --kernel-name regex:gemm|attention --launch-count 20" in text
    assert text.endswith("--force-overwrite -o ncu_llm python serve.py")


def test_metrics_are_those_that_nsight_compute_reports_on_an_h200(data: Path) -> None:
    file = data.parent.parent.parent / "fixtures/h200/ncu/decode_raw.csv.gz"
    with gzip.open(file, "rt", newline="") as rows:
        header = set(next(csv.reader(rows)))
    assert [name for name in NCU_METRICS if name not in header] == []
