"""Writes the seeds of fuzz/corpus: small files of every format, from fixtures where there are some."""

import csv
import gzip
import io
import json
import pickle
import sqlite3
import struct
from pathlib import Path

HERE = Path(__file__).parent
FIXTURES = HERE.parent / "fixtures"


def put(format: str, name: str, content: bytes) -> None:
    folder = HERE / "corpus" / format
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


def kineto() -> None:
    slice = {"ph": "X", "pid": 1, "tid": 1, "ts": 10.5, "dur": 9.0}
    shapes = {"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "c10::BFloat16"], "Concrete Inputs": ["", "1"]}
    device = {"pid": 0, "tid": 7}
    kernel = {"correlation": 7, "device": 0, "stream": 7, "grid": [4, 1, 1], "block": [128, 1, 1], "registers per thread": 32,
              "shared memory": 0, "est. achieved occupancy %": 50}
    events = [
        {"name": "process_name", "ph": "M", "pid": 1, "tid": 0, "args": {"name": "python"}},
        {**slice, "cat": "cpu_op", "name": "aten::mm", "args": {"External id": 3, **shapes}},
        {**slice, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 12.25, "dur": 2.5, "args": {"correlation": 7, "External id": 3}},
        {**slice, **device, "cat": "kernel", "name": "void gemm<128, 64>(float*)", "ts": 20.0, "dur": 5.5, "args": kernel},
        {**slice, **device, "cat": "gpu_memcpy", "name": "Memcpy HtoD", "ts": 30.0, "dur": 1.0, "args": {"bytes": 4096, "correlation": 8}},
        {**slice, **device, "cat": "gpu_memset", "name": "Memset", "ts": 32.0, "dur": 1.0, "args": {"bytes": 64, "correlation": 9}},
        {**slice, "cat": "user_annotation", "name": "execute_context_1(8)_generation_2(2)", "ts": 9.0, "dur": 50.0},
        {"ph": "s", "id": 7, "pid": 1, "tid": 1, "ts": 12.25, "cat": "ac2g", "name": "ac2g"},
        {"ph": "f", "id": 7, "pid": 0, "tid": 7, "ts": 20.0, "cat": "ac2g", "name": "ac2g", "bp": "e"},
        {"ph": "i", "s": "t", "name": "[memory]", "pid": 1, "tid": 1, "ts": 13.0, "args": {"Bytes": 512, "Total Allocated": 1024, "Addr": 99, "Device Type": 1, "Device Id": 0}},
        {"ph": "B", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 40.0},
        {"ph": "E", "pid": 1, "tid": 1, "ts": 41.0},
    ]
    top = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150000000000, "numSms": 132}],
           "baseTimeNanoseconds": 1700000000000000000, "traceEvents": events}
    put("kineto", "small.json", json.dumps(top, indent=1).encode())
    put("kineto", "compact.json", json.dumps(events).encode())
    put("kineto", "ascend.json", (FIXTURES / "ascend/trace_view.json").read_bytes())
    ranks = [{**event, "pid": f"[TP0{rank}] {event['pid']}"} for rank in range(2) for event in events]
    put("kineto", "ranks.json", json.dumps({"traceEvents": ranks}).encode())


def nsys_sqlite() -> None:
    connection = sqlite3.connect(":memory:")
    connection.executescript("""
        PRAGMA page_size = 512;
        CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
        CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
        CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, smCount INTEGER, totalMemory INTEGER, busLocation TEXT);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, "end" INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER,
            correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER,
            blockX INTEGER, blockY INTEGER, blockZ INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, "end" INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER, returnValue INTEGER);
        CREATE TABLE NVTX_EVENTS (start INTEGER, "end" INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER, textId INTEGER, domainId INTEGER);
        INSERT INTO StringIds VALUES (1, 'void gemm<4>(float*)'), (2, 'gemm'), (3, 'cudaLaunchKernel_v7000');
        INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.16.0');
        INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H200', 132, 150000000000, '0000:01:00.0');
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (2000, 2500, 0, 1, 7, 5, 281474976710656, 1, 2, 4, 1, 1, 128, 1, 1);
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1000, 1100, 281474976710657, 5, 3, 0);
        INSERT INTO NVTX_EVENTS VALUES (900, 3000, 59, 'decode', 281474976710657, NULL, 0);
    """)
    path = HERE / "corpus" / "nsys_sqlite" / "small.sqlite"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    connection.execute("VACUUM INTO ?", [str(path)])


