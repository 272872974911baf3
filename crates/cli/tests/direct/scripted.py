"""A worker that answers every page with grounded text, so that what is drawn is known.

LLMPROF_TEST_KILL_AT=N kills llmprof itself when batch N is asked for, =load when the model is. A sample whose id has `refuse` in it is refused.
"""

import json, os, pathlib, signal, socket, time

now = time.monotonic_ns
connection = socket.socket(socket.AF_UNIX)
connection.connect(os.environ["LLMPROF_WORKER_SOCKET"])
stream = connection.makefile("rw", encoding="utf-8", newline="\n")
kill_at = os.environ.get("LLMPROF_TEST_KILL_AT")
batches = 0

ANSWER = (
    "<|ref|>title<|/ref|><|det|>[[100, 50, 900, 90]]<|/det|>\n# Title of {id}\n"
    "<|ref|>image<|/ref|><|det|>[[200, 600, 800, 800]]<|/det|>\n"
    "<|ref|>表格<|/ref|><|det|>[[100, 840, 1200, 950]]<|/det|>\n"
    "<|ref|>text<|/ref|><|det|>[[1, 2, 3]]<|/det|>\n<|ref|>unclosed"
)


def hello(_):
    return {"version": 1, "runtime": "scripted", "runtime_version": "1", "pid": os.getpid(), "monotonic_ns": now()}


def kill_parent():
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


def load(_):
    if kill_at == "load":
        kill_parent()
    start = now()
    return {"start_ns": start, "end_ns": now(), "dtype": "f32", "parameters": 0, "weight_bytes": 0, "vocab_size": 96,
            "tokenizer": True}


def generate(batch):
    global batches
    if str(batches) == kill_at:
        kill_parent()
    batches += 1
    with open("asked.txt", "a") as log:
        log.writelines(request["id"] + "\n" for request in batch["requests"])
    if any("refuse" in request["id"] for request in batch["requests"]):
        raise ValueError("this sample is refused")
    start, results = now(), []
    for request in batch["requests"]:
        for image in request.get("images", []):
            assert pathlib.Path(image["path"]).is_file() and image["height"] > 0
        results.append({"id": request["id"], "prompt_tokens": 5, "start_ns": start, "output_tokens": [1, 2, 3],
                        "token_ns": [now(), now(), now()], "finish": "stop",
                        "text": "# Title of " + request["id"], "raw_text": ANSWER.format(id=request["id"])})
    end = now()
    middle = results[0]["token_ns"][0]
    return {"start_ns": start, "end_ns": end, "requests": results,
            "phases": [{"phase": "prefill", "start_ns": start, "end_ns": middle},
                       {"phase": "decode", "start_ns": middle, "end_ns": end}]}


steps = {"hello": hello, "load": load, "warm_up": generate, "generate": generate, "bye": lambda _: {}}
for line in stream:
    [(kind, request)] = json.loads(line).items()
    try:
        answer = {kind: steps[kind](request)}
    except ValueError as error:
        answer = {"error": {"kind": "bad_request", "message": str(error)}}
    stream.write(json.dumps(answer) + "\n")
    stream.flush()
    if kind == "bye":
        break
