"""Steps of a model as ranges that carry the batch: sequences, new tokens and cached tokens.

The label is a contract with llmprof's analysis (docs/python.md, "Step labels"):

    llmprof.step decode batch=8 new=1 cached=512
    llmprof.step mixed batch=1,7 new=512,1 cached=0,640
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, SupportsIndex, Union, get_args

from .ranges import nvtx_range

Phase = Literal["prefill", "decode", "mixed"]
Counts = Union[SupportsIndex, Sequence[SupportsIndex]]

_NUMBERS = r"\d+(?:,\d+)*"
LABEL = re.compile(
    rf"llmprof\.step (prefill|decode|mixed) batch=({_NUMBERS}) new=({_NUMBERS}) cached=({_NUMBERS})", re.ASCII
)


@dataclass(frozen=True)
class Group:
    """Equal sequences of a step."""

    sequences: int
    new_tokens: int
    """Tokens of each sequence that go through the model in this step."""
    cached_tokens: int
    """Tokens of each sequence that are in the KV cache before this step."""


@dataclass(frozen=True)
class StepLabel:
    phase: Phase
    groups: tuple[Group, ...]

    @property
    def sequences(self) -> int:
        return sum(group.sequences for group in self.groups)

    @property
    def new_tokens(self) -> int:
        """Over all sequences."""
        return sum(group.sequences * group.new_tokens for group in self.groups)

    @property
    def cached_tokens(self) -> int:
        """Over all sequences."""
        return sum(group.sequences * group.cached_tokens for group in self.groups)

    def __str__(self) -> str:
        batch = ",".join(str(group.sequences) for group in self.groups)
        new = ",".join(str(group.new_tokens) for group in self.groups)
        cached = ",".join(str(group.cached_tokens) for group in self.groups)
        return f"llmprof.step {self.phase} batch={batch} new={new} cached={cached}"

    @classmethod
    def parse(cls, text: str) -> StepLabel:
        """The label that `text` is; ValueError where it is none."""
        match = LABEL.fullmatch(text)
        if match is None:
            raise ValueError(f"not a step label: {text!r}")
        batch, new, cached = ([int(number) for number in part.split(",")] for part in match.groups()[1:])
        if not len(batch) == len(new) == len(cached):
            raise ValueError(f"batch, new and cached have {len(batch)}, {len(new)} and {len(cached)} values: {text!r}")
        if 0 in batch or 0 in new:
            raise ValueError(f"a group without sequences or without new tokens: {text!r}")
        phase: Phase = match.group(1)  # type: ignore[assignment]  # the pattern admits no other
        return cls(phase, tuple(map(Group, batch, new, cached)))


def step(
    batch: Counts | None = None,
    new_tokens: Counts = 1,
    cached: Counts = 0,
    *,
    phase: Phase | None = None,
) -> nvtx_range:
    """A range around one forward pass that says what it computes.

    `step(batch=8, new_tokens=1, cached=512)`: eight equal sequences. Lists have one value per sequence
    (`new_tokens=[512, 1, 1], cached=[0, 640, 641]`), or, where `batch` is a list of numbers of sequences, per group
    (`batch=[1, 7], new_tokens=[512, 1], cached=[0, 640]`). `cached` counts the tokens of a sequence that are in the KV
    cache before the step.

    The phase follows from the numbers: one new token after cached ones is decode, everything else prefill, both in one
    step mixed. `phase="decode"` says otherwise where one sequence decodes several tokens, as speculative decoding does.
    """
    return nvtx_range(str(step_label(batch, new_tokens, cached, phase=phase)))


def step_label(
    batch: Counts | None = None,
    new_tokens: Counts = 1,
    cached: Counts = 0,
    *,
    phase: Phase | None = None,
) -> StepLabel:
    """The label of `step(…)` with the same arguments."""
    if type(batch) is int and type(new_tokens) is int and type(cached) is int and batch > 0 < new_tokens and cached >= 0:
        # The usual case, in every step of a decode loop.
        groups: tuple[Group, ...] = (Group(batch, new_tokens, cached),)
    else:
        groups = _merged(_groups(batch, new_tokens, cached))
    if phase is None:
        phase = _phase(groups)
    elif phase not in get_args(Phase):
        raise ValueError(f"unknown phase {phase!r}; phases are {', '.join(get_args(Phase))}")
    return StepLabel(phase, groups)


def _groups(batch: Counts | None, new_tokens: Counts, cached: Counts) -> list[Group]:
    batch = None if batch is None else _plain(batch)
    new = _numbers(new_tokens, "new_tokens", 1)
    kept = _numbers(cached, "cached", 0)
    if isinstance(batch, Sequence):
        counts: Sequence[int] | int = _numbers(batch, "batch", 1)
    elif batch is None:
        counts = 1
    else:
        given = _number(batch, "batch", 1)
        listed = next((len(values) for values in (new, kept) if not isinstance(values, int)), None)
        if listed not in (None, given):
            raise ValueError(f"batch={given}, but new_tokens or cached has {listed} values, one per sequence")
        counts = given if listed is None else 1
    lengths = {len(values) for values in (counts, new, kept) if not isinstance(values, int)}
    if len(lengths) > 1:
        raise ValueError(f"batch, new_tokens and cached have different numbers of values: {sorted(lengths)}")
    length = lengths.pop() if lengths else 1
    columns = [[values] * length if isinstance(values, int) else values for values in (counts, new, kept)]
    return [Group(*values) for values in zip(*columns)]


def _numbers(values: Counts, name: str, least: int) -> int | list[int]:
    values = _plain(values)
    if isinstance(values, (str, bytes)):
        raise TypeError(f"{name} is a number or a list of numbers, not {values!r}")
    if not isinstance(values, Sequence):
        return _number(values, name, least)
    numbers = [_number(value, name, least) for value in values]
    if not numbers:
        raise ValueError(f"{name} is empty: a step has at least one sequence")
    return numbers


def _plain(values: Any) -> Counts:
    """Numbers of numpy and torch as those of Python; of a tensor on a GPU this waits for the device."""
    plain: Counts = values.tolist() if hasattr(values, "tolist") else values
    return plain


def _number(value: SupportsIndex, name: str, least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is a whole number, not {value!r}") from None
    if number < least:
        raise ValueError(f"{name} is at least {least}, not {number}")
    return number


def _merged(groups: Iterable[Group]) -> tuple[Group, ...]:
    """One group for equal sequences, in the order in which they first appear."""
    counts: dict[tuple[int, int], int] = {}
    for group in groups:
        key = (group.new_tokens, group.cached_tokens)
        counts[key] = counts.get(key, 0) + group.sequences
    return tuple(Group(count, new, cached) for (new, cached), count in counts.items())


def _phase(groups: Iterable[Group]) -> Phase:
    decodes = {group.new_tokens == 1 and group.cached_tokens > 0 for group in groups}
    if len(decodes) > 1:
        return "mixed"
    return "decode" if decodes.pop() else "prefill"
