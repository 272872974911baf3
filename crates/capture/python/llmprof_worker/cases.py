"""What `hardware measure --gpu` runs: kernels by shape, each as a call that can be repeated.

A case says what it launches in the words of llmprof's predictor (`Kernel` in crates/theory): a GEMM, a grouped GEMM, attention, or a stream
of elements with the way it goes through memory. Its tensors are made when it is prepared and dropped after it ran.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

Call = Callable[[int], Any]


@dataclass
class Case:
    kernel: dict[str, Any]
    prepare: Callable[[], Call]


@dataclass
class Sizes:
    """How far the sweeps go: all of a large GPU, or a few sizes that show that everything runs."""

    full: bool

    def powers(self, low: int, high: int, step: int = 1) -> list[int]:
        """2^low to 2^high; few and small where the sweep is not full."""
        return [1 << p for p in range(low, high + 1, step)] if self.full else [1 << low, 1 << min(low + 4, high)]

    def some(self, values: list[Any], few: int = 2) -> list[Any]:
        return values if self.full else values[:few]


def filled(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Random numbers on a GPU, whose clock falls with the bits that change; zeros on a CPU, which draws numbers slowly."""
    if device.type == "cpu":
        return torch.zeros(*shape, dtype=dtype)
    return torch.empty(*shape, dtype=dtype, device=device).normal_()


