"""The loop of every rank but the first."""

from __future__ import annotations

import os
from typing import Any

import torch.distributed as dist

from . import batch, loading
from .failure import failure_of
from .ranks import FOLLOWER, joined
from .requests import Generate, Load


def follow() -> None:
    """What the other ranks do: the same requests, without answers, until the first says bye."""
    control = joined(os.environ[FOLLOWER])
    model: Any = None
    while True:
        told: list[Any] = [None]
        dist.broadcast_object_list(told, src=0, group=control)
        kind, content = told[0]
        if kind == "bye":
            dist.destroy_process_group()
            return
        failure = None
        try:
            if kind == "load":
                model = None
                model, _ = loading.load(Load.of(content))
            else:
                batch.run(model, Generate.of(content), lambda done, total: None)
        except Exception as error:
            failure = failure_of(error).message
        dist.all_gather_object([None] * dist.get_world_size(), failure, group=control)
