from __future__ import annotations

import json
from pathlib import Path

import pytest

from llmprof_harness import Group, StepLabel, step, step_label


def cases(key: str) -> list:
    return json.loads((Path(__file__).parent / "data/step_labels.json").read_text())[key]


@pytest.mark.parametrize("case", cases("labels"), ids=lambda case: case["label"])
def test_a_label_says_its_groups_and_is_read_back(case: dict) -> None:
    label = step_label(**case["arguments"])
    groups = tuple(Group(**group) for group in case["groups"])
    assert str(label) == case["label"]
    assert label == StepLabel(case["phase"], groups)
    assert StepLabel.parse(case["label"]) == label
    sums = (label.sequences, label.new_tokens, label.cached_tokens)
    assert sums == (case["sequences"], case["new_tokens"], case["cached_tokens"])


@pytest.mark.parametrize("text", cases("not_labels"))
def test_what_is_no_label_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        StepLabel.parse(text)


def test_numbers_of_numpy_and_torch_are_numbers() -> None:
    import numpy
    import torch

    lengths = torch.tensor([640, 641])
    assert step_label(2, 1, lengths) == step_label(2, 1, [640, 641])
    assert step_label(numpy.int64(2), torch.tensor(1), numpy.array([640, 641])) == step_label(2, 1, [640, 641])


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"batch": 0}, "batch is at least 1"),
        ({"new_tokens": 0}, "new_tokens is at least 1"),
        ({"cached": -1}, "cached is at least 0"),
        ({"new_tokens": []}, "new_tokens is empty"),
        ({"batch": 3, "cached": [1, 2]}, "batch=3, but new_tokens or cached has 2 values"),
        ({"new_tokens": [1, 2, 3], "cached": [1, 2]}, "different numbers of values: \\[2, 3\\]"),
        ({"batch": [1, 2], "cached": [1, 2, 3]}, "different numbers of values"),
        ({"phase": "load"}, "unknown phase 'load'; phases are prefill, decode, mixed"),
        ({"new_tokens": 1.5}, "new_tokens is a whole number, not 1.5"),
        ({"new_tokens": "12"}, "new_tokens is a number or a list of numbers"),
    ],
)
def test_a_mistake_is_named(arguments: dict, error: str) -> None:
    with pytest.raises((ValueError, TypeError), match=error):
        step(**arguments)


def test_a_step_is_in_the_trace_of_torch() -> None:
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], acc_events=True) as prof:
        with step(batch=2, new_tokens=1, cached=7):
            torch.ones(3) + 1
    events = {event.name: event for event in prof.events()}
    label = events["llmprof.step decode batch=2 new=1 cached=7"]
    assert any(child.name == "aten::add" for child in label.cpu_children)
