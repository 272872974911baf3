"""Writes tests/data/deepseek_ocr2.json: what torch and transformers say of DeepSeek-OCR-2.

Run with torch 2.11.0 and transformers 5.17.0:

    python crates/theory/tests/recipes/deepseek_ocr2_truth.py > crates/theory/tests/data/deepseek_ocr2.json

- `published`: parameters of conf/model/deepseek_ocr2.yaml on torch's meta device, by part.
- `tiny`: a small config, the names and shapes of its vision tensors as the module has them, its parameters, and what
  FlopCounterMode counts for images of 1024 pixels and crops of 768 on the meta device, and for the decoder on the CPU.
"""

import json
import logging
import pathlib

import torch
import transformers
import yaml
from torch.utils.flop_counter import FlopCounterMode

logging.disable(logging.WARNING)
transformers.logging.set_verbosity_error()
ROOT = pathlib.Path(__file__).resolve().parents[4]

TINY = dict(
    model_type="deepseek_ocr2",
    image_token_id=95,
    text_config=dict(
        vocab_size=96, hidden_size=64, intermediate_size=112, num_hidden_layers=3, num_attention_heads=8,
        num_key_value_heads=8, moe_intermediate_size=48, num_experts_per_tok=2, n_routed_experts=6, n_shared_experts=2,
        mlp_layer_types=["dense", "sparse", "sparse"], max_position_embeddings=4096, n_group=1, topk_group=1),
    vision_config=dict(
        sam_config=dict(hidden_size=32, output_channels=16, num_hidden_layers=3, num_attention_heads=2, image_size=1024,
                        window_size=14, global_attn_indexes=[1], downsample_channels=[24, 40]),
        encoder_config=dict(hidden_size=40, intermediate_size=72, num_hidden_layers=2, num_attention_heads=4,
                            num_key_value_heads=2, vocab_size=96)),
)


def build(data, device):
    data = dict(data)
    config = transformers.AutoConfig.for_model(data.pop("model_type"), **data)
    # Loops over experts of plain products: the counter does not know grouped ones.
    config._experts_implementation = "eager"
    config.text_config._experts_implementation = "eager"
    with torch.device(device):
        return transformers.AutoModelForImageTextToText.from_config(config, attn_implementation="eager").eval()


def count(module):
    return sum(one.numel() for one in module.parameters())


def flops(run):
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        run()
    return counter.get_total_flops()


def vision(model, images, crops):
    """The towers and the projector over whole images and crops, as `get_image_features` calls them."""
    def run():
        for views, side in ((images, 1024), (crops, 768)):
            if views:
                seen = model.model.vision_tower(torch.zeros(views, 3, side, side, device="meta"))
                model.model.multi_modal_projector(seen.last_hidden_state)
    return dict(images=images, crops=crops, flops=flops(run))


def text(model, batch, prompt):
    cache = transformers.DynamicCache(config=model.config.text_config)
    step = lambda start, length: model(
        input_ids=torch.ones(batch, length, dtype=torch.long), past_key_values=cache, use_cache=True,
        position_ids=torch.arange(start, start + length)[None].expand(batch, -1))
    return dict(batch=batch, prompt=prompt, prefill=flops(lambda: step(0, prompt)), decode=flops(lambda: step(prompt, 1)))


def published():
    data = yaml.safe_load((ROOT / "conf/model/deepseek_ocr2.yaml").read_text())
    for key in ("defaults", "name", "dtype", "hf_src"):
        data.pop(key, None)
    model = build(data, "meta")
    return dict(config=data, parameters=count(model), vision=count(model.model.vision_tower),
                projector=count(model.model.multi_modal_projector), decoder=count(model.model.language_model),
                image=vision(model, 1, 6))


def tiny():
    model = build(TINY, "meta")
    tower = {f"model.vision_tower.{name}": list(one.shape) for name, one in model.model.vision_tower.named_parameters()}
    return dict(config=TINY, parameters=count(model), vision_tensors=tower,
                vision_flops=[vision(model, 1, 0), vision(model, 2, 6)], text_flops=text(build(TINY, "cpu"), 2, 9))


print(json.dumps(dict(torch=torch.__version__.split("+")[0], transformers=transformers.__version__,
                      published=published(), tiny=tiny()), indent=1))
