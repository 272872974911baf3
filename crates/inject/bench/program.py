"""A host-bound decode, a GPU-bound prefill and a graph, in units that can be timed.

    python3 program.py --work decode --units 40 --ranges on      units inside and outside of a range in turn
    python3 program.py --work decode,prefill,graph --units 6     all three

Prints one JSON object with the seconds of every unit. Exactly the lengths that are measured are warmed up.
"""

import argparse
import json
import sys
import time

import torch


def shape(name):
    from transformers import Qwen2Config

    sizes = {
        "0.5b": dict(hidden_size=896, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2,
                     intermediate_size=4864, vocab_size=151936, tie_word_embeddings=True),
        "7b": dict(hidden_size=3584, num_hidden_layers=28, num_attention_heads=28, num_key_value_heads=4,
                   intermediate_size=18944, vocab_size=152064, tie_word_embeddings=False),
    }
    return Qwen2Config(max_position_embeddings=32768, **sizes[name])


def build(name):
    from transformers import Qwen2ForCausalLM

    torch.manual_seed(0)
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        model = Qwen2ForCausalLM(shape(name)).eval()
    torch.set_default_dtype(torch.float32)
    return model


class Decode:
    """A prompt, then tokens one at a time; every unit begins behind the prompt again and so runs the same lengths."""

    def __init__(self, model, prompt=128, tokens=16, ranges=False):
        self.model, self.tokens, self.ranges = model, tokens, ranges
        self.prompt = torch.randint(0, 1000, (1, prompt), device="cuda")
        self.cache = None

    @torch.no_grad()
    def prepare(self):
        from transformers import DynamicCache

        if self.cache is None:
            self.cache = DynamicCache()
            out = self.model(input_ids=self.prompt, past_key_values=self.cache, use_cache=True)
            self.first = out.logits[:, -1:].argmax(-1)
        else:
            self.cache.crop(-self.tokens)
        self.token = self.first

    @torch.no_grad()
    def run(self):
        for _ in range(self.tokens):
            if not self.ranges:
                self.step()
                continue
            torch.cuda.nvtx.range_push("decode_step")
            # For torch's profiler, which does not see NVTX.
            with torch.profiler.record_function("decode_step"):
                self.step()
                torch.cuda.synchronize()
            torch.cuda.nvtx.range_pop()

    def step(self):
        out = self.model(input_ids=self.token, past_key_values=self.cache, use_cache=True)
        self.token = out.logits[:, -1:].argmax(-1)


class Launches:
    """Kernels that take less time than their launch: what a launch takes."""

    def __init__(self, count=1000):
        self.count = count
        self.value = torch.zeros(64, device="cuda")

    def prepare(self):
        pass

    def run(self):
        for _ in range(self.count):
            self.value.add_(1)


class Prefill:
    def __init__(self, model, prompt=2048, ranges=False):
        self.model = model
        self.prompt = torch.randint(0, 1000, (1, prompt), device="cuda")

    def prepare(self):
        pass

    @torch.no_grad()
    def run(self):
        self.model(input_ids=self.prompt, use_cache=False)


class Graph:
    """A forward of one token without a cache, captured once and replayed."""

    def __init__(self, model, replays=40, ranges=False):
        self.replays = replays
        self.token = torch.zeros((1, 16), dtype=torch.long, device="cuda")
        stream = torch.cuda.Stream()
        with torch.no_grad(), torch.cuda.stream(stream):
            for _ in range(3):
                model(input_ids=self.token, use_cache=False)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            hooks = module_ranges(model) if ranges else []
            with torch.cuda.graph(self.graph, stream=stream):
                self.out = model(input_ids=self.token, use_cache=False).logits
            for hook in hooks:
                hook.remove()

    def prepare(self):
        pass

    def run(self):
        for _ in range(self.replays):
            self.graph.replay()


def _push(name):
    # What a hook returns replaces the module's inputs or outputs.
    torch.cuda.nvtx.range_push(name)


def _pop():
    torch.cuda.nvtx.range_pop()


def module_ranges(model):
    hooks = []
    for name, module in model.named_modules():
        if name:
            hooks.append(module.register_forward_pre_hook(lambda m, a, name=name: _push(name)))
            hooks.append(module.register_forward_hook(lambda m, a, o: _pop()))
    return hooks


def timed(work):
    """Seconds of a unit: by the clock on the wall, and of the thread that launches."""
    work.prepare()
    torch.cuda.synchronize()
    wall, thread = time.perf_counter(), time.thread_time()
    work.run()
    torch.cuda.synchronize()
    return time.perf_counter() - wall, time.thread_time() - thread


def main(words=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", default="decode")
    parser.add_argument("--model", default="0.5b")
    parser.add_argument("--units", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=2048)
    parser.add_argument("--warm", type=int, default=2)
    parser.add_argument("--gate", help="put every second unit into a range of this name")
    parser.add_argument("--steps", action="store_true", help="a range around every decode step")
    parser.add_argument("--marks", action="store_true", help="a mark before every unit, and no range that comes back")
    parser.add_argument("--modules", action="store_true", help="a range around every module")
    parser.add_argument("--profiler", help="record with torch.profiler into this file")
    arguments = parser.parse_args(words)
    model = build(arguments.model)
    result = {"torch": torch.__version__, "cuda": torch.version.cuda, "device": torch.cuda.get_device_name()}
    result["pid_start_ns"] = time.monotonic_ns()
    for name in arguments.work.split(","):
        if name == "decode":
            work = Decode(model, tokens=arguments.tokens, ranges=arguments.steps)
        elif name == "prefill":
            work = Prefill(model, prompt=arguments.prompt)
        else:
            work = Graph(model, ranges=arguments.modules)
        for _ in range(arguments.warm):
            timed(work)
        hooks = module_ranges(model) if arguments.modules and name != "graph" else []
        units = []
        profiler = None
        if arguments.profiler:
            profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA])
            profiler.start()
            timed(work)
        torch.cuda.nvtx.range_push(name)
        begin = time.monotonic_ns()
        for unit in range(arguments.units):
            gated = arguments.gate and unit % 2 == 0
            if gated:
                torch.cuda.nvtx.range_push(arguments.gate)
            if arguments.marks:
                torch.cuda.nvtx.mark("unit")
            units.append(timed(work)[0])
            if gated:
                torch.cuda.nvtx.range_pop()
        result[name + "_window_ns"] = [begin, time.monotonic_ns()]
        torch.cuda.nvtx.range_pop()
        if profiler:
            profiler.stop()
            profiler.export_chrome_trace(arguments.profiler)
        for hook in hooks:
            hook.remove()
        result[name] = units
    return result


if __name__ == "__main__":
    print(json.dumps(main()))
    sys.stdout.flush()
