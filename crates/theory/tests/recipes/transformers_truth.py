"""Writes tests/data/transformers.json: what torch and transformers say of the models under tests/data/models.

Run with torch 2.11.0 and transformers 5.17.0:

    python crates/theory/tests/recipes/transformers_truth.py > crates/theory/tests/data/transformers.json

With `--tiny` it writes the small models alone, which takes seconds.

- `parameters`: the number of parameters of each published config, on torch's meta device.
- `defaults`: the same for each family's config class with nothing stated, where that is a model.
- `tiny`: for a small config of each family, as transformers 5 writes it, the tensors that `save_pretrained` stores.
- `flops`: FlopCounterMode over encoder, prefill and one decode step with eager attention. Dense models run on the meta device at
  their published size; mixtures of experts and windows run small on the CPU, since routing needs values.
"""

import gc
import json
import logging
import math
import pathlib
import struct
import sys
import tempfile

import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache

logging.disable(logging.WARNING)
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
torch.manual_seed(0)

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"

VISION = {
    "clip_vision_model": transformers.CLIPVisionModel,
    "siglip_vision_model": transformers.SiglipVisionModel,
    "sam_vision_model": transformers.SamVisionModel,
}

TINY_BASE = dict(vocab_size=96, hidden_size=64, intermediate_size=112, num_hidden_layers=4, num_attention_heads=8,
                 num_key_value_heads=2, max_position_embeddings=256)
TINY_EXPERTS = dict(TINY_BASE, moe_intermediate_size=48, num_experts_per_tok=2)
TINY_DELTA = dict(head_dim=16, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=12)
TINY_AXES = dict(rope_type="default", rope_theta=10000.0, mrope_section=[1, 1, 0], partial_rotary_factor=0.25)

TINY = {
    "llama": dict(TINY_BASE, attention_bias=True, mlp_bias=True),
    "mistral": dict(TINY_BASE, sliding_window=8, head_dim=16),
    "qwen2": dict(TINY_BASE, use_sliding_window=True, sliding_window=8, max_window_layers=2, tie_word_embeddings=True),
    "qwen3": dict(TINY_BASE, head_dim=24),
    "phi3": dict(TINY_BASE, sliding_window=8, pad_token_id=0, rope_parameters=dict(
        rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.5, short_factor=[1.0, 1.5],
        long_factor=[2.0, 4.0]), original_max_position_embeddings=64),
    "gemma2": dict(TINY_BASE, head_dim=24, sliding_window=8, query_pre_attn_scalar=24),
    "gemma3_text": dict(TINY_BASE, head_dim=24, sliding_window=8, num_hidden_layers=7),
    "gpt2": dict(vocab_size=96, n_embd=64, n_layer=3, n_head=4, n_positions=128),
    "gpt_neox": dict({k: v for k, v in TINY_BASE.items() if k != "num_key_value_heads"}, num_attention_heads=4),
    "opt": dict(vocab_size=96, hidden_size=64, ffn_dim=112, num_hidden_layers=3, num_attention_heads=4,
                word_embed_proj_dim=32, do_layer_norm_before=False, max_position_embeddings=128),
    "mixtral": dict(TINY_BASE, num_local_experts=6, num_experts_per_tok=2, sliding_window=8),
    "qwen2_moe": dict(TINY_EXPERTS, num_experts=6, shared_expert_intermediate_size=80, mlp_only_layers=[1]),
    "qwen3_moe": dict(TINY_EXPERTS, num_experts=6, head_dim=24, decoder_sparse_step=2),
    "qwen3_next": dict(TINY_EXPERTS, **TINY_DELTA, num_experts=6, shared_expert_intermediate_size=80, decoder_sparse_step=2),
    "qwen3_5_text": dict(TINY_BASE, **TINY_DELTA, rope_parameters=TINY_AXES, tie_word_embeddings=True),
    "qwen3_5_moe_text": dict({k: v for k, v in TINY_EXPERTS.items() if k != "intermediate_size"}, **TINY_DELTA, num_experts=6,
                             shared_expert_intermediate_size=80, rope_parameters=TINY_AXES,
                             layer_types=["full_attention", "linear_attention", "linear_attention", "full_attention"]),
    "gpt_oss": dict(TINY_BASE, num_local_experts=6, num_experts_per_tok=2, head_dim=16, sliding_window=8),
    "deepseek_v2": dict(TINY_EXPERTS, num_key_value_heads=8, q_lora_rank=None, kv_lora_rank=32, qk_nope_head_dim=16,
                        qk_rope_head_dim=8, v_head_dim=12, n_routed_experts=6, n_shared_experts=2,
                        first_k_dense_replace=1, n_group=1, topk_group=1),
    "deepseek_v3": dict(TINY_EXPERTS, num_key_value_heads=8, q_lora_rank=40, kv_lora_rank=32, qk_nope_head_dim=16,
                        qk_rope_head_dim=8, v_head_dim=12, n_routed_experts=8, n_shared_experts=1,
                        first_k_dense_replace=2, n_group=2, topk_group=1),
}

