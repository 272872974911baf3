"""Layers of a decoder of no model in particular: what GEMMs and attention take among other kernels, with weights that no cache holds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.nn.functional as F

from .cases import filled, gemm

# Makes a range around a kernel.
Note = Callable[[dict[str, Any]], AbstractContextManager[Any]]


class Layers:
    def __init__(self, device: torch.device, dtype: torch.dtype, full: bool) -> None:
        self.device, self.dtype, self.full = device, dtype, full
        self.hidden, self.inner, self.heads, self.kv, self.dim, self.count = (
            (4096, 12288, 32, 8, 128, 4) if full else (64, 128, 4, 2, 16, 2))
        widths = [(self.heads * self.dim, self.hidden), (self.kv * self.dim, self.hidden), (self.kv * self.dim, self.hidden),
                  (self.hidden, self.heads * self.dim), (self.inner, self.hidden), (self.inner, self.hidden), (self.hidden, self.inner)]
        self.weights = [[self.new(*shape).mul_(0.02) for shape in widths] for _ in range(self.count)]
        self.scale = self.new(self.hidden)

    def new(self, *shape: int) -> torch.Tensor:
        return filled(shape, self.dtype, self.device)

    def shapes(self) -> list[tuple[int, int, int]]:
        """Batch, new tokens and cached tokens."""
        if not self.full:
            return [(1, 1, 16), (2, 8, 0)]
        decode = [(batch, 1, past) for batch in (1, 2, 4, 8, 16, 32, 64, 128) for past in (128, 1024, 4096) if batch * past <= 1 << 17]
        return decode + [(1, 128, 0), (2, 256, 0), (1, 1024, 0), (4, 512, 0), (4, 1024, 0), (8, 2048, 0), (32, 2048, 0)]

    def run(self, batch: int, queries: int, past: int, note: Note) -> None:
        rows = batch * queries
        x = self.new(batch, queries, self.hidden)
        table = self.new(1, 1, queries, self.dim)
        caches = [(self.new(batch, self.kv, past, self.dim), self.new(batch, self.kv, past, self.dim)) for _ in range(self.count)]

        def linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            with note(gemm(rows, weight.shape[0], weight.shape[1], self.dtype.itemsize, True)):
                return F.linear(x, weight)

        for (wq, wk, wv, wo, gate, up, down), (keys, values) in zip(self.weights, caches):
            y = self.norm(x)
            q, k, v = (linear(y, w).view(batch, queries, -1, self.dim).transpose(1, 2) for w in (wq, wk, wv))
            q, k = self.rotate(q, table), self.rotate(k, table)
            keys, values = torch.cat((keys, k), -2), torch.cat((values, v), -2)
            kernel = {"kind": "attention", "batch": batch, "heads": self.heads, "kv_heads": self.kv, "queries": queries,
                      "keys": past + queries, "key_dim": self.dim, "value_dim": self.dim, "causal": queries > 1, "masked": False}
            with note(kernel):
                y = F.scaled_dot_product_attention(q, keys, values, is_causal=queries > 1, enable_gqa=True)
            x = x + linear(y.transpose(1, 2).reshape(batch, queries, -1), wo)
            y = self.norm(x)
            x = x + linear(F.silu(linear(y, gate)) * linear(y, up), down)

    def norm(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.scale * wide.to(x.dtype)

    def rotate(self, x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        half = self.dim // 2
        return x * table + torch.cat((-x[..., half:], x[..., :half]), -1) * table
