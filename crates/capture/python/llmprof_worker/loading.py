"""Makes a model ready: its weights, its tokenizer, and what is known of it."""

from __future__ import annotations

import platform
import time
from pathlib import Path
from typing import Any

import torch
import transformers

from . import configs, devices, dtypes, dummy, packages, pages, quantized, ranks
from .failure import Failure, first_line, is_out_of_memory
from .issues import Issues
from .ready import Ready
from .requests import Load

# Transformers imports its parts when they are first named.
_ = (transformers.PreTrainedModel, transformers.AutoModelForCausalLM, transformers.StaticCache)
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


def load(request: Load) -> tuple[Ready, dict[str, Any]]:
    """The model and the answer to the request."""
    start = time.monotonic_ns()
    if request.weights:
        quantized.maker(request.weights)
    device = devices.device_of(ranks.own_device(request.device))
    if request.threads:
        torch.set_num_threads(request.threads)
    config = configs.config_of(request)
    dtype = configs.dtype_of(request, device)
    if request.load_format == "dummy":
        module = dummy_model(request, config, dtype, device)
    else:
        module = stored_model(request, config, dtype, device)
    module.eval().requires_grad_(False)
    computed = module_dtype(module, dtype)
    multiplied_by = quantized.quantize(module, request.weights) if request.weights else None
    ranks.split(module, request, device)
    tokenizer = tokenizer_of(request)
    processor = pages.processor_of(request, config) if getattr(config, "vision_config", None) is not None else None
    ready = Ready(module, device, computed, request, tokenizer, processor)
    devices.synchronize(device)
    return ready, answer(ready, start, multiplied_by)


def arguments(request: Load, dtype: torch.dtype) -> dict[str, Any]:
    """What both ways of making a model are told. The name of the dtype's argument changed in transformers 4.56."""
    new = packages.numbers(transformers.__version__) >= (4, 56)
    told: dict[str, Any] = {"dtype" if new else "torch_dtype": dtype}
    if request.options.attn_implementation:
        told["attn_implementation"] = request.options.attn_implementation
    if request.options.experts_implementation:
        told["experts_implementation"] = request.options.experts_implementation
    if request.options.trust_remote_code:
        told["trust_remote_code"] = True
    return told


def dummy_model(request: Load, config: Any, dtype: torch.dtype, device: torch.device) -> Any:
    kind = configs.class_of(config, request)
    try:
        return dummy.make(lambda: kind.from_config(config, **arguments(request, dtype)), device, request.seed)
    except Exception as error:
        raise refused("cannot make the model", error) from error


def stored_model(request: Load, config: Any, dtype: torch.dtype, device: torch.device) -> Any:
    if not request.path:
        raise Failure("bad_request", "there is no directory to load weights from")
    if not Path(request.path).is_dir():
        raise Failure("model", f"there is no directory {request.path}")
    kind = configs.class_of(config, request)
    try:
        module, told = kind.from_pretrained(request.path, config=config, local_files_only=True, use_safetensors=request.load_format == "safetensors",
                                            output_loading_info=True, **arguments(request, dtype))
        missing = sorted(told["missing_keys"])
        if missing:
            raise Failure("model", f"{len(missing)} tensors are not in {request.path}, among them {missing[0]}")
        return module.to(device)
    except Exception as error:
        raise refused(f"cannot load {request.path}", error) from error


def refused(what: str, error: Exception) -> Exception:
    """Transformers says what a model lacks in many types; what is missing or too large keeps its kind."""
    if isinstance(error, Failure) or is_out_of_memory(error):
        return error
    kind = "missing" if isinstance(error, ImportError) else "model"
    return Failure(kind, f"{what}: {first_line(error)}")