# Models of two stacks, and the class that generates with each.
PAIRS = {"t5": transformers.T5ForConditionalGeneration, "whisper": transformers.WhisperForConditionalGeneration}

TINY_PAIRS = {
    "t5": dict(vocab_size=96, d_model=64, d_kv=12, d_ff=112, num_layers=3, num_decoder_layers=2, num_heads=4,
               relative_attention_num_buckets=16, feed_forward_proj="gated-gelu"),
    "whisper": dict(vocab_size=96, num_mel_bins=20, d_model=64, encoder_layers=3, encoder_attention_heads=4,
                    decoder_layers=2, decoder_attention_heads=8, encoder_ffn_dim=112, decoder_ffn_dim=80,
                    max_source_positions=30, max_target_positions=48, pad_token_id=0, bos_token_id=0, eos_token_id=0,
                    decoder_start_token_id=1, suppress_tokens=None, begin_suppress_tokens=None),
}

# Qwen3.5 behind its vision tower.
SEEING = {"qwen3_5": transformers.Qwen3_5ForConditionalGeneration, "qwen3_5_moe": transformers.Qwen3_5MoeForConditionalGeneration}

# Published sizes whose FLOPs are counted on the meta device.
META_FLOPS = ["llama3_1_8b", "qwen2_5_0_5b", "qwen3_8b", "mistral_7b", "phi3_mini_4k", "gemma2_9b", "gemma3_1b", "gpt2",
              "opt_1_3b", "opt_350m", "pythia_1b", "t5_small", "whisper_tiny", "whisper_large_v3"]


def clean(config):
    """A config without the keys that say nothing about the model."""
    drop = {"architectures", "transformers_version", "id2label", "label2id", "problem_type", "return_dict",
            "output_hidden_states", "output_attentions", "chunk_size_feed_forward", "is_encoder_decoder",
            "task_specific_params",
            "_name_or_path", "initializer_range", "bos_token_id", "eos_token_id", "pad_token_id", "use_cache"}
    return {key: value for key, value in config.to_dict().items() if key not in drop and not key.startswith("summary")}


def config_of(entry):
    entry = dict(entry)
    entry.pop("quantization_config", None)
    return AutoConfig.for_model(entry.pop("model_type"), **entry)


def build(config, device):
    # Loops over experts of plain matrix products: the counter does not know grouped ones.
    config._experts_implementation = "eager"
    with torch.device(device):
        if config.model_type in VISION:
            model = VISION[config.model_type]._from_config(config, attn_implementation="eager")
        elif config.model_type in PAIRS:
            model = PAIRS[config.model_type]._from_config(config, attn_implementation="eager")
        elif config.model_type in SEEING:
            model = SEEING[config.model_type]._from_config(config, attn_implementation="eager")
        elif config.model_type == "qwen2_5_vl":
            model = transformers.Qwen2_5_VLForConditionalGeneration._from_config(config, attn_implementation="eager")
        else:
            model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    return model.eval()


