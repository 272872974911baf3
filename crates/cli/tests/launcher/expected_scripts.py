"""Writes expected_*.sh, what hydra-submitit-launcher 1.2 and submitit 1.5.4 hand to sbatch for sets of keys, and expected_*.yaml, the keys
that the plugin has.

    python -m venv V && V/bin/pip install hydra-core==1.3.2 hydra-submitit-launcher==1.2.0 submitit==1.5.4
    V/bin/python crates/cli/tests/launcher/expected_scripts.py

The command at the end of the script is Python's; it is written as COMMAND. The sweep directory is written as SWEEP.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
APP = """
import hydra
@hydra.main(version_base="1.3", config_path=None)
def app(cfg): pass
app()
"""


def keys(launcher: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "app.py").write_text(APP)
        command = [sys.executable, "app.py", f"hydra/launcher={launcher}", "--cfg", "hydra", "-p", "hydra.launcher"]
        text = subprocess.run(command, cwd=folder, capture_output=True, check=True, text=True).stdout
    (HERE / f"expected_{launcher}.yaml").write_text(text)


def main() -> None:
    for launcher in ("submitit_local", "submitit_slurm"):
        keys(launcher)
    for line in (HERE / "cases.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        name, *overrides = line.split("\t")
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder).resolve()
            (root / "app.py").write_text(APP)
            tools = root / "bin"
            tools.mkdir()
            for tool in ("sbatch", "srun", "sacct"):
                (tools / tool).write_text(f'#!/bin/sh\n[ {tool} = sbatch ] && cat "$1" > {root}/script && echo "Submitted batch job 77"\nexit 0\n')
                (tools / tool).chmod(0o755)
            sweep = root / "sweep"
            command = [sys.executable, "app.py", "-m", "hydra/launcher=submitit_slurm", f"hydra.sweep.dir={sweep}", "hydra.job.name=app", *overrides]
            environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
            # The launcher waits for results that no job will write.
            try:
                subprocess.run(command, cwd=root, env=environment, timeout=20, capture_output=True, check=False)
            except subprocess.TimeoutExpired:
                pass
            text = (root / "script").read_text()
        python = f"{sys.executable} -u -m submitit.core._submit {sweep}/.submitit/%j"
        assert text.count(python) == 1, text
        (HERE / f"expected_{name}.sh").write_text(text.replace(python, "COMMAND").replace(str(sweep), "SWEEP"))


main()