class Maker:
    """Cases for one device and number format."""

    def __init__(self, device: torch.device, dtype: torch.dtype, full: bool) -> None:
        self.device = device
        self.dtype = dtype
        self.sizes = Sizes(full)
        # Weights are views of one block, a different place at each call: as in a model they are not in the cache.
        elements = 3 << 29 if full else 1 << 20
        if device.type == "cuda":
            free = torch.cuda.mem_get_info(device)[0]
            elements = min(elements, free // 8)
        self.pool = filled((elements,), dtype, device)

    def new(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        return filled(shape, dtype or self.dtype, self.device)

    def cases(self) -> Iterator[Case]:
        yield from self.streams()
        yield from self.rows()
        yield from self.choices()
        yield from self.caches()
        yield from self.other_gemms()
        yield from self.attention()
        yield from self.grouped()
        yield from self.gemms()

    # GEMM

    def gemms(self) -> Iterator[Case]:
        columns = self.sizes.some([64, 256, 512, 1024, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 28672, 131072])
        depths = self.sizes.some([256, 512, 1024, 2048, 3072, 4096, 6144, 8192, 14336, 28672])
        shapes = [(m, n, k) for m in self.sizes.powers(0, 16) for n in columns for k in depths if self.affordable(m, n, k)]
        # Should time run out, the largest are missing, which resemble their neighbours most.
        for m, n, k in sorted(shapes, key=lambda shape: max(shape[0] * shape[1] * shape[2], 1 << 30)):
            yield gemm_case(m, n, k, 2, True, lambda m=m, n=n, k=k: self.linear(m, n, k))

    def affordable(self, m: int, n: int, k: int) -> bool:
        if n > 100_000 and m > 64:
            return False
        return 2 * m * n * k <= 4e12 and m * k + n * k < self.pool.numel() and n * k <= 1 << 29 and m * n <= 1 << 30

    def linear(self, m: int, n: int, k: int) -> Call:
        pool, rows = self.pool, self.pool[: m * k].view(m, k)

        def call(turn: int) -> Any:
            at = (m * k + turn * n * k) % (pool.numel() - n * k) // 64 * 64
            return F.linear(rows, pool[at : at + n * k].view(n, k))

        return call

    def other_gemms(self) -> Iterator[Case]:
        """GEMMs of rows that are not aligned, of many small matrices, and in 32 bits."""
        for m in self.sizes.some([1, 2, 4, 8, 64]):
            for n, k in self.sizes.some([(50257, 1600), (50265, 4096), (51201, 2048)], 1):
                if n * k * 2 < self.pool.numel():
                    yield gemm_case(m, n, k, 2, False, lambda m=m, n=n, k=k: self.linear(m, n, k))
        for groups in self.sizes.some([32, 64, 512, 2048]):
            for m, keys in self.sizes.some([(1, 512), (1, 2048), (1, 2049), (1, 513), (256, 256), (256, 257), (1024, 1024)]):
                if groups * (m * keys + (m + keys) * 64) < 1 << 31:
                    yield gemm_case(m, keys, 64, 2, keys % 8 == 0, lambda g=groups, m=m, n=keys: self.batched(g, m, n, 64), groups)
        for m in self.sizes.powers(0, 13, 2):
            for n, k in self.sizes.some([(64, 2048), (256, 7168), (160, 5120)], 1):
                yield gemm_case(m, n, k, 4, True, lambda m=m, n=n, k=k: self.wide(m, n, k))

    def batched(self, groups: int, m: int, n: int, k: int) -> Call:
        a, b = self.new(groups, m, k), self.new(groups, n, k).transpose(1, 2)
        return lambda _: torch.bmm(a, b)

    def wide(self, m: int, n: int, k: int) -> Call:
        a, b = self.new(m, k, dtype=torch.float32), self.new(n, k, dtype=torch.float32)
        return lambda _: F.linear(a, b)

    def grouped(self) -> Iterator[Case]:
        if not hasattr(F, "grouped_mm") or self.device.type != "cuda":
            return
        layers = [(8, 28672, 4096, 2), (8, 4096, 14336, 2), (32, 5760, 2880, 4), (60, 2816, 2048, 4), (60, 2048, 1408, 4),
                  (64, 2048, 2048, 8), (16, 12800, 4096, 2), (256, 4096, 7168, 8)]
        for experts, n, k, chosen in self.sizes.some(layers, 1):
            if experts * n * k > self.pool.numel() * 8:
                continue
            for tokens in self.sizes.powers(0, 14):
                if tokens * chosen * max(n, k) > 1 << 30 or 2 * tokens * chosen * n * k > 4e12:
                    continue
                kernel = {"kind": "grouped", "experts": experts, "tokens": tokens, "pairs": tokens * chosen, "n": n, "k": k}
                yield Case(kernel, lambda e=experts, n=n, k=k, c=chosen, t=tokens: self.experts(e, n, k, c, t))

    def experts(self, experts: int, n: int, k: int, chosen: int, tokens: int) -> Call:
        weights = self.new(experts, n, k).transpose(-2, -1)
        choice = torch.rand(tokens, experts, device=self.device).topk(chosen, -1).indices.reshape(-1)
        ends = torch.cumsum(torch.bincount(choice, minlength=experts), 0, dtype=torch.int32)
        rows = self.new(tokens * chosen, k)
        return lambda _: F.grouped_mm(rows, weights, offs=ends)

    # Attention

    def attention(self) -> Iterator[Case]:
        heads = [(32, 8, 128, 128), (32, 32, 128, 128), (32, 8, 64, 64), (32, 32, 64, 64), (16, 16, 192, 128), (8, 4, 256, 256),
                 (16, 16, 256, 256), (32, 32, 80, 80), (32, 32, 96, 96)]
        for batch in self.sizes.some([1, 2, 8, 32]):
            for keys in self.sizes.some([128, 512, 1024, 2048, 4096]):
                for count, kv, dim, value in self.sizes.some(heads):
                    for queries in (keys, 1):
                        for masked in (False, True):
                            if masked and (queries == 1 or count != kv or batch == 2 or keys == 4096):
                                continue
                            if queries > 1 and batch * count * keys * keys * dim > 4e12:
                                continue
                            yield self.attend(batch, count, kv, queries, keys, dim, value, masked)

    def attend(self, batch: int, heads: int, kv: int, queries: int, keys: int, dim: int, value: int, masked: bool) -> Case:
        kernel = {"kind": "attention", "batch": batch, "heads": heads, "kv_heads": kv, "queries": queries, "keys": keys,
                  "key_dim": dim, "value_dim": value, "causal": queries > 1 and not masked, "masked": masked}

        def prepare() -> Call:
            q = self.new(batch, queries, heads, dim).transpose(1, 2)
            k, v = self.new(batch, kv, keys, dim), self.new(batch, kv, keys, value)
            mask = torch.ones(batch, 1, queries, keys, dtype=torch.bool, device=self.device).tril(keys - queries) if masked else None
            options: dict[str, Any] = {"is_causal": queries > 1 and not masked, "attn_mask": mask}
            if heads != kv:
                options["enable_gqa"] = True
            return lambda _: F.scaled_dot_product_attention(q, k, v, **options)

        return Case(kernel, prepare)

    # Streams

    def streams(self) -> Iterator[Case]:
        half, size, wide = self.dtype, self.dtype.itemsize, torch.float32
        for n in self.sizes.powers(5, 29):
            yield stream("pointwise", 3 * n * size, n, lambda n=n: pair(torch.add, self.new(n), self.new(n)))
            yield stream("pointwise", 8 * n, n, lambda n=n: one(lambda x: x.pow(2), self.new(n, dtype=wide)))
            yield stream("transcendental", 2 * n * size, n, lambda n=n: one(F.silu, self.new(n)))
            yield stream("widen", n * (size + 4), n, lambda n=n: one(lambda x: x.to(wide), self.new(n)))
            yield stream("fill", n * size, n, lambda n=n: lambda _: torch.zeros(n, dtype=half, device=self.device))
        for n in self.sizes.powers(6, 29):
            width = min(n, 2048)
            yield stream("broadcast", 2 * n * size, n, lambda n=n, w=width: pair(torch.mul, self.new(w), self.new(n // w, w)))
            yield stream("broadcast", 8 * n, n, lambda n=n, w=width: pair(
                torch.mul, self.new(n // w, w, dtype=wide), self.new(n // w, 1, dtype=wide)))
        for n in self.sizes.powers(8, 28):
            tokens = max(n // 1024, 1)
            heads = max(n // tokens // 64, 1)
            yield stream("broadcast", 2 * n * size, n, lambda t=tokens, h=heads: pair(
                torch.mul, self.new(1, t, h, 64).transpose(1, 2), self.new(1, 1, t, 64)))
            yield stream("concat", 2 * n * size, n, lambda t=tokens, h=heads: one(
                lambda x: torch.cat((x[..., 32:], x[..., :32]), -1), self.new(1, t, h, 64).transpose(1, 2)))
            yield stream("gather", 2 * n * size, n, lambda n=n: self.looked_up(n))

    def looked_up(self, n: int) -> Call:
        width = min(n, 2048)
        table = self.new(min(1 << 15, max(self.pool.numel() // width // 4, 4)), width)
        ids = torch.randint(0, table.shape[0], (n // width,), device=self.device)
        return lambda _: F.embedding(ids, table)

    def rows(self) -> Iterator[Case]:
        """Reductions, norms and softmax over rows."""
        size, wide = self.dtype.itemsize, torch.float32
        for width in self.sizes.some([64, 1024, 128, 512, 2048, 4096, 8192]):
            for rows in self.sizes.powers(0, 18, 2):
                n = width * rows
                if n > 1 << 29:
                    continue
                yield stream("reduce", 4 * n, n, lambda r=rows, w=width: one(lambda x: x.mean(-1, True), self.new(r, w, dtype=wide)), width)
                yield stream("norm", 2 * n * size, n, lambda r=rows, w=width: self.normed(r, w), width)
                access = "softmax" if width < 1024 else "softmax_long"
                yield stream(access, 2 * n * size, n, lambda r=rows, w=width: one(lambda x: F.softmax(x, -1), self.new(r, w)))
                if width <= 512:
                    yield stream(access, 8 * n, n, lambda r=rows, w=width: one(lambda x: F.softmax(x, -1), self.new(r, w, dtype=wide)))

    def normed(self, rows: int, width: int) -> Call:
        x, scale = self.new(rows, width), self.new(width)
        return lambda _: F.layer_norm(x, (width,), scale, scale)

    def choices(self) -> Iterator[Case]:
        """What routing of experts takes: sorts, the largest of rows, prefix sums, counts."""
        for n in self.sizes.powers(1, 18):
            yield stream("sort", 24 * n, n, lambda n=n: one(torch.sort, torch.randint(0, 64, (n,), device=self.device)))
            yield stream("histogram", 4 * n, n, lambda n=n: one(
                lambda x: torch.histc(x, 64, 0, 63), torch.randint(0, 64, (n,), device=self.device).float()))
        for experts in self.sizes.some([8, 64, 256]):
            yield stream("scan", 8 * experts, experts, lambda n=experts: one(
                lambda x: torch.cumsum(x, 0, dtype=torch.int32), torch.randint(0, 9, (n,), device=self.device)))
            for rows in self.sizes.powers(4, 18, 2):
                yield stream("scan", 8 * rows * experts, rows * experts, lambda r=rows, e=experts: one(
                    lambda x: torch.cumsum(x, -1), self.new(r, e, dtype=torch.float32)))
            for rows in self.sizes.powers(0, 16, 2):
                yield stream("top_k", 4 * rows * experts, rows * experts, lambda r=rows, e=experts: one(
                    lambda x: torch.topk(x, 4, -1), self.new(r, e, dtype=torch.float32)))

    def caches(self) -> Iterator[Case]:
        """New tokens joined to a KV cache, and its heads repeated."""
        for dtype in (self.dtype, torch.float32):
            size = dtype.itemsize
            for batch in self.sizes.some([1, 2, 8, 32]):
                for keys in self.sizes.some([128, 512, 2048]):
                    for heads, dim in self.sizes.some([(8, 64), (8, 128), (32, 128), (1, 256)]):
                        n = batch * heads * (keys + 1) * dim
                        shape = (batch, heads, keys, dim)
                        yield stream("append", 2 * n * size, n, lambda s=shape, d=dtype: self.appended(s, d, False))
                        yield stream("append_sliced", 2 * n * size, n, lambda s=shape, d=dtype: self.appended(s, d, True))
                        if heads > 1:
                            out = batch * heads * 4 * keys * dim
                            yield stream("copy", out * size * 5 // 4, out, lambda s=shape, d=dtype: self.repeated(s, d))

    def appended(self, shape: tuple[int, ...], dtype: torch.dtype, sliced: bool) -> Call:
        batch, heads, keys, dim = shape
        new = self.new(batch, heads, 1, dim, dtype=dtype)
        cache = self.new(batch, heads, keys + 1, dim, dtype=dtype)[:, :, 1:] if sliced else self.new(*shape, dtype=dtype)
        return lambda _: torch.cat((cache, new), -2)

    def repeated(self, shape: tuple[int, ...], dtype: torch.dtype) -> Call:
        batch, heads, keys, dim = shape
        cache = self.new(*shape, dtype=dtype)
        return lambda _: cache[:, :, None].expand(batch, heads, 4, keys, dim).reshape(batch, heads * 4, keys, dim)


def stream(access: str, moved: int, elements: int, prepare: Callable[[], Call], width: int = 0) -> Case:
    return Case({"kind": "stream", "access": access, "bytes": moved, "elements": elements, "width": width}, prepare)


def gemm_case(m: int, n: int, k: int, size: int, aligned: bool, prepare: Callable[[], Call], groups: int = 1) -> Case:
    return Case(gemm(m, n, k, size, aligned, groups), prepare)


def gemm(m: int, n: int, k: int, size: int, aligned: bool, groups: int = 1) -> dict[str, Any]:
    return {"kind": "gemm", "groups": groups, "m": m, "n": n, "k": k, "size": size, "aligned": aligned}


def one(function: Callable[[torch.Tensor], Any], x: torch.Tensor) -> Call:
    return lambda _: function(x)


def pair(function: Callable[[torch.Tensor, torch.Tensor], Any], x: torch.Tensor, y: torch.Tensor) -> Call:
    return lambda _: function(x, y)
