"""What wire files, Kineto's traces and Nsight Systems' reports say of a run."""

import bisect
import gzip
import json
import math
import sqlite3
import statistics
import struct

# Kinds of records: docs/wire-format.md.
KERNEL, CALL, PUSH, POP, MARK, CAPTURE, LOSS, REFUSED, COST, ATTACHMENT, KEPT = 5, 9, 12, 13, 16, 20, 21, 22, 25, 26, 27


def records(folder):
    """Kind, bytes of the file, where the body begins and where it ends."""
    for path in sorted(folder.glob("*.wire")):
        data, at = path.read_bytes(), 48
        while at + 8 <= len(data):
            length, kind, _ = struct.unpack_from("<IHH", data, at)
            yield kind, data, at + 8, at + length
            at += length


def summary(folder):
    """Slices, what switching took, and whether kernels have their launches, and before them, also after CUPTI was out."""
    found = {"slices": 0, "kernels": 0, "kernels_without_launch": 0, "kernels_before_launch": 0, "words": []}
    took, calls, kernels = {0: [], 1: []}, {}, []

    def settle():
        for correlation, start in kernels:
            found["kernels_without_launch"] += correlation not in calls
            # The clocks of host and device disagree.
            found["kernels_before_launch"] += start < calls.get(correlation, start)
        calls.clear()
        kernels.clear()

    for kind, data, body, end in records(folder):
        if kind == CAPTURE:
            found["slices"] += struct.unpack_from("<qB", data, body)[1]
        elif kind == KERNEL:
            found["kernels"] += 1
            fields = struct.unpack_from("<qqQIIIII", data, body)
            kernels.append((fields[7], fields[0]))
        elif kind == CALL:
            fields = struct.unpack_from("<qqIII", data, body)
            calls[fields[4]] = fields[0]
        elif kind == ATTACHMENT:
            _, nanos, on = struct.unpack_from("<qQB", data, body)
            took[on].append(nanos / 1e6)
            # Numbers may begin again.
            if not on:
                settle()
        elif kind == COST:
            values = struct.unpack_from("<6Q", data, body)
            found["switch_ms"], found["launch_cost_ns"] = values[3] / 1e6, values[4]
        elif kind in (LOSS, KEPT, REFUSED):
            skip = {LOSS: 16, KEPT: 8, REFUSED: 12}[kind]
            found["words"].append(data[body + skip : end].decode(errors="replace"))
    settle()
    for on, name in ((0, "leaving_ms"), (1, "returning_ms")):
        if took[on]:
            found[name] = dict(count=len(took[on]), median=statistics.median(took[on]), most=max(took[on]))
    return found


def wire_steps(folder):
    """Kernels and their time by decode step: by the call that launched each."""
    steps, calls, kernels, open_ranges = [], {}, [], {}
    for kind, data, body, end in records(folder):
        if kind == PUSH:
            moment, thread, domain = struct.unpack_from("<qII", data, body)
            open_ranges.setdefault((thread, domain), []).append((moment, data[body + 16 : end]))
        elif kind == POP:
            moment, thread, domain = struct.unpack_from("<qII", data, body)
            start, name = open_ranges[(thread, domain)].pop()
            if name == b"decode_step":
                steps.append((start, moment))
        elif kind == CALL:
            start, _, _, _, correlation = struct.unpack_from("<qqIII", data, body)
            calls[correlation] = start
        elif kind == KERNEL:
            start, until, _, _, _, _, _, correlation = struct.unpack_from("<qqQIIIII", data, body)
            kernels.append((correlation, until - start))
    return by_step(steps, [(calls.get(correlation), duration) for correlation, duration in kernels])


def cycles(folder, kind_of_begin, name):
    """The time from each of these ranges or marks to the next, ns, and which of them have part of a slice in them, or CUPTI coming or on its way out.

    The first steps pay what is paid once, and are left out.
    """
    begins, spans = [], []
    for kind, data, body, end in records(folder):
        if kind == kind_of_begin and data[body + 16 : end] == name:
            begins.append(struct.unpack_from("<q", data, body)[0])
        elif kind == CAPTURE:
            moment, is_on = struct.unpack_from("<qB", data, body)
            if is_on:
                # Until it is off, or the process ends.
                spans.append([moment, math.inf])
            elif spans:
                spans[-1][1] = moment
        elif kind == ATTACHMENT:
            moment, took, is_back = struct.unpack_from("<qQB", data, body)
            if is_back or not spans:
                spans.append([moment, moment + took])
            else:
                # Launches are slow until CUPTI has left.
                spans[-1][1] = moment + took
    begins = sorted(begins)[20:]
    steps = list(zip(begins, begins[1:]))
    return [until - begin for begin, until in steps], [any(start < until and stop > begin for start, stop in spans) for begin, until in steps]


def by_step(steps, kernels):
    steps.sort()
    starts = [start for start, _ in steps]
    sums = [[0, 0] for _ in steps]
    for launched, duration in kernels:
        if launched is None:
            continue
        index = bisect.bisect_right(starts, launched) - 1
        if index >= 0 and launched <= steps[index][1]:
            sums[index][0] += 1
            sums[index][1] += duration
    return [tuple(total) for total in sums if total[0]]


def kineto_steps(path):
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "rt") as file:
        events = json.load(file)["traceEvents"]
    steps = [(event["ts"], event["ts"] + event["dur"]) for event in events if event.get("name") == "decode_step" and event.get("cat") == "user_annotation"]
    calls = {event["args"]["correlation"]: event["ts"] for event in events if event.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in event.get("args", {})}
    kernels = [(calls.get(event["args"]["correlation"]), event["dur"] * 1000) for event in events if event.get("cat") == "kernel"]
    return by_step(steps, kernels)


def nsys_steps(path):
    if not path.is_file():
        return []
    base = sqlite3.connect(path)
    steps = base.execute("SELECT start, end FROM NVTX_EVENTS LEFT JOIN StringIds ON textId = StringIds.id WHERE coalesce(text, value) = 'decode_step' AND end IS NOT NULL").fetchall()
    kernels = base.execute("SELECT r.start, k.end - k.start FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId").fetchall()
    return by_step(steps, kernels)