def ncu_csv() -> None:
    for name in ("decode_raw", "decode_details"):
        text = gzip.open(FIXTURES / "h200/ncu" / f"{name}.csv.gz", "rt").read()
        rows = list(csv.reader(io.StringIO(text)))[:6]
        columns = [index for index, column in enumerate(rows[0]) if index < 14 or "pct" in column or "throughput" in column][:40]
        out = io.StringIO()
        csv.writer(out, quoting=csv.QUOTE_ALL).writerows([[row[index] for index in columns if index < len(row)] for row in rows])
        put("ncu_csv", f"{name}.csv", out.getvalue().encode())


def fields(message: bytes) -> list[tuple[int, bytes, bytes]]:
    """The fields of a protocol buffer: number, all of it, and what a text or message holds."""

    def varint(at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            byte, at = message[at], at + 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value, at

    found, at = [], 0
    while at < len(message):
        key, begin = varint(at)
        length = 0
        if key & 7 == 2:
            length, begin = varint(begin)
        end = {0: lambda: varint(begin)[1], 1: lambda: begin + 8, 2: lambda: begin + length, 5: lambda: begin + 4}[key & 7]()
        found.append((key >> 3, message[at:end], message[begin:end]))
        at = end
    return found


def field(number: int, content: bytes | int) -> bytes:
    def varint(value: int) -> bytes:
        out = bytearray()
        while value >= 0x80:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        return bytes([*out, value])

    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def ncu_report() -> None:
    """The first launch of a real report with a few of its metrics and rules, and a few attributes of its device."""
    whole = gzip.open(FIXTURES / "h200/ncu/decode_12.ncu-rep.gz").read()

    def entry(at: int) -> tuple[bytes, int]:
        (length,) = struct.unpack_from("<I", whole, at)
        return whole[at + 4 : at + 4 + length], at + 4 + length

    def with_length(content: bytes) -> bytes:
        return struct.pack("<I", len(content)) + content

    _, at = entry(4)
    device = small = b""
    while not device:
        header, at = entry(at)
        parts = {number: content for number, _, content in fields(header)}
        if 3 in parts and len(parts[3]) > 0:
            kept = [part for number, part, _ in fields(next(content for number, _, content in fields(parts[3]) if number == 6)) if number != 3]
            attributes = [part for number, part, content in fields(next(c for n, _, c in fields(parts[3]) if n == 6)) if number == 3]
            capability = [part for part in attributes if b"compute_capability" in part]
            device = field(3, field(6, b"".join(kept + attributes[:6] + capability)))
        if len(parts.get(4, b"")) > 0 and not small:
            names = [content for _, _, content in fields(parts[4])]
            launch, at = entry(at)
            number = {name: index for index, name in enumerate(names[:40])}
            results, rules, others = [], [], []
            for kind, part, content in fields(launch):
                if kind == 13:
                    index, value = (field_ for field_ in fields(content)[:2])
                    name = names[decoded(index[2])]
                    if name == b"launch__device_id" or name in number:
                        number.setdefault(name, len(number))
                        results.append(field(13, field(1, number[name]) + value[1]))
                elif kind == 19:
                    rules.append(part)
                else:
                    others.append(part)
            rules = sorted(rules, key=len)[-2:] + sorted(rules, key=len)[:2]
            small = with_length(b"".join(others + results + rules))
            strings = field(4, b"".join(field(1, name) for name in number))
            process = next(part for number, part, _ in fields(header) if number == 6)
            block = with_length(strings + process + field(1, 0) + field(2, 1) + field(5, len(small))) + small
    put("ncu_report", "one_launch.ncu-rep", b"NVR\0" + with_length(whole[8:10]) + block + with_length(device))


def decoded(varint: bytes) -> int:
    return sum((byte & 0x7F) << 7 * at for at, byte in enumerate(varint))


def nsys_stats() -> None:
    for name in ("stats_cuda_gpu_kern_sum", "stats_nvtx_sum", "stats_cuda_api_sum"):
        lines = (FIXTURES / "h200/nsys" / f"{name}.csv").read_text().splitlines()[:6]
        put("nsys_stats", f"{name}.csv", ("\n".join(lines) + "\n").encode())


def wire() -> None:
    put("llmprof_wire", "triton.wire", gzip.open(FIXTURES / "h200/cupti/triton.wire.gz").read()[:2400])

    def record(kind: int, fields: bytes, text: bytes = b"") -> bytes:
        return struct.pack("<IHH", 8 + len(fields) + len(text), kind, 0) + fields + text

    # Samples of a host thread: two frames, on a CPU, then in a call, then collecting garbage.
    start = 56_276_102_843_763
    header = b"LLMPWIRE" + struct.pack("<IIIIqqq", 1, 48, 27892, 27888, start, 1_794_959_251_423_601_383, 0)
    texts = [b"decode", b"serve.py", b"<module>", b"clock_nanosleep"]
    body = record(28, struct.pack("<q", start)) + b"".join(record(1, struct.pack("<I", id), text) for id, text in enumerate(texts, 1))
    body += record(29, struct.pack("<IIIII", 1, 0, 3, 2, 9)) + record(29, struct.pack("<IIIII", 2, 1, 1, 2, 40))
    for number, (call, cpu, wait, collecting) in enumerate([(0, 1, 0, 1), (4, 2, 4, 1), (0, 1, 0, 2)]):
        body += record(30, struct.pack("<qQIIIIBBB", start + (number + 1) * 10_000_000, 10_000_000, 27892, 27892, 2, call, cpu, wait, collecting))
    put("llmprof_wire", "host_samples.wire", header + body)


def engine() -> None:
    header = json.dumps({"operators": [{"path": "model.layers.0.mlp", "kind": "linear", "dtype": "f32"}],
                         "ranges": [{"name": "decode", "start_ns": 5, "end_ns": 900}], "dropped": 1}).encode()
    calls = b"".join(struct.pack("<6I2Q", 0, 0, 1, 8, 16, 32, 10 + 20 * n, 25 + 20 * n) for n in range(4))
    put("llmprof_engine", "small.events", b"LPOPS2\n" + struct.pack("<Q", len(header)) + header + struct.pack("<Q", 4) + calls)


def torch_memory() -> None:
    frames = [{"name": "forward", "filename": "/x/site-packages/torch/nn/linear.py", "line": 3}, {"name": "main", "filename": "run.py", "line": 9}]
    block = {"size": 512, "requested_size": 500, "address": 4096, "state": "active_allocated", "frames": frames}
    free = {"size": 1536, "address": 4608, "state": "inactive"}
    segment = {"device": 0, "address": 4096, "total_size": 2048, "stream": 0, "segment_type": "small", "allocated_size": 512,
               "active_size": 512, "requested_size": 500, "blocks": [block, free]}
    events = [{"action": "segment_alloc", "addr": 4096, "size": 2048, "stream": 0, "time_us": 1},
              {"action": "alloc", "addr": 4096, "size": 512, "stream": 0, "time_us": 2, "frames": frames},
              {"action": "free_requested", "addr": 4096, "size": 512, "stream": 0, "time_us": 3, "frames": frames},
              {"action": "oom", "size": 99, "device_free": 5, "stream": 0, "time_us": 4}]
    snapshot = {"segments": [segment], "device_traces": [events, []]}
    for protocol in (0, 2, 4):
        put("torch_memory", f"protocol{protocol}.pickle", pickle.dumps(snapshot, protocol))


def flight_recorder() -> None:
    frames = [{"name": "all_reduce", "filename": "/x/site-packages/torch/distributed/distributed_c10d.py", "line": 3068},
              {"name": "step", "filename": "/x/train.py", "line": 12}]
    entry = {"frames": frames, "record_id": 0, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": 1, "p2p_seq_id": 0,
             "op_id": 1, "profiling_name": "nccl:all_reduce", "time_created_ns": 1794818971806922309, "input_sizes": [[512, 512]],
             "input_dtypes": ["Float"], "output_sizes": [[512, 512]], "output_dtypes": ["Float"], "state": "completed",
             "time_discovered_started_ns": None, "time_discovered_completed_ns": None, "retired": True, "duration_ms": 0.25,
             "timeout_ms": 1800000, "is_p2p": False}
    stuck = {**entry, "collective_seq_id": 2, "state": "started", "retired": False}
    dump = {"version": "2.10", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}, "comm_lib_version": "2.27.3",
            "pg_status": {"0": {"last_enqueued_collective": 2, "last_started_collective": 2, "last_completed_collective": 1}},
            "entries": [entry, stuck]}
    for protocol in (2, 4):
        put("flight_recorder", f"protocol{protocol}.pickle", pickle.dumps(dump, protocol))


