"""A decode step as a CUDA graph: captured once, then replayed as one launch."""

from __future__ import annotations

from collections.abc import Callable

import torch

# Steps that run before the capture, so that libraries have made their plans and workspaces.
WARM_UP = 2


class CapturedStep:
    """Captures `step`, which reads and writes memory that stays in place. `restore` takes back what a step counted."""

    def __init__(self, step: Callable[[], torch.Tensor], restore: Callable[[], None]) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                step()
                restore()
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._logits = step()
        # The capture itself ran nothing on the device; on the host it counted.
        restore()

    def replay(self) -> torch.Tensor:
        self._graph.replay()
        return self._logits
