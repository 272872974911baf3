"""Writes ../data/common_keys.json: small configs of types without a family, and their parameters, counted by transformers on torch's meta device.

    python common_keys.py > ../data/common_keys.json
"""

import json

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

BASE = {
    "vocab_size": 32000, "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 6, "num_attention_heads": 16, "num_key_value_heads": 4,
    "head_dim": 64, "tie_word_embeddings": False,
}
LATENT = {"num_key_value_heads": 16, "kv_lora_rank": 256, "q_lora_rank": 512, "qk_rope_head_dim": 32, "qk_nope_head_dim": 64, "v_head_dim": 64}
CASES = {
    "youtu": {**BASE, **LATENT, "tie_word_embeddings": True},
    "minicpm3": {**BASE, **LATENT, "tie_word_embeddings": True},
    "doge": {**BASE, "is_moe": False, "num_experts": 64},
    "llama4_text": {**BASE, "intermediate_size_mlp": 4096, "num_local_experts": 8, "num_experts_per_tok": 1, "interleave_moe_layer_step": 2},
    "aria_text": {**BASE, "intermediate_size": 1024, "moe_num_experts": 8, "moe_topk": 2, "moe_num_shared_experts": 2},
    "nanochat": BASE,
    "cohere2": {**BASE, "tie_word_embeddings": True},
    "starcoder2": BASE,
    "stablelm": BASE,
    "gpt_bigcode": {"vocab_size": 32000, "n_embd": 1024, "n_layer": 6, "n_head": 16, "multi_query": True, "n_inner": 4096, "tie_word_embeddings": True},
    "phi": {**BASE, "num_key_value_heads": 16},
    "olmo2": BASE,
    "olmoe": {**BASE, "num_experts": 16, "num_experts_per_tok": 4},
    "granite": BASE,
    "exaone4": BASE,
    "bloom": {"vocab_size": 32000, "hidden_size": 1024, "n_layer": 6, "n_head": 16, "tie_word_embeddings": True},
    "mpt": {"vocab_size": 32000, "d_model": 1024, "n_layers": 6, "n_heads": 16, "tie_word_embeddings": True},
    "gptj": {"vocab_size": 32000, "n_embd": 1024, "n_layer": 6, "n_head": 16, "tie_word_embeddings": False},
    "arcee": BASE,
    "seed_oss": BASE,
    "ernie4_5": BASE,
    "glm4_moe": {**BASE, "moe_intermediate_size": 512, "n_routed_experts": 16, "num_experts_per_tok": 4, "n_shared_experts": 1, "first_k_dense_replace": 1},
    "minimax_m2": {**BASE, "num_local_experts": 8},
}

found = []
for kind, keys in CASES.items():
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(CONFIG_MAPPING[kind](**keys))
    found.append({"config": {"model_type": kind, **keys}, "parameters": sum(tensor.numel() for tensor in model.parameters())})
print(json.dumps(found, indent=1))
