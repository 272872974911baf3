"""`python -m llmprof_harness ARGUMENTS`: the binary in place of this process."""

from __future__ import annotations

import os
import sys

from .binary import BinaryNotFound, find_binary


def main() -> None:
    try:
        binary = str(find_binary())
    except BinaryNotFound as error:
        sys.exit(f"error: {error}")
    os.execv(binary, [binary, *sys.argv[1:]])


if __name__ == "__main__":
    main()
