"""A decoder of Qwen2.5-0.5B's shape with random weights, its forward passes inside `step` ranges. Downloads nothing.

On a GPU, recorded by llmprof's own library, then reported with the model's rooflines; no workload is stated anywhere:

    llmprof record -o runs/steps -- python python/examples/qwen2_steps.py --write-config config.json
    llmprof import runs/steps/cupti --config config.json -o runs/steps_model

Anywhere, by torch.profiler, with the same report from inside of the script:

    python python/examples/qwen2_steps.py --profile runs/steps_torch
    python python/examples/qwen2_steps.py --profile runs/tiny --layers 2 --hidden 64 --device cpu --dtype float32
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from pathlib import Path

import torch
from transformers import DynamicCache, Qwen2Config, Qwen2ForCausalLM

from llmprof_harness import nvtx_range, profile, step


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--prompt-tokens", type=int, default=128)
    parser.add_argument("--new-tokens", type=int, default=33)
    parser.add_argument("--requests", type=int, default=2, help="measured ones; one more runs first, to warm up")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--hidden", type=int, default=896)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--write-config", type=Path, metavar="FILE", help="leave the model's config.json there")
    parser.add_argument("--profile", type=Path, metavar="DIR", help="record by torch.profiler, into this run directory")
    return parser.parse_args()


def build(args: argparse.Namespace) -> Qwen2ForCausalLM:
    heads = max(args.hidden // 64, 1)
    config = Qwen2Config(
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 38 // 7,
        num_hidden_layers=args.layers,
        num_attention_heads=heads,
        num_key_value_heads=2 if heads % 2 == 0 else 1,
        vocab_size=151_936 if args.hidden >= 512 else 1024,
        max_position_embeddings=32_768,
        tie_word_embeddings=True,
        torch_dtype=args.dtype,
    )
    torch.set_default_dtype(getattr(torch, args.dtype))
    with torch.device(args.device):
        model = Qwen2ForCausalLM(config).eval()
    torch.set_default_dtype(torch.float32)
    return model


def request(model: Qwen2ForCausalLM, args: argparse.Namespace) -> torch.Tensor:
    """One batch from prompt to last token, greedy."""
    shape = (args.batch, args.prompt_tokens)
    tokens = torch.randint(model.config.vocab_size, shape, device=args.device)
    cache = DynamicCache()
    generated = []
    for number in range(args.new_tokens):
        # Every sequence has the same length here; lists say otherwise.
        with step(batch=args.batch, new_tokens=tokens.shape[1], cached=cache.get_seq_length()):
            logits = model(tokens, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
            tokens = logits[:, -1].argmax(-1, keepdim=True)
            # As a server that streams would: the step is over when its token is on the host.
            generated.append(tokens.cpu())
    return torch.cat(generated, dim=1)


@torch.inference_mode()
def main() -> None:
    args = arguments()
    torch.manual_seed(0)
    model = build(args)
    if args.write_config:
        args.write_config.write_text(json.dumps(model.config.to_dict(), default=str))
    with nvtx_range("warmup"):
        request(model, args)
    recording = profile(args.profile, model=model) if args.profile else contextlib.nullcontext()
    with recording:
        for _ in range(args.requests):
            tokens = request(model, args)
    print(f"{args.requests} requests of {tuple(tokens.shape)} tokens", file=sys.stderr)
    if args.profile:
        print(args.profile / "report.html")


if __name__ == "__main__":
    main()
