"""Token ids on their way from the device to the host."""

from __future__ import annotations

import time

import torch


class Pending:
    """Tokens that were chosen on the device. Making it queues their copy; reading waits for that copy alone."""

    def __init__(self, tokens: torch.Tensor) -> None:
        self.tokens = tokens
        self._host = tokens
        self._there: torch.cuda.Event | None = None
        if tokens.is_cuda:
            # A copy to memory that may be paged would wait for all that is queued.
            self._host = torch.empty(tokens.shape, dtype=tokens.dtype, pin_memory=True)
            self._host.copy_(tokens, non_blocking=True)
            self._there = torch.cuda.Event()
            self._there.record()

    def read(self) -> tuple[list[int], int]:
        """The ids, and when they were there."""
        if self._there is not None:
            self._there.synchronize()
        ids = self._host.tolist()
        return ids, time.monotonic_ns()
