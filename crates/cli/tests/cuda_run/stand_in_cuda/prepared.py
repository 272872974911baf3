"""Workers that need not start: one process imports what every worker imports, and each worker is a fork of it.

`python prepared.py SOCKET` is that process; it says `ready`, and ends with its standard input. `python prepared.py SOCKET ARGUMENT…`
stands for an interpreter: a fork gets its arguments, environment, folder and standard files, and it ends as the fork does.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
from typing import Any

LARGEST_MESSAGE = 1 << 20


def serve(path: str) -> None:
    import machine  # noqa: F401
    from transformers import AutoModelForCausalLM, Qwen2ForCausalLM  # noqa: F401

    # Collecting what was imported is most of what a fork would do at its end.
    gc.freeze()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen()
    # Nobody asks how keepers end.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("ready", flush=True)
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            keep(connection)
            return
        connection.close()


def keep(connection: socket.socket) -> None:
    """Starts the worker that is asked for, and tells how it ended; ends it where nobody waits for that."""
    message, files, _, _ = socket.recv_fds(connection, LARGEST_MESSAGE, 3)
    asked = json.loads(message)
    worker = os.fork()
    if worker == 0:
        connection.close()
        work(asked, files)
        return
    for file in files:
        os.close(file)
    while True:
        ended, status = os.waitpid(worker, os.WNOHANG)
        if ended:
            with contextlib.suppress(BrokenPipeError):
                connection.send(str(status).encode())
            return
        if select.select([connection], [], [], 0.01)[0]:
            os.kill(worker, signal.SIGKILL)


def work(asked: dict[str, Any], files: list[int]) -> None:
    import machine

    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    machine.run(asked["arguments"][-1])


def stand_for_interpreter(path: str, arguments: list[str]) -> None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(path)
    environment = {**os.environ, "STANDIN_PARENT": str(os.getppid())}
    asked = {"arguments": arguments, "environment": environment, "folder": os.getcwd()}
    socket.send_fds(connection, [json.dumps(asked).encode()], [0, 1, 2])
    status = int(connection.recv(64) or b"256")
    if os.WIFSIGNALED(status):
        os.kill(os.getpid(), os.WTERMSIG(status))
    sys.exit(os.WEXITSTATUS(status))


if __name__ == "__main__":
    if len(sys.argv) == 2:
        serve(sys.argv[1])
    else:
        stand_for_interpreter(sys.argv[1], sys.argv[2:])
