"""What llmprof asks for, as types. Keys that are not known here are refused, as the protocol says."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, TypeVar

from .failure import Failure

T = TypeVar("T")


def read(kind: type[T], data: Any) -> T:
    """An object of `kind` from a JSON object with exactly its keys."""
    if not isinstance(data, dict):
        raise Failure("protocol", f"{kind.__name__} must be an object")
    fields = {one.name: one for one in dataclasses.fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(data.keys() - fields.keys())
    if unknown:
        raise Failure("protocol", f"{kind.__name__} has no key `{unknown[0]}`")
    missing = [name for name, one in fields.items() if name not in data and is_required(one)]
    if missing:
        raise Failure("protocol", f"{kind.__name__} lacks the key `{missing[0]}`")
    return kind(**data)


def is_required(one: dataclasses.Field[Any]) -> bool:
    return one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING


@dataclass
class LoadOptions:
    attn_implementation: str | None = None
    experts_implementation: str | None = None
    compile: str = "off"
    cuda_graph: bool = False
    trust_remote_code: bool = False
    preprocess: dict[str, Any] | None = None
    ranks: int = 1

    @property
    def fixed_cache(self) -> bool:
        """Compiled and captured steps need a cache whose memory does not move."""
        return self.cuda_graph or self.compile != "off"


@dataclass
class Load:
    config: dict[str, Any]
    load_format: str
    device: str
    max_batch: int
    max_positions: int
    seed: int
    path: str | None = None
    tokenizer: str | None = None
    dtype: str | None = None
    weights: str | None = None
    threads: int | None = None
    options: LoadOptions = field(default_factory=LoadOptions)

    @staticmethod
    def of(data: Any) -> Load:
        load = read(Load, data)
        if isinstance(load.options, dict):
            load.options = read(LoadOptions, load.options)
        return load


@dataclass
class Profile:
    activities: list[str]
    shapes: bool = False
    memory: bool = False
    stacks: bool = False
    flops: bool = False


@dataclass
class Instruments:
    module_ranges: bool = False
    profile: Profile | None = None
    memory_snapshot: str | None = None
    cuda_profiler: bool = False


@dataclass
class Image:
    height: int
    width: int
    path: str | None = None


@dataclass
class Request:
    id: str
    prompt: dict[str, Any]
    max_new_tokens: int
    images: list[Image] = field(default_factory=list)


@dataclass
class Sampling:
    do_sample: bool
    temperature: float
    no_repeat_ngram_size: int
    seed: int


@dataclass
class Generate:
    requests: list[Request]
    sampling: Sampling
    ignore_eos: bool
    max_prompt_tokens: int | None = None
    events: str | None = None
    instruments: Instruments = field(default_factory=Instruments)

    @staticmethod
    def of(data: Any) -> Generate:
        batch = read(Generate, data)
        batch.requests = [read(Request, request) for request in batch.requests]
        for request in batch.requests:
            request.images = [read(Image, image) for image in request.images]
        batch.sampling = read(Sampling, batch.sampling)
        if isinstance(batch.instruments, dict):
            batch.instruments = read(Instruments, batch.instruments)
        if isinstance(batch.instruments.profile, dict):
            batch.instruments.profile = read(Profile, batch.instruments.profile)
        if batch.events and batch.instruments.profile is None:
            batch.instruments.profile = Profile(activities=["cpu", "cuda"], shapes=True)
        return batch


@dataclass
class Measure:
    """Micro-benchmarks of a device."""

    device: str
    seconds: float
    full: bool = True

    @staticmethod
    def of(data: Any) -> Measure:
        return read(Measure, data)


@dataclass
class Trace:
    """Kernels of a model on the meta device: of a prompt, and of decode steps that find so many cached tokens."""

    config: dict[str, Any]
    batch: int
    prompt: int
    contexts: list[int]
    dtype: str | None = None
    attn_implementation: str | None = None

    @staticmethod
    def of(data: Any) -> Trace:
        request = read(Trace, data)
        if min([request.batch, request.prompt, *request.contexts]) < 1:
            raise Failure("bad_request", "batch, prompt and contexts must be positive")
        return request
