"""`profile()`: torch.profiler around a block, and a run directory with llmprof's report of it."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from ._torch import require_torch
from .binary import LlmprofError, find_binary, run_llmprof
from .ranges import nvtx_range
from .run import Run, load
from .table import Table
from .torch_profiler import RECORDED, activities, all_threads, keeps_events

# Held while a block is recorded: torch has one profiler for all threads, and starting it twice ends the process.
_RECORDING = threading.Lock()

# llmprof locks it while it writes a run; a folder with files and without it is somebody else's.
LOCK_FILE = ".lock"


class profile:  # noqa: N801 - used like a function
    """Records a block and leaves a run directory; in a notebook the object shows the report.

        with llmprof_harness.profile(model=model) as run:
            with step(batch=1, new_tokens=128, cached=0):
                model(prompt)
        run.kernels, run.steps, run.path

    `model` is a model of transformers, its config, a dict with the keys of a config.json, a path to one, or the name of a
    model that llmprof ships; with it the report has rooflines, MFU and MBU. `workload` says what was asked of it
    (`{"prompt_tokens": 128}`) where no `step` ranges do, `device` names the GPU to compare with where torch does not, and
    `overrides` are further changes to llmprof's config. Operators of all threads are recorded. What is wrong with the binary, the
    model or the directory is found before the block runs; blocks do not nest.

    Inside `llmprof record` the GPU is recorded already, and CUPTI has one user at a time: the block then is a range of
    that recording, whose run is complete when the program has ended.
    """

    def __init__(
        self,
        out: str | Path | None = None,
        *,
        model: Any = None,
        workload: Mapping[str, object] | None = None,
        device: str | None = None,
        overrides: Sequence[str] = (),
        record_shapes: bool = True,
        with_stack: bool = False,
        profile_memory: bool = False,
        binary: str | Path | None = None,
    ) -> None:
        if (workload or overrides) and model is None:
            raise ValueError("workload and overrides say what was asked of a model: give model too")
        recorded = os.environ.get(RECORDED)
        self.is_recorded_outside = recorded is not None
        self.path = Path(recorded).parent if recorded else Path(out) if out is not None else _default_directory()
        self._torch = require_torch("profile")
        self._model = model
        self._words = [f"workload.{key}={value}" for key, value in (workload or {}).items()] + list(overrides)
        self._device = device
        self._binary = binary
        self._profiler: Any = None
        self._range: nvtx_range | None = None
        self._run: Run | None = None
        self._process: int | None = None
        self._options = {
            "record_shapes": record_shapes,
            "with_stack": with_stack,
            "profile_memory": profile_memory,
            **keeps_events(self._torch),
            **all_threads(self._torch),
        }

    def __enter__(self) -> profile:
        if self.is_recorded_outside:
            self._range = nvtx_range("profile")
            self._range.__enter__()
            return self
        if (self.path / "run.json").exists():
            raise FileExistsError(f"{self.path} holds a run already")
        if self.path.is_dir() and any(self.path.iterdir()) and not (self.path / LOCK_FILE).exists():
            raise FileExistsError(f"{self.path} is not empty and llmprof did not make it")
        self._check()
        if not _RECORDING.acquire(blocking=False):
            raise RuntimeError("profile() records another block already; blocks do not nest")
        try:
            if self._torch.autograd._profiler_enabled():
                raise RuntimeError("torch.profiler records already; profile() cannot be used inside it")
            self._profiler = self._torch.profiler.profile(activities=activities(self._torch), **self._options)
            self._profiler.__enter__()
        except BaseException:
            if self._profiler is not None:
                self._stop_torch()
            self._profiler = None
            _RECORDING.release()
            raise
        self._process = os.getpid()
        return self

    def _check(self) -> None:
        """Finds what would make the run fail once the block has ended."""
        self._binary = self._binary or find_binary()
        if self._model is None:
            run_llmprof(["--version"], self._binary)
            return
        with tempfile.TemporaryDirectory(prefix="llmprof-") as scratch:
            arguments = _model_arguments(self._model, Path(scratch)) + self._words
            try:
                run_llmprof(["model", "--json", *arguments], self._binary)
            except LlmprofError as error:
                # The import goes on without a model of a family that llmprof does not know.
                if "unknown model_type" not in str(error):
                    raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._range is not None:
            self._range.__exit__(kind, error, trace)
            return
        if self._process != os.getpid():
            # A fork inside the block leaves it too; the run is its parent's.
            return
        try:
            self._end(kind, error, trace)
        finally:
            self._profiler = None
            _RECORDING.release()

    def _end(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        failed: Exception | None = None
        try:
            if self._torch.cuda.is_available():
                # What the block launched belongs to it.
                self._torch.cuda.synchronize()
        except Exception as failure:  # noqa: BLE001 - a kernel of the block failed; what was recorded until then is kept
            failed = failure
        finally:
            try:
                self._profiler.__exit__(kind, error, trace)
            finally:
                self._stop_torch()
        try:
            self._import()
        except Exception as failure:
            if error is None and failed is None:
                raise
            # The block's own error is the one to report.
            print(f"llmprof_harness: no run was made of the failed block: {failure}", file=sys.stderr)
        if failed is not None and error is None:
            raise failed

    def _stop_torch(self) -> None:
        """Where an error or Ctrl-C kept torch's profiler from ending, it would record for the rest of the process."""
        if self._torch.autograd._profiler_enabled():
            self._torch.autograd._disable_profiler()

    def _import(self) -> None:
        folder = self.path / "torch_profiler"
        folder.mkdir(parents=True, exist_ok=True)
        # Without it the import takes the folder for somebody else's.
        (self.path / LOCK_FILE).touch()
        file = folder / "trace.json.gz"
        self._profiler.export_chrome_trace(str(file))
        with tempfile.TemporaryDirectory(prefix="llmprof-") as scratch:
            command = ["import", str(file), "-o", str(self.path)]
            if self._device:
                command += ["--device", self._device]
            command += _model_arguments(self._model, Path(scratch)) + self._words
            run_llmprof(command, self._binary)
        self._run = load(self.path)

    @property
    def run(self) -> Run:
        """The run, once the block has ended."""
        if self._run is None:
            when = "when the recorded program has ended" if self.is_recorded_outside else "when the block has ended"
            raise RuntimeError(f"the run in {self.path} is complete {when}")
        return self._run

    @property
    def status(self) -> str:
        """`recording` inside the block, else that of the run."""
        if self._run is not None:
            return self._run.status
        return "recording" if self._profiler is not None or self._range is not None else "not recorded"

    @property
    def issues(self) -> list[dict[str, Any]]:
        return self.run.issues

    @property
    def report(self) -> Path:
        return self.run.report

    @property
    def operators(self) -> Table:
        return self.run.operators

    @property
    def ops(self) -> Table:
        return self.run.ops

    @property
    def ops_by_shape(self) -> Table:
        return self.run.ops_by_shape

    @property
    def kernels(self) -> Table:
        return self.run.kernels

    @property
    def steps(self) -> Table:
        return self.run.steps

    @property
    def metrics(self) -> dict[str, Any]:
        return self.run.metrics

    def __repr__(self) -> str:
        return repr(self._run) if self._run else f"profile({str(self.path)!r})"

    def _repr_html_(self) -> str:
        return self.run._repr_html_()


def _default_directory() -> Path:
    program = Path(sys.argv[0]).stem if sys.argv and sys.argv[0] not in ("", "-c", "-m") else "python"
    return Path("runs") / "profile" / program / datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f")


def _model_arguments(model: Any, scratch: Path) -> list[str]:
    """How the binary is told of a model."""
    if model is None:
        return []
    if isinstance(model, Path) or (isinstance(model, str) and model.endswith(".json")):
        return ["--config", str(model)]
    if isinstance(model, str):
        return [f"model={model}"]
    config = getattr(model, "config", model)
    if hasattr(config, "to_dict"):
        config = config.to_dict()
    if not isinstance(config, Mapping):
        raise TypeError(
            "model is a model or config of transformers, a dict, a path to config.json or the name of a model that "
            f"llmprof ships, not {type(model).__name__}"
        )
    file = scratch / "config.json"
    # Of what JSON has no word for (dtypes, tuples of enums) the name is kept.
    file.write_text(json.dumps(dict(config), default=str))
    return ["--config", str(file)]
