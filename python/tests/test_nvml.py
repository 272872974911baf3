from __future__ import annotations

import csv
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from llmprof_harness import NVMLSampler

HEADER = "ts gpu_util_pct mem_util_pct sm_clock_MHz mem_clock_MHz power_W temp_C mem_used_MiB mem_total_MiB".split()


@pytest.fixture
def pynvml(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A driver with one GPU that has no thermometer."""
    nvml = ModuleType("pynvml")

    class NVMLError(Exception):
        pass

    def handle(index: int) -> str:
        if index != 0:
            raise NVMLError("Invalid Argument")
        return "gpu0"

    def temperature(device: str, sensor: int) -> int:
        raise NVMLError("Not Supported")

    nvml.NVMLError = NVMLError
    nvml.NVML_CLOCK_SM, nvml.NVML_CLOCK_MEM, nvml.NVML_TEMPERATURE_GPU = 1, 2, 0
    nvml.nvmlInit = lambda: None
    nvml.nvmlDeviceGetHandleByIndex = handle
    nvml.nvmlDeviceGetHandleByUUID = lambda uuid: uuid
    nvml.nvmlDeviceGetUtilizationRates = lambda device: SimpleNamespace(gpu=93, memory=41)
    nvml.nvmlDeviceGetClockInfo = lambda device, clock: {1: 1980, 2: 3201}[clock]
    nvml.nvmlDeviceGetPowerUsage = lambda device: 412_345
    nvml.nvmlDeviceGetTemperature = temperature
    nvml.nvmlDeviceGetMemoryInfo = lambda device: SimpleNamespace(used=3 * 2**30 + 7, total=141 * 2**30)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    return nvml


def rows(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_samples_are_rows_with_units_and_a_missing_counter_is_empty(pynvml: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "nvml.csv"
    before = time.time()
    sampler = NVMLSampler(device_index=0, interval_s=0.01, out_csv=str(file))
    sampler.start()
    while sampler.samples < 3:
        time.sleep(0.001)
    sampler.stop()
    sampler.join(5)
    assert not sampler.is_alive()
    header, *samples = rows(file)
    assert header == HEADER and len(samples) == sampler.samples >= 3
    assert all(row[1:] == ["93", "41", "1980", "3201", "412.345", "", "3072", "144384"] for row in samples)
    times = [float(row[0]) for row in samples]
    assert before <= times[0] <= times[-1] <= time.time() and times == sorted(times)


def test_stop_does_not_wait_for_the_interval(pynvml: ModuleType, tmp_path: Path) -> None:
    with NVMLSampler(interval_s=600, out_csv=tmp_path / "nvml.csv") as sampler:
        while sampler.samples < 1:
            time.sleep(0.001)
    assert not sampler.is_alive() and sampler.samples == 1


def test_without_that_gpu_there_are_no_samples_and_a_reason(pynvml: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "nvml.csv"
    with NVMLSampler(device_index=3, interval_s=0.01, out_csv=file) as sampler:
        pass
    assert rows(file) == [HEADER]
    assert sampler.unavailable == "NVML has no device 3: Invalid Argument"


def test_without_the_package_there_are_no_samples_and_a_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with NVMLSampler(out_csv=tmp_path / "nvml.csv") as sampler:
        pass
    assert "nvidia-ml-py" in (sampler.unavailable or "")


def test_a_path_that_cannot_be_written_is_told_at_once(pynvml: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        NVMLSampler(out_csv=tmp_path / "missing" / "nvml.csv")
    with pytest.raises(ValueError, match="interval_s"):
        NVMLSampler(interval_s=0, out_csv=tmp_path / "nvml.csv")