def module_dtype(module: torch.nn.Module, asked: torch.dtype) -> torch.dtype:
    """The format of most weights: a few may be kept wider."""
    sizes: dict[torch.dtype, int] = {}
    for parameter in module.parameters():
        if parameter.is_floating_point():
            sizes[parameter.dtype] = sizes.get(parameter.dtype, 0) + parameter.numel()
    return max(sizes, key=lambda dtype: sizes[dtype], default=asked)


def tokenizer_of(request: Load) -> Any:
    """The tokenizer asked for, which must be there, else that of the model's directory where it has one."""
    place = Path(request.tokenizer or request.path or "")
    whole, described = place / "tokenizer.json", place / "tokenizer_config.json"
    if not request.tokenizer and not (request.path and (whole.is_file() or described.is_file())):
        return None
    if not place.exists():
        raise Failure("model", f"there is no tokenizer {place}", "model.tokenizer=DIR names its directory or file")
    try:
        if place.is_file() or not described.is_file():
            file = place if place.is_file() else whole
            return transformers.PreTrainedTokenizerFast(tokenizer_file=str(file))
        return transformers.AutoTokenizer.from_pretrained(
            place, local_files_only=True, trust_remote_code=request.options.trust_remote_code)
    except Exception as error:
        raise Failure("model", f"cannot read the tokenizer {place}: {first_line(error)}") from error


def answer(ready: Ready, start: int, multiplied_by: str | None) -> dict[str, Any]:
    parameters = list(ready.module.parameters())
    elements, stored_bytes = quantized.sums(ready.module)
    return {
        "start_ns": start,
        "end_ns": time.monotonic_ns(),
        "dtype": dtypes.name_of(ready.dtype),
        "parameters": sum(one.numel() for one in parameters) + elements,
        "weight_bytes": sum(one.numel() * one.element_size() for one in parameters) + stored_bytes,
        "vocab_size": ready.vocabulary,
        "threads": torch.get_num_threads(),
        "tokenizer": ready.tokenizer is not None,
        "facts": facts(ready) | ({"quantized_by": multiplied_by, "precision.weights": ready.request.weights} if multiplied_by else {}),
        "packages": packages.installed(),
        **issues(ready),
    }


def issues(ready: Ready) -> dict[str, Any]:
    found = Issues()
    devices.not_captured(ready.device, found)
    return {"issues": found.found} if found.found else {}


def kv_cache_of(ready: Ready) -> str:
    """What is known of the cache at the start: how long it is fixed to be depends on the images, where there are some."""
    if not ready.request.options.fixed_cache:
        return "grows"
    return "fixed" if ready.processor is not None else f"fixed, {ready.request.max_positions} positions"


def experts_of(config: Any) -> dict[str, str]:
    """Which code multiplies the experts, for models that have some; transformers chooses between several from version 5 on."""
    names = ("num_experts", "num_local_experts", "n_routed_experts")
    chosen = getattr(config, "_experts_implementation", None)
    return {"experts_implementation": str(chosen)} if chosen and any(getattr(config, name, None) for name in names) else {}


def facts(ready: Ready) -> dict[str, str]:
    options = ready.request.options
    config = ready.module.config
    told = {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "transformers": transformers.__version__,
        "model_class": type(ready.module).__name__,
        "attn_implementation": str(getattr(config, "_attn_implementation", None) or "unknown"),
        **experts_of(config.get_text_config()),
        "compile": options.compile,
        "cuda_graph": str(options.cuda_graph).lower(),
        **({"ranks": str(options.ranks)} if options.ranks > 1 else {}),
        "kv_cache": kv_cache_of(ready),
    }
    if getattr(config.get_text_config(), "num_attention_heads", None) is None:
        # A model of states, not of attention: it keeps no keys and values.
        del told["attn_implementation"], told["kv_cache"]
    name = dtypes.name_of(ready.dtype)
    told.update({f"precision.{part}": name for part in ("weights", "activations", "kv")})
    if ready.device.type == "cuda":
        told["cuda"] = str(torch.version.cuda)
        told["device_name"] = torch.cuda.get_device_name(ready.device)
    return told
