"""Writes the expectations of the corpus with the real hydra-core.

    .venv/bin/python crates/config/tests/python/regenerate.py [--check] [--subprocess N] [AREA[/CASE] ...]

`--check` changes nothing and fails when a file would change. `--subprocess N` runs every Nth `--cfg`, `--info` and
`-m` case a second time as a separate `python app.py` with the public `@hydra.main`, and fails when it disagrees with
the in-process run (cases that read the clock or depend on the environment of this process excepted).
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import oracle

CORPUS = Path(__file__).resolve().parent.parent / "corpus"
APPLICATION = """import hydra

@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def main(config):
    pass

main()
"""


def render(result):
    """(file name, text) of an outcome."""
    if "stdout" in result:
        return "expected.txt", result["stdout"]
    if "jobs" in result:
        return "expected.jobs", "".join(json.dumps(job, ensure_ascii=False) + "\n" for job in result["jobs"])
    if "files" in result:
        return "expected.files", "".join(f"=== {path}\n{text}" for path, text in result["files"].items())
    error = result["error"]
    return "expected.error", " <- ".join(error["chain"]) + "\n" + error["message"] + "\n"


def copy_of(folder, parent):
    """A fresh copy of the application of a case."""
    root = oracle.root_in(parent)
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(folder, root, ignore=shutil.ignore_patterns("case.json", "expected.*"))
    return root


def disagrees_with_application(root, args, env, result):
    """Runs the public `@hydra.main` in its own process; a reason when it gives another result."""
    (root / "app.py").write_text(APPLICATION)
    before = set(root.rglob("*"))
    environment = {**oracle.ENVIRONMENT, **env, "PATH": os.environ["PATH"], "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, "app.py", *args], cwd=root, env=environment, capture_output=True, text=True)
    if "error" in result:
        return None if done.returncode != 0 else "the application accepts it"
    if done.returncode != 0:
        return f"the application fails: {done.stderr}"
    if "stdout" in result:
        text = done.stdout.replace(os.path.realpath(root), oracle.ROOT_TOKEN)
        return None if text == result["stdout"] else f"the application prints\n{text}"
    files = oracle.written_files(os.path.realpath(root), before)
    return None if files == result["files"] else f"the application writes\n{files}"


def reads_clock(result):
    return f"{oracle.NOW:%Y-%m-%d}" in json.dumps(result)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--subprocess", type=int, default=0, metavar="N")
    parser.add_argument("only", nargs="*")
    options = parser.parse_args()
    oracle.install()
    counts, stale, wrong = {}, [], []
    folders = sorted(path.parent for path in CORPUS.glob("*/*/case.json"))
    with tempfile.TemporaryDirectory(prefix="corpus-") as temporary:
        for number, folder in enumerate(folders):
            name = str(folder.relative_to(CORPUS))
            if options.only and not any(name == only or name.startswith(only + "/") for only in options.only):
                continue
            args, env, kind = oracle.read_case(folder)
            result = oracle.run(copy_of(folder, temporary), list(args), env, kind)
            file, text = render(result)
            counts[file] = counts.get(file, 0) + 1
            for old in folder.glob("expected.*"):
                if old.name != file:
                    stale.append(name)
                    if not options.check:
                        old.unlink()
            target = folder / file
            if not target.exists() or target.read_text() != text:
                stale.append(name)
                if not options.check:
                    target.write_text(text)
            if options.subprocess and kind is None and number % options.subprocess == 0 and not reads_clock(result):
                reason = disagrees_with_application(copy_of(folder, temporary), args, env, result)
                if reason:
                    wrong.append(f"{name}: {reason}")
    print(f"{sum(counts.values())} cases: {counts}; {len(set(stale))} {'differ' if options.check else 'written'}")
    for line in wrong + (sorted(set(stale)) if options.check else []):
        print(line)
    return 1 if wrong or (options.check and stale) else 0


if __name__ == "__main__":
    sys.exit(main())
