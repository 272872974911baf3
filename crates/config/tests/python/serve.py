"""The real Hydra behind a pipe: answers one JSON line for each JSON line.

`{"generate": N}` makes random case N of the seed and runs it: `{"case": …, "features": […], "result": …}`.
`{"run": case}` runs a case that the other side made, such as a smaller form of one that disagreed.
A case is `{"files": {path: text}, "args": […], "env": {…}, "kind": null | "jobs"}`.
"""

import argparse
import json
import shutil
import sys
import tempfile

import generate
import oracle


def run(case, temporary):
    root = oracle.root_in(temporary)
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    for path, text in case["files"].items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
    return oracle.run(root, list(case["args"]), case["env"], case["kind"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", required=True)
    options = parser.parse_args()
    oracle.install()
    # Deep recursion in Hydra is a rejection; the default limit makes it a slow one.
    sys.setrecursionlimit(600)
    answers = sys.stdout
    with tempfile.TemporaryDirectory(prefix="hydra-") as temporary:
        for line in sys.stdin:
            request = json.loads(line)
            if "generate" in request:
                case, features = generate.case(options.seed, request["generate"])
                answer = {"case": case, "features": features, "result": run(case, temporary)}
            else:
                answer = {"result": run(request["run"], temporary)}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
