"""Several ranks: llmprof talks to the first, which starts the others and hands every request on to them.

Weights are split as the model's own plan says (`base_model_tp_plan` of transformers): tensor parallelism, with NCCL on CUDA
devices and gloo on the CPU. Every rank then runs the same batches and writes a trace of its own.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from .failure import Failure, first_line
from .requests import Load

# A rank that failed leaves the others in a collective: they end after this long.
TIMEOUT = timedelta(minutes=10)
FOLLOWER = "LLMPROF_FOLLOWER"


class Ranks:
    """The ranks of a job, as the first of them sees them."""

    def __init__(self, count: int, device: str) -> None:
        self.count = count
        port = free_port()
        variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(count)}
        package = str(Path(__file__).resolve().parent.parent)
        self._others = [
            subprocess.Popen([sys.executable, "-u", package], stdin=subprocess.DEVNULL,
                             env={**os.environ, **variables, FOLLOWER: device, "RANK": str(rank), "LOCAL_RANK": str(rank)})
            for rank in range(1, count)
        ]
        os.environ.update(variables, RANK="0", LOCAL_RANK="0")
        self._control = joined(device)

    def tell(self, kind: str, content: Any) -> None:
        """Has the others do the same."""
        dist.broadcast_object_list([(kind, content)], src=0, group=self._control)

    def agree(self, failure: str | None) -> None:
        """Waits until every rank is done, and fails if one has failed."""
        answers: list[Any] = [None] * self.count
        dist.all_gather_object(answers, failure, group=self._control)
        failed = [(rank, why) for rank, why in enumerate(answers) if why is not None]
        if failed and failure is None:
            rank, why = failed[0]
            raise Failure("model", f"rank {rank}: {why}")

    def end(self) -> None:
        self.tell("bye", None)
        for other in self._others:
            try:
                other.wait(30)
            except subprocess.TimeoutExpired:
                other.kill()
        dist.destroy_process_group()


def joined(device: str) -> Any:
    """Joins the job. Requests go over a group of their own, on the CPU whatever the device."""
    backend = "nccl" if device.startswith("cuda") else "gloo"
    if backend == "nccl":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    try:
        dist.init_process_group(backend, timeout=TIMEOUT)
        return dist.new_group(backend="gloo", timeout=TIMEOUT)
    except Exception as error:
        raise Failure("missing", f"torch.distributed cannot start with {backend}: {first_line(error)}") from error


def own_device(device: str) -> str:
    """The device of this rank: as many GPUs as ranks, in the order of their numbers."""
    if device.startswith("cuda") and dist.is_initialized():
        return f"cuda:{os.environ['LOCAL_RANK']}"
    return device


def own_file(path: str) -> str:
    """The trace of this rank beside that of the first: `trace.json` is `trace.rank1.json` on rank 1."""
    if not dist.is_initialized() or dist.get_rank() == 0:
        return path
    name = Path(path)
    first, _, rest = name.name.partition(".")
    return str(name.with_name(f"{first}.rank{dist.get_rank()}.{rest}"))


def split(module: Any, request: Load, device: torch.device) -> None:
    """Splits the weights among the ranks, where there are several."""
    ranks = request.options.ranks
    if ranks < 2:
        return
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    config = module.config.get_text_config()
    stated = getattr(config, "base_model_tp_plan", None)
    if not stated:
        raise Failure("unsupported", f"{type(module).__name__} states no plan for tensor parallelism (base_model_tp_plan)",
                      "hardware.ranks=1")
    for name in ("num_attention_heads", "num_key_value_heads"):
        heads = getattr(config, name, None)
        if heads and heads % ranks:
            raise Failure("bad_request", f"{name}={heads} cannot be split among {ranks} ranks",
                          f"hardware.ranks must divide {heads}")
    prefix = module.base_model_prefix
    styles = {"colwise": ColwiseParallel, "rowwise": RowwiseParallel}
    plan = {f"{prefix}.{part}": styles[style]() for part, style in stated.items() if style in styles}
    parallelize_module(module, init_device_mesh(device.type, (ranks,)), plan)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
