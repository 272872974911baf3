"""Generates with vLLM's `LLM` class in this process and writes what became of each request.

Usage: python vllm_offline.py JOB.json RESULT.jsonl

The result has one JSON object per line: first the version, then a request each, at last {"done": true}. Times are nanoseconds
since all requests were due together.
"""

import dataclasses
import json
import sys
import time


def make(words):
    """The `LLM` of a command line of `vllm serve`, with statistics of requests."""
    from vllm import LLM
    from vllm.engine.arg_utils import EngineArgs

    try:
        from vllm.utils.argparse_utils import FlexibleArgumentParser
    except ImportError:
        from vllm.utils import FlexibleArgumentParser
    parser = EngineArgs.add_cli_args(FlexibleArgumentParser())
    arguments = EngineArgs.from_cli_args(parser.parse_args(words))
    arguments.disable_log_stats = False
    if hasattr(LLM, "from_engine_args"):
        return LLM.from_engine_args(arguments)
    return LLM(**{f.name: getattr(arguments, f.name) for f in dataclasses.fields(arguments)})


def generate(engine, requests, ignore_eos):
    """Runs all requests together; one record a request, by its number."""
    from vllm import SamplingParams

    records = {}
    unix_ns, begin = time.time_ns(), time.perf_counter_ns()
    for request in requests:
        index = request["index"]
        record = {"index": index, "arrivals": [], "prompt_tokens": len(request["prompt"])}
        records[str(index)] = record
        sampling = SamplingParams(temperature=0.0, max_tokens=request["max_tokens"], ignore_eos=ignore_eos)
        # Before it is handed over: the engine may start on it while the call still runs.
        record["sent_ns"] = time.perf_counter_ns() - begin
        try:
            engine.add_request(str(index), {"prompt_token_ids": request["prompt"]}, sampling)
        except Exception as error:  # noqa: BLE001 - whatever the engine refuses is this request's failure
            record["failure"] = str(error)
    while engine.has_unfinished_requests():
        outputs = engine.step()
        now = time.perf_counter_ns() - begin
        for output in outputs:
            # Engines append an index to the name of a request where it has several answers.
            record = records[output.request_id]
            tokens = sum(len(answer.token_ids) for answer in output.outputs)
            before = record["arrivals"][-1][1] if record["arrivals"] else 0
            if tokens > before:
                record["arrivals"].append([now, tokens])
            if output.finished:
                record["end_ns"] = now
                record.update(timings(output.metrics))
    return unix_ns, list(records.values())


def timings(metrics):
    """What the engine says of one request, nanoseconds; nothing where it says nothing."""
    found = {}
    stamps = [getattr(metrics, name, 0.0) or 0.0 for name in ("queued_ts", "scheduled_ts", "first_token_ts")]
    if all(stamps):
        queued, scheduled, first = stamps
        found["queue_ns"] = round((scheduled - queued) * 1e9)
        found["prefill_ns"] = round((first - scheduled) * 1e9)
    preemptions = getattr(metrics, "num_preemptions", None)
    if preemptions is not None:
        found["preemptions"] = preemptions
    return found


def main():
    job_path, result_path = sys.argv[1:]
    with open(job_path) as file:
        job = json.load(file)
    import vllm

    llm = make(job["arguments"])
    engine = llm.llm_engine
    if job["warmup"]:
        generate(engine, job["warmup"], job["ignore_eos"])
    unix_ns, records = generate(engine, job["requests"], job["ignore_eos"])
    with open(result_path, "w") as file:
        for line in [{"vllm": vllm.__version__, "started_unix_ns": unix_ns}, *records]:
            file.write(json.dumps(line) + "\n")
        file.flush()
        if job["profile_requests"]:
            # After what is measured: a profiler slows every step, and writing its trace takes long.
            llm.start_profile()
            generate(engine, job["profile_requests"], job["ignore_eos"])
            llm.stop_profile()
        file.write(json.dumps({"done": True}) + "\n")


if __name__ == "__main__":
    main()