def nccl_inspector() -> None:
    head = {"header": {"id": "0x7f8c496ae9f661", "rank": 2, "n_ranks": 8, "nnodes": 1}, "metadata": {"inspector_output_format_version": "v4.0"}}
    operation = {"coll": "AllReduce", "coll_sn": 7, "coll_msg_size_bytes": 1048576, "coll_exec_time_us": 61, "coll_algobw_gbs": 17.2, "coll_busbw_gbs": 30.1}
    lines = [{**head, "coll_perf": operation}, {**head, "dump_stats": {"dropped_total": 3}}, {**head, "p2p_perf": {"p2p": "Send", "p2p_msg_size_bytes": 64}}]
    put("nccl_inspector", "small.log", "\n".join(json.dumps(line) for line in lines).encode())


def nccl_log() -> None:
    whole = (FIXTURES / "h200" / "nccl_debug.log").read_text().splitlines()
    kept = [line[:200] for line in whole if "Channel" not in line]
    more = ["a:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read",
            "a:1:2 [0] NCCL INFO AllReduce: 8388608 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..15}",
            "a:1:2 [0] NCCL WARN Connection refused"]
    put("nccl_log", "small.log", "\n".join(kept + more).encode())


def torch_memory_stats() -> None:
    put("torch_memory_stats", "stats.json", (FIXTURES / "h200/memory_stats.json").read_bytes())


