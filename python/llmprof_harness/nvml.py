"""GPU counters through NVML while something runs, as CSV."""

from __future__ import annotations

import csv
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

COLUMNS = (
    "ts",
    "gpu_util_pct",
    "mem_util_pct",
    "sm_clock_MHz",
    "mem_clock_MHz",
    "power_W",
    "temp_C",
    "mem_used_MiB",
    "mem_total_MiB",
)

_MIB = 1024 * 1024
_log = logging.getLogger("llmprof_harness")


class NVMLSampler(threading.Thread):
    """Samples one GPU every `interval_s` seconds into `out_csv`, from `start()` to `stop()`.

    `device_index` counts as nvidia-smi does, not as CUDA_VISIBLE_DEVICES; a string is a UUID (`GPU-…`). `ts` is seconds
    since 1970. A counter that the GPU does not have is an empty cell. Without NVML or a GPU the file has its header
    only, and `unavailable` says why.
    """

    def __init__(
        self, device_index: int | str = 0, interval_s: float = 0.5, out_csv: str | Path = "nvml.csv"
    ) -> None:
        super().__init__(name="NVMLSampler", daemon=True)
        if not interval_s > 0:
            raise ValueError(f"interval_s is more than 0, not {interval_s}")
        self.device_index = device_index
        self.interval_s = interval_s
        self.out_csv = Path(out_csv)
        self.samples = 0
        self.unavailable: str | None = None
        self._stop_requested = threading.Event()
        self._nvml: Any = None
        self._device: Any = None
        self._open_device()
        # Here, not in the thread: a path that cannot be written is the caller's mistake.
        self._file = self.out_csv.open("w", newline="")
        self._rows = csv.writer(self._file)
        self._rows.writerow(COLUMNS)
        self._file.flush()

    def _open_device(self) -> None:
        try:
            import pynvml
        except ImportError:
            self._give_up("the package nvidia-ml-py is not installed (`pip install nvidia-ml-py`)")
            return
        try:
            pynvml.nvmlInit()
            if isinstance(self.device_index, str):
                self._device = pynvml.nvmlDeviceGetHandleByUUID(self.device_index)
            else:
                self._device = pynvml.nvmlDeviceGetHandleByIndex(self.device_index)
        except pynvml.NVMLError as error:
            self._give_up(f"NVML has no device {self.device_index}: {error}")
            return
        self._nvml = pynvml

    def _give_up(self, why: str) -> None:
        self.unavailable = why
        _log.warning("GPU counters are not sampled: %s", why)

    def run(self) -> None:
        try:
            due = time.monotonic()
            while self._device is not None and not self._stop_requested.is_set():
                self._rows.writerow(self._sample())
                self._file.flush()
                self.samples += 1
                # A sample that was late must not shift those after it; one that was missed is not made up for.
                due += self.interval_s
                now = time.monotonic()
                due = max(due, now)
                self._stop_requested.wait(due - now)
        finally:
            self._file.close()

    def _sample(self) -> list[object]:
        nvml, device = self._nvml, self._device
        ts = f"{time.time():.6f}"
        rates = self._ask(lambda: nvml.nvmlDeviceGetUtilizationRates(device))
        memory = self._ask(lambda: nvml.nvmlDeviceGetMemoryInfo(device))
        power = self._ask(lambda: nvml.nvmlDeviceGetPowerUsage(device))
        return [
            ts,
            None if rates is None else rates.gpu,
            None if rates is None else rates.memory,
            self._ask(lambda: nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_SM)),
            self._ask(lambda: nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_MEM)),
            None if power is None else f"{power / 1000:.3f}",
            self._ask(lambda: nvml.nvmlDeviceGetTemperature(device, nvml.NVML_TEMPERATURE_GPU)),
            None if memory is None else memory.used // _MIB,
            None if memory is None else memory.total // _MIB,
        ]

    def _ask(self, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except self._nvml.NVMLError:
            return None

    def stop(self) -> None:
        """No sample begins after this; `join()` waits until the file is complete."""
        self._stop_requested.set()

    def __enter__(self) -> NVMLSampler:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        self.join()