def parameters(config):
    return sum(p.numel() for p in build(config, "meta").parameters())


def solve_flops(triangle, columns, out_shape=None, **_):
    """A triangle with ones on its diagonal: a product and a sum for each element below it and each column. torch does not count it."""
    size = triangle[-1]
    return math.prod(triangle[:-2]) * size * (size - 1) * columns[-1]


def counted(run, left_out=()):
    with FlopCounterMode(display=False, custom_mapping={torch.ops.aten.linalg_solve_triangular: solve_flops}) as counter, torch.no_grad():
        result = run()
    by_operator = counter.get_flop_counts()["Global"]
    return sum(flops for operator, flops in by_operator.items() if operator not in left_out), result


def text_flops(config, device, batch, prompt):
    """FLOPs of a prefill with all logits, and of one decode step after it."""
    model = build(config, device)
    cache = DynamicCache(config=config.get_text_config())
    # Positions per sequence, as a batch with padding has them.
    def step(start, length):
        ids = torch.ones(batch, length, dtype=torch.long, device=device)
        positions = torch.arange(start, start + length, device=device)[None].expand(batch, -1)
        if config.model_type in ("opt", "gpt2", "qwen2_5_vl", *SEEING):
            return model(input_ids=ids, past_key_values=cache, use_cache=True)
        return model(input_ids=ids, position_ids=positions, past_key_values=cache, use_cache=True)
    # Gated delta layers convolve each channel by itself, which is no matrix work.
    left_out = [torch.ops.aten.convolution]
    prefill, _ = counted(lambda: step(0, prompt), left_out)
    decode, _ = counted(lambda: step(prompt, 1), left_out)
    return {"batch": batch, "prompt": prompt, "prefill": prefill, "decode": decode}


def pair_flops(config, device, batch, prompt):
    """FLOPs of the encoder, of the decoder over its first tokens, and of one decode step. The prompt goes to the encoder, or to the
    decoder beside audio."""
    model = build(config, device)
    hears = config.model_type == "whisper"
    prompts = torch.ones(batch, prompt, dtype=torch.long, device=device)
    if hears:
        given = torch.zeros(batch, config.num_mel_bins, 2 * config.max_source_positions, device=device)
    else:
        given = prompts
    start = prompts if hears else prompts[:, :1]
    encoder, encoded = counted(lambda: model.get_encoder()(given))
    def step(ids, cache):
        return model(encoder_outputs=encoded, decoder_input_ids=ids, past_key_values=cache, use_cache=True)
    prefill, first = counted(lambda: step(start, None))
    decode, _ = counted(lambda: step(prompts[:, :1], first.past_key_values))
    return {"batch": batch, "prompt": prompt, "encoder": encoder, "prefill": prefill, "decode": decode}


def vision_flops(config, images):
    model = build(config, "meta")
    side = config.image_size
    pixels = torch.zeros(images, 3, side, side, device="meta")
    flops, _ = counted(lambda: model(pixels))
    return {"images": images, "vision": flops}


def qwen_vision_flops(height, width):
    """The vision tower of a small Qwen2.5-VL over one image, on the CPU."""
    config = qwen_vl_tiny()
    tower = transformers.models.qwen2_5_vl.modeling_qwen2_5_vl.Qwen2_5_VisionTransformerPretrainedModel._from_config(
        config.vision_config, attn_implementation="eager").eval()
    rows, columns = height // 14, width // 14
    pixels = torch.zeros(rows * columns, 3 * 2 * 14 * 14)
    flops, _ = counted(lambda: tower(pixels, grid_thw=torch.tensor([[1, rows, columns]])))
    return {"height": height, "width": width, "vision": flops}


def qwen_vl_tiny():
    text = dict(TINY_BASE, rope_parameters=dict(rope_type="default", rope_theta=10000.0, mrope_section=[1, 1, 2]))
    vision = dict(depth=4, hidden_size=32, intermediate_size=48, num_heads=2, out_hidden_size=64,
                  fullatt_block_indexes=[1, 3], window_size=112)
    return transformers.Qwen2_5_VLConfig(text_config=text, vision_config=vision)