def telemetry() -> None:
    put("nvml_csv", "nvml.csv", b"\n".join((FIXTURES / "h200/nvml.csv").read_bytes().splitlines()[:6]) + b"\n")
    put("nvidia_smi_dmon", "dmon.txt", (FIXTURES / "h200/dmon.txt").read_bytes())
    dated = "#Date       Time        gpu    pwr  gtemp     sm   pviol\n#YYYYMMDD   HH:MM:SS    Idx      W      C      %      %\n"
    put("nvidia_smi_dmon", "dated.txt", (dated + " 20261115   23:59:59      0    100     40     50     0\n").encode())
    put("nvidia_smi_q", "query.txt", outline((FIXTURES / "h200/nvidia_smi_q.txt").read_text()).encode())


def outline(query: str) -> str:
    """The groups of `nvidia-smi -q` that are read, and a few others."""
    kept, groups = [], ("PCI", "Clocks", "FB Memory", "Utilization", "Temperature", "GPU Power Readings", "Max Clocks")
    inside = False
    for line in query.splitlines():
        indent = len(line) - len(line.lstrip())
        if indent <= 4:
            inside = line.strip().startswith(groups)
        if indent == 0 or inside or "Product Name" in line or "Performance State" in line:
            kept.append(line)
    return "\n".join(kept) + "\n"


def cublas_log() -> None:
    lines = gzip.open(FIXTURES / "h200/cublas/cublas.log.gz", "rt").read().split("\nI! ")
    gemms = [part for part in lines if "cublasGemmEx(" in part][:2]
    put("cublas_log", "cublas.log", "".join(f"I! {part}\n" for part in gemms).encode())
    lines = gzip.open(FIXTURES / "h200/cublas/cublaslt.log.gz", "rt").read().splitlines()
    matmuls = [line for line in lines if "[Trace][cublasLt" in line][:3]
    put("cublas_log", "cublaslt.log", "".join(line + "\n" for line in matmuls).encode())


def rocprof() -> None:
    for name in ("kernel_trace.csv", "hip_api_trace.csv", "marker_api_trace.csv", "memory_copy_trace.csv", "kernel_stats.csv"):
        put("rocprofv3_csv", name, (FIXTURES / "rocprofv3" / name).read_bytes())
    put("rocprofv3_json", "results.json", (FIXTURES / "rocprofv3/results.json").read_bytes())


def trtexec() -> None:
    profile = [{"count": 10}, {"name": "fc", "timeMs": 10, "averageMs": 1.0, "medianMs": 1.0, "percentage": 80}]
    layers = {"Layers": [{"Name": "fc", "LayerType": "gemm", "ParameterType": "MatrixMultiply", "Inputs": [{"Dimensions": [1, 4096], "Format/Datatype": "Row major linear FP16 format"}],
                          "Outputs": [{"Dimensions": [1, 4096], "Format/Datatype": "FP16"}], "Weights": {"Type": "Half", "Count": 16777216}}]}
    put("trtexec", "profile.json", json.dumps(profile).encode())
    put("trtexec", "layers.json", json.dumps(layers).encode())
    put("trtexec", "times.json", json.dumps([{"startH2dMs": 0.1, "latencyMs": 1.5, "computeMs": 1.25}]).encode())


