"""Writes tests/data/FAMILY/: tiny models with random weights, prompts, and the logits that transformers gives.

Run with torch 2.11.0 and transformers 5.17.0:

    python crates/engine/tests/recipes/transformers_logits.py crates/engine/tests/data [FAMILY…]

Per model: `config.json` and `model.safetensors` as `save_pretrained` writes them (the weights of `sharded` in several
files), and `expected.safetensors` with, all f32 on the CPU with eager attention:

- `prompts`: batch × length token ids, longer than any window;
- `prefill`: the logits of every position;
- `forced`, `decode`: eight tokens per sequence and the logits after each;
- `greedy`: the tokens that `generate` appends without sampling and with `no_repeat_ngram_size=2`.
"""

import copy
import json
import logging
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache, GenerationConfig

logging.disable(logging.WARNING)
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

BATCH, PROMPT, STEPS, GREEDY = 2, 21, 8, 12

BASE = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=64, pad_token_id=None, bos_token_id=None, eos_token_id=None)
SHORT = dict(BASE, num_hidden_layers=1)
EXPERTS = dict(BASE, moe_intermediate_size=24, num_experts_per_tok=2)


def rope(kind, **rest):
    return dict(rope_type=kind, rope_theta=10000.0, **rest)


# Name of the model: family and the keys that differ from the family's defaults. No sequence crosses the length at which
# Phi-3 changes its factors, since `generate` then computes the cache anew.
MODELS = {
    "llama": ("llama", dict(BASE, attention_bias=True, mlp_bias=True)),
    "llama_rope_llama3": ("llama", dict(SHORT, rope_parameters=rope(
        "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16))),
    "llama_rope_linear": ("llama", dict(SHORT, rope_parameters=rope("linear", factor=2.5))),
    "llama_rope_dynamic": ("llama", dict(SHORT, max_position_embeddings=16, rope_parameters=rope("dynamic", factor=2.0))),
    "llama_rope_yarn": ("llama", dict(SHORT, rope_parameters=rope(
        "yarn", factor=4.0, beta_fast=4.0, beta_slow=1.0, original_max_position_embeddings=16))),
    "mistral": ("mistral", dict(BASE, sliding_window=6, head_dim=12)),
    "qwen2": ("qwen2", dict(BASE, use_sliding_window=True, sliding_window=6, max_window_layers=1,
                            tie_word_embeddings=True)),
    "qwen3": ("qwen3", dict(BASE, head_dim=12)),
    "phi3": ("phi3", dict(BASE, sliding_window=7, original_max_position_embeddings=18, rope_parameters=rope(
        "longrope", short_factor=[1.0, 1.25, 1.5, 2.0], long_factor=[1.5, 2.0, 3.0, 4.0]))),
    "phi3_partial": ("phi3", dict(SHORT, sliding_window=None, original_max_position_embeddings=48, rope_parameters=rope(
        "longrope", partial_rotary_factor=0.5, short_factor=[1.0, 1.25], long_factor=[1.5, 2.0]))),
    "gemma2": ("gemma2", dict(BASE, head_dim=12, sliding_window=6, query_pre_attn_scalar=10,
                              attn_logit_softcapping=3.0, final_logit_softcapping=2.0)),
    "gpt2": ("gpt2", dict(vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=None,
                          eos_token_id=None)),
    "mixtral": ("mixtral", dict(BASE, num_local_experts=4, num_experts_per_tok=2, sliding_window=6)),
    "qwen3_moe": ("qwen3_moe", dict(EXPERTS, num_experts=5, head_dim=12, decoder_sparse_step=2, norm_topk_prob=True)),
    "sharded": ("llama", SHORT),
}


def randomize(model):
    """Weights large enough that every block shows in the logits, norms and biases included."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, 0.25)
            elif name.endswith("bias"):
                parameter.normal_(0.0, 0.2)
            else:
                parameter.add_(torch.randn_like(parameter) * 0.2)


def write(name, folder):
    family, keys = MODELS[name]
    torch.manual_seed(sum(map(ord, name)))
    config = AutoConfig.for_model(family, **keys)
    config._experts_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32).eval()
    randomize(model)
    prompts = torch.randint(0, 64, (BATCH, PROMPT))
    forced = torch.randint(0, 64, (BATCH, STEPS))
    # Dynamic rotation remembers the longest sequence that a model has seen.
    fresh = copy.deepcopy(model)
    cache = DynamicCache(config=config)
    with torch.no_grad():
        prefill = model(input_ids=prompts, past_key_values=cache, use_cache=True).logits
        decode = [model(input_ids=forced[:, i:i + 1], past_key_values=cache, use_cache=True).logits for i in range(STEPS)]
        settings = GenerationConfig(do_sample=False, max_new_tokens=GREEDY, no_repeat_ngram_size=2, pad_token_id=0)
        greedy = fresh.generate(prompts, attention_mask=torch.ones_like(prompts), generation_config=settings)
    assert all(torch.isfinite(t).all() for t in [prefill, *decode])
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder, max_shard_size="16KB" if name == "sharded" else "1GB")
    (folder / "generation_config.json").unlink(missing_ok=True)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()), indent=1) + "\n")
    save_file({
        "prompts": prompts.to(torch.int32), "forced": forced.to(torch.int32),
        "greedy": greedy[:, PROMPT:].to(torch.int32).contiguous(),
        "prefill": prefill.contiguous(), "decode": torch.cat(decode, dim=1).contiguous(),
    }, folder / "expected.safetensors")


def main():
    root = pathlib.Path(sys.argv[1])
    for name in sys.argv[2:] or MODELS:
        write(name, root / name)


main()