def seeing_tiny(family):
    text = {key: value for key, value in TINY[f"{family}_text"].items() if key != "tie_word_embeddings"}
    vision = dict(depth=3, hidden_size=32, intermediate_size=48, num_heads=2, out_hidden_size=64, num_position_embeddings=16)
    return AutoConfig.for_model(family, text_config=text, vision_config=vision)


def seeing_flops(config, height, width):
    """The vision tower of a small Qwen3.5 over one image, on the CPU."""
    tower = build(config, "cpu").model.visual
    rows, columns = height // 16, width // 16
    pixels = torch.zeros(rows * columns, 3 * 2 * 16 * 16)
    flops, _ = counted(lambda: tower(pixels, grid_thw=torch.tensor([[1, rows, columns]])))
    return {"height": height, "width": width, "vision": flops}


def saved_tensors(config):
    """Names and shapes in the safetensors file that `save_pretrained` writes."""
    model = build(config, "cpu")
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        with open(pathlib.Path(folder) / "model.safetensors", "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    return {name: entry["shape"] for name, entry in sorted(header.items()) if name != "__metadata__"}


def main():
    result = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__,
              "parameters": {}, "defaults": {}, "tiny": {}, "flops": []}
    published = {path.stem: json.loads(path.read_text()) for path in sorted((DATA / "models").glob("*.json"))}
    if "--tiny" in sys.argv:
        published = {}
    for name, entry in published.items():
        # transformers has no DeepSeek-OCR of the first generation.
        if entry["model_type"] == "deepseek_vl_v2":
            continue
        # T5 1.1 has a head of its own, which transformers 5 ties all the same.
        if entry["model_type"] == "t5" and entry.get("tie_word_embeddings") is False:
            continue
        config = config_of(entry)
        result["parameters"][name] = parameters(config)
        if name in META_FLOPS:
            flops = pair_flops if entry["model_type"] in PAIRS else text_flops
            result["flops"].append({"model": name, **flops(config, "meta", 2, 40)})
        if entry["model_type"] in VISION:
            result["flops"].append({"model": name, **vision_flops(config, 2)})
        gc.collect()
    defaults = [] if "--tiny" in sys.argv else [*TINY, *TINY_PAIRS, *VISION]
    for family in defaults:
        # The class states no number of experts per token.
        if family != "deepseek_v2":
            result["defaults"][family] = parameters(AutoConfig.for_model(family))
    for family, entry in TINY.items():
        config = AutoConfig.for_model(family, **entry)
        result["tiny"][family] = {
            "config": clean(config),
            "parameters": parameters(config),
            "tensors": saved_tensors(config),
            "flops": [text_flops(config, "cpu", 1, 5), text_flops(config, "cpu", 2, 21)],
        }
    for family, entry in TINY_PAIRS.items():
        config = AutoConfig.for_model(family, **entry)
        result["tiny"][family] = {
            "config": clean(config),
            "parameters": parameters(config),
            "tensors": saved_tensors(config),
            "flops": [pair_flops(config, "cpu", 1, 5), pair_flops(config, "cpu", 3, 21)],
        }
    config = qwen_vl_tiny()
    result["tiny"]["qwen2_5_vl"] = {
        "config": clean(config),
        "parameters": parameters(config),
        "tensors": saved_tensors(config),
        "flops": [qwen_vision_flops(112, 112), qwen_vision_flops(140, 336), text_flops(config, "cpu", 2, 21)],
    }
    for family in SEEING:
        config = seeing_tiny(family)
        result["tiny"][family] = {
            "config": clean(config),
            "parameters": parameters(config),
            "tensors": saved_tensors(config),
            "flops": [seeing_flops(config, 256, 256), seeing_flops(config, 320, 512), text_flops(config, "cpu", 2, 70)],
        }
    json.dump(result, sys.stdout, indent=1)
    print()


main()