def load() -> None:
    """What servers and load generators say; small, since most of a long one is the same again."""
    whole = json.loads((FIXTURES / "vllm/bench_serve.json").read_text())
    put("load_results", "vllm.json", json.dumps({key: value[:3] if isinstance(value, list) else value for key, value in whole.items()}).encode())
    sglang = {"backend": "sglang", "request_rate": 4.0, "duration": 10.0, "completed": 50, "total_input_tokens": 500, "total_output_tokens": 900,
              "request_throughput": 5.0, "output_throughput": 90.0, "mean_e2e_latency_ms": 200.0, "p99_ttft_ms": 60.0, "accept_length": None}
    put("load_results", "sglang.jsonl", (json.dumps(sglang) + "\n").encode() * 2)
    metric = {"unit": "ms", "avg": 100.0, "p50": 100.0, "p99": 200.0}
    put("load_results", "aiperf.json", json.dumps({"schema_version": "1.4", "request_latency": metric, "time_to_first_token": {**metric, "unit": "s"},
        "request_count": {"unit": "requests", "avg": 40.0}, "input_config": {"endpoint": {"model_names": ["m"]}}}).encode())
    record = {"metadata": {"request_start_ns": 1000000000}, "metrics": {"request_latency": {"value": 40.0, "unit": "ms"},
              "output_sequence_length": {"value": 5, "unit": "tokens"}, "inter_chunk_latency": {"value": [1.0, 2.0], "unit": "ms"}}, "error": None}
    put("load_results", "aiperf.jsonl", (json.dumps(record) + "\n").encode() * 2)
    # A sum of these lengths was once an overflow.
    long = {"metadata": record["metadata"], "metrics": {**record["metrics"], "output_sequence_length": {"value": 1e308, "unit": "tokens"}}, "error": None}
    put("load_results", "long.jsonl", (json.dumps(long) + "\n").encode() * 2)
    lines = (FIXTURES / "vllm/metrics.txt").read_text().splitlines()
    kept = [line for line in lines if "vllm:num_requests_running" in line or "vllm:time_to_first_token_seconds" in line or "vllm:generation_tokens" in line]
    put("prometheus", "vllm.txt", ("\n".join(kept) + "\n").encode())
    put("prometheus", "others.txt", b"# TYPE nv_inference_count counter\nnv_inference_count{model=\"a\\\"b\",version=\"1\"} 3\n"
        b"DCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} 97 1700000000000\nllamacpp:prompt_tokens_total 12\nsglang:num_running_reqs 4\n"
        b"trtllm_request_queue_time_seconds_bucket{le=\"+Inf\"} 2\ntrtllm_request_queue_time_seconds_sum NaN\n")
    stream = json.loads((FIXTURES / "vllm/stream.json").read_text())
    pieces = [piece for _, piece in next(iter(stream.values()))][:4]
    put("server_stream", "vllm.txt", ("\n\n".join(pieces) + "\n\ndata: [DONE]\n\n").encode())
    put("server_stream", "chat.txt", b": comment\r\nevent: message\r\ndata: {\"choices\":[{\"delta\":\r\ndata: {\"content\":\"x\"}}]}\r\n\r\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":7}}\n\n")
    most = 2**64 - 1
    usage = {"prompt_tokens": most, "completion_tokens": most, "total_tokens": most}
    event = {"choices": [{"text": "a", "finish_reason": "length"}], "usage": usage}
    put("server_stream", "usage_overflow.txt", f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n".encode())
    put("server_answer", "vllm.json", pieces[0].removeprefix("data: ").encode())
    put("server_answer", "chat.json", json.dumps({"choices": [{"delta": {"content": "x", "reasoning_content": "y", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 8, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 2}}}).encode())
    put("server_answer", "llama_cpp.json", json.dumps({"choices": [{"text": "x", "finish_reason": "length"}], "timings": {"cache_n": 2, "prompt_n": 8, "prompt_ms": 12.5, "predicted_n": 4, "predicted_ms": 80.0}}).encode())
    put("server_answer", "ollama.json", json.dumps({"response": "y", "done": True, "load_duration": 5000000, "prompt_eval_count": 8, "prompt_eval_duration": 12500000, "eval_count": 4, "eval_duration": 80000000}).encode())
    put("server_answer", "error.json", b'{"error":{"message":"out of memory","code":500}}')
    put("request_trace", "mooncake.jsonl", b'{"timestamp": 1000, "input_length": 600, "output_length": 5, "hash_ids": [7, 8]}\n{"timestamp": 500, "input_length": 10, "output_length": 2, "hash_ids": [7]}\n')
    put("request_trace", "burst_gpt.csv", b"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,1087,0,1087,API log\n6.5,GPT-4,10,3,13,API log\n")
    put("request_trace", "vllm.json", b'{"start_times":[100.5,100.25],"input_lens":[8,9],"output_lens":[3,4],"ttfts":[0.1,0.2]}')
    put("load_dataset", "share_gpt.json", b'[{"id":"a","conversations":[{"from":"human","value":"hello"},{"from":"gpt","value":"hi"},{"from":"human","value":"more"}]}]')
    put("load_dataset", "lines.jsonl", b'{"prompt": "hello", "output_tokens": 4}\n{"prompt": "again"}\n')
    put("vllm_offline", "offline.jsonl", (FIXTURES / "vllm/offline.jsonl").read_bytes())
    run = {"vllm": "0.32.0", "started_unix_ns": 1794787980000000000}
    request = {"index": 0, "arrivals": [[1, 1], [2, 2**32 - 1]], "prompt_tokens": most, "end_ns": 2, "preemptions": most}
    lines = [run, request, {**request, "index": 1, "preemptions": 1}, {"done": True}]
    put("vllm_offline", "too_many.jsonl", "".join(json.dumps(line) + "\n" for line in lines).encode())


def xplane() -> None:
    """A GPU with a stream, a TPU with a loop, the host, and when it all began."""

    def named(number: int, id: int, name: bytes, more: bytes = b"") -> bytes:
        return field(number, field(1, id) + field(2, field(1, id) + field(2, name) + more))

    def stat(id: int, number: int, value) -> bytes:
        return field(4, field(1, id) + field(number, value))

    def event(id: int, offset: int, duration: int, stats: bytes = b"") -> bytes:
        return field(4, field(1, id) + field(2, offset) + field(3, duration) + stats)

    def line(id: int, name: bytes, events: bytes) -> bytes:
        return field(3, field(1, id) + field(2, name) + field(3, 1000) + events)

    stats = named(5, 1, b"correlation_id") + named(5, 2, b"kernel_details") + named(5, 3, b"core_count") + named(5, 4, b"step_num")
    details = stat(1, 3, 7) + stat(2, 5, b"grid:4,1,1 block:128,1,1 regs:32 occ_pct:50")
    copy = stat(1, 3, 8) + stat(2, 5, b"size:4096")
    gpu = field(2, b"/device:GPU:0") + line(7, b"Stream #7", event(1, 2500, 9000, details) + event(2, 20000, 4000, copy))
    gpu += named(4, 1, b"loop_add_fusion") + named(4, 2, b"MemcpyH2D") + stats + field(6, field(1, 3) + field(4, 132))
    ops = event(1, 0, 90000) + event(2, 1000, 40000) + event(3, 50000, 30000)
    tpu = field(2, b"/device:TPU:1") + line(1, b"XLA Ops", ops) + line(2, b"XLA Modules", event(4, 0, 95000))
    tpu += named(4, 1, b"while") + named(4, 2, b"%fusion.1 = f32[] fusion()", field(4, b"fusion.1")) + named(4, 3, b"all-reduce.2") + named(4, 4, b"jit_f(1)")
    calls = event(1, 1000, 800, stat(1, 3, 7)) + event(2, 0, 99000, stat(4, 4, 3)) + event(3, 0, 5)
    host = field(2, b"/host:CPU") + line(4711, b"python3", calls)
    host += named(4, 1, b"cuLaunchKernel") + named(4, 2, b"train") + named(4, 3, b"$a.py:1 f") + stats
    began = field(2, b"Task Environment") + named(5, 1, b"profile_start_time") + field(6, field(1, 1) + field(3, 1700000000000000000))
    put("xplane", "small.xplane.pb", b"".join(field(1, plane) for plane in (gpu, tpu, host, began)))


def other_inputs() -> None:
    """What is read beside profiles, configs and servers."""
    host = "Host: 127.0.0.1:8000\r\n"
    token = "0123456789abcdef"
    paths = ["", "runs.json", "tables.json", "r/0/run.json", "r/0/lanes.json", "r/0/names/0.json", "r/0/tile/0/3/0", "r/0/event/0/1", "r/0/instances/1",
             "r/0/totals?from=0&to=90000", "r/0/search?text=gem%6d", "r/0/find?text=gemm&time=0", "r/0/query?sql=SELECT+1", "r/0/plot/idle.svg"]
    for name, some in (("pages", paths[:6]), ("data", paths[6:])):
        put("view_request", f"{name}.txt", "".join(f"GET /{token}/{path} HTTP/1.1\r\n{host}\r\n" for path in some).encode())
    # A distance from this time did not fit 64 bits.
    put("view_request", "far.txt", f"GET /{token}/r/0/find?text=gemm&time=-9223372036854775808 HTTP/1.1\r\n{host}\r\n".encode())
    put("view_request", "foreign.txt", f"GET /{token}/runs.json HTTP/1.1\r\n{host}Origin: http://127.0.0.1:8000\r\nSec-Fetch-Site: same-origin\r\nConnection: close\r\n\r\n".encode())
    queries = {
        "sum": "SELECT name, count(*) AS calls, sum(duration_ns) AS time FROM kernel GROUP BY name ORDER BY time DESC LIMIT 5",
        "join": "SELECT k.name, l.name FROM kernel k JOIN launch l ON l.id = k.launch_id WHERE k.start_ns >= 0",
        "recursive": "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 9) SELECT x, hex(x), printf('%d', x) FROM n",
        "window": "SELECT start_ns - lag(start_ns + duration_ns) OVER (PARTITION BY stream ORDER BY start_ns) AS gap FROM kernel UNION SELECT duration_ns FROM idle_gap",
    }
    for name, text in queries.items():
        put("query_sql", f"{name}.sql", text.encode())
    between = {"compute_ns": 10, "copies_ns": 0, "idle_ns": 5}
    step = {"number": 3, "start_ns": 0, "end_ns": 9000, "compute_ns": 4000, "exposed_communication_ns": 1000, "copies_ns": 0, "idle_ns": [0, 9, 0, 0, 0, 0, 0, 1],
            "kernels": [[0, 2, 4000, 1000, 3000, 72, 1, 84, 1]], "other_events": 1, "other_ns": 30}
    summary = {"rank": 17, "world_size": 1024, "source": {"file": "rank17.json", "bytes": 9, "modified_ns": 1}, "begin_ns": 1763000000000000000, "recorded_ns": 29000,
               "events": 40, "device": "NVIDIA H200", "names": ["gemm", "all_reduce"], "groups": [{"name": "tp", "ranks": "[0, 1, 2]"}],
               "steps": [step, {**step, "number": 4, "start_ns": 9500, "end_ns": 20000}], "has_marked_steps": True,
               "collectives": [[4000, 500, 1, 0, 3, 0, 4096, 4096, 10, 0, 5], [12000, 700, 1, 0, 3, 1, 4096, -1, 10, 0, 5, 1, 100, 300]], "tail": between, "issues": []}
    put("rank_summary", "two_steps.json", json.dumps(summary).encode())
    put("rank_summary", "no_steps.json", json.dumps({**summary, "steps": [], "has_marked_steps": False, "world_size": None}).encode())
    models = HERE.parent / "crates/theory/tests/data/models"
    for name in ("llama3_1_70b", "deepseek_v3", "qwen2_5_vl_7b", "whisper_large_v3", "qwen3_5_122b_a10b", "gemma3_1b"):
        put("model_config", f"{name}.json", (models / f"{name}.json").read_bytes())
    devices = HERE.parent / "crates/theory/devices"
    for name in ("custom_npu", "h200"):
        put("device_file", f"{name}.yaml", (devices / f"{name}.yaml").read_bytes())
    put("kernel_curves", "two_sizes.json", json.dumps(two_sizes()).encode())
    samples = [{"id": 1, "text": "a b"}, {"id": "x", "tokens": [1, 2, 3]}, "a text", {"prompt": "q", "image": None}, {"content": "c"}]
    put("dataset_lines", "kinds.jsonl", "".join(json.dumps(sample) + "\n" for sample in samples).encode())
    put("prices", "prices.txt", b"# per hour\nh100_sxm: 2.5\n\nl4: 0.7 # spot\n")
    put("grounded_text", "page.txt", b"<|ref|>title<|/ref|><|det|>[[10, 20, 300, 40]]<|/det|>\n# A page\n\n<|ref|>image<|/ref|><|det|>[[0, 0, 999, 999], [5, 5, 6, 6]]<|/det|>\n")
    put("expressions", "lines.txt", b"tpot<+3%\nttft:p99<500ms\ne2e:p50<=2s\nnormal:512:64\nuniform:64:256\nlognormal:100:0.5\n512\nfinding=1\nkernel=2\nphase=decode\nstep=0\nwindow=0..9000\nrequest=3\ntpot<20ms\ngoodput>0.9\n")


def two_sizes() -> dict[str, object]:
    """Kernel curves with two sizes on each axis."""
    axis, eight = [1.0, 64.0], [1.5] * 8
    heads = {"dims": axis, "ratio": eight}
    streams = json.loads((HERE.parent / "crates/predict/data/curves/h200.json").read_text())
    return {
        "source": "a seed",
        "peak_flops": 1e15,
        "bytes_per_s": 4e12,
        "gemm": {"fixed_us": 2.0, "m": axis, "n": axis, "k": axis, "ratio": eight, "rows": axis, "in_model": axis},
        "gemm_unaligned": {"rows": axis, "bytes_per_s": [1e12, 2e12]},
        "gemm_batched": {"fixed_us": 2.0, "aligned_bytes_per_s": 1e12, "unaligned_bytes_per_s": 1e12, "compute": 0.5},
        "gemm_f32": {"fixed_us": 2.0, "ns_per_k": 2.0, "flops_per_s": 4e13},
        "attention": {"fixed_us": 3.0, "work": axis, "keys": axis, "alone_us": axis, "prefill_in_model": axis, "decode_in_model": axis,
                      "prefill": heads, "prefill_masked": heads, "decode": heads, "decode_grouped": heads},
        "grouped": {"fixed_us": 2.0, "rows": axis, "ratio": axis},
        "streams": streams["streams"],
        "tables": {name: {"by": table["by"], "x": axis, "us": axis} for name, table in streams["tables"].items()},
    }


def mcp() -> None:
    """Calls of every tool."""
    run = {"run": "trace.json"}
    calls = [("runs", {}), ("runs", {"filter": "a"}), ("summary", run), ("findings", {**run, "from": 1}), ("explain", {**run, "id": "kernel=1"}), ("explain", {**run, "id": "finding=1"}),
             ("kernels", {**run, "filter": "gemm", "from": 1}), ("window", {**run, "from_ms": 0, "to_ms": 0.05}), ("window", {**run, "step": 0}),
             ("compare", {"a": "trace.json", "b": "trace.json"}), ("predict", {"overrides": ["model=llama3_1_8b", "hardware.spec=h200", "runtime.batch_size=1,8"]})]
    for number, (name, arguments) in enumerate(calls):
        message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        put("mcp_message", f"{number:02}_{name}.json", json.dumps(message).encode())
    initialize = {"jsonrpc": "2.0", "id": 99, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}}
    put("mcp_message", "initialize.json", json.dumps(initialize).encode())
    put("mcp_message", "list.json", b'{"jsonrpc": "2.0", "id": "x", "method": "tools/list"}')


def config() -> None:
    put("config", "small.yaml", b"a: 1\nb: ${a}\nc: [x, '${b}', {d: '${oc.env:HOME,none}'}]\ne: &anchor {f: 1_000, g: 0x1F, h: 1:30}\ni: *anchor\nj: ${.b}-${a}\nk: |\n  text\n  more\n")
    put("config", "double.yaml", b"a: xxxxxxxxxx\nb: ${a}${a}\nc: ${b}${b}\nd: ${c}${c}\n")


for make in (kineto, nsys_sqlite, ncu_csv, ncu_report, nsys_stats, wire, engine, torch_memory, flight_recorder, nccl_inspector, nccl_log,
             torch_memory_stats, telemetry, cublas_log, rocprof, trtexec, xplane, load, other_inputs, mcp, config):
    make()
