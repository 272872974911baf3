"""Processes that run a unit of work when asked, in turn.

A host changes its speed by half within seconds, so that processes one after the other would compare the seconds. Here
all of a group are there at once, on the same cores, and each round asks every one for a unit of a few tenths of a second,
in an order of its own. Two processes of one program differ by some percent all their lives: there are several generations.
"""

import os
import random
import socket
import subprocess
import sys
import time


def serve(make_unit):
    """The life of a child: a unit for every line that comes in, and the seconds it took as the answer."""
    # Libraries print.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[2:6] or cores)
    unit = make_unit()
    for _ in sys.stdin:
        wall, thread = unit()
        print(f"{wall:.9f} {thread:.9f}", file=answers, flush=True)


class Child:
    """A process of its own, started anew: one that is only forked is watched more closely, since it may end at any time."""

    def __init__(self, command, environment):
        self.process = subprocess.Popen(command, env={**os.environ, **environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def begin(self):
        self.process.stdin.write("unit\n")
        self.process.stdin.flush()

    def result(self):
        words = self.process.stdout.readline().split()
        if len(words) != 2:
            raise RuntimeError("a process has ended before its time")
        return float(words[0]), float(words[1])

    def unit(self):
        self.begin()
        return self.result()

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class Line:
    """llmprof's end of the control channel: recording goes on for as long as somebody listens."""

    def __init__(self, path):
        self.path = path
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        self.listener.settimeout(60)

    def hang_up(self):
        connection, _ = self.listener.accept()
        connection.close()

    def close(self):
        self.listener.close()
        self.path.unlink(missing_ok=True)


def take(start, seconds, generations, rounds, before=None):
    """Seconds of units by name of the process: a list of generations, each a list of rounds.

    `start` starts the children of a generation. `seconds` are for everything; no generation has more than so many rounds.
    `before` is called in each, once all of its processes are warm.
    """
    until = time.monotonic() + seconds
    times = {}
    for generation in range(generations):
        began = time.monotonic()
        children = start()
        try:
            warm(children, before)
            ready = time.monotonic()
            left = generations - generation
            stop = ready + max((until - ready - (left - 1) * (ready - began)) / left, 0)
            chance = random.Random(generation)
            for name in children:
                times.setdefault(name, []).append([])
            turn = 0
            # Two rounds, however long everything took.
            while turn < 2 or (turn < rounds and time.monotonic() < stop):
                for name in chance.sample(list(children), len(children)):
                    times[name][-1].append(children[name].unit())
                turn += 1
        finally:
            for child in children.values():
                child.end()
    return times


def warm(children, before):
    # All build their models at the same time.
    for child in children.values():
        child.begin()
    for child in children.values():
        child.result()
    for child in children.values():
        child.unit()
    if before:
        before()
        for child in children.values():
            child.unit()
            child.unit()
