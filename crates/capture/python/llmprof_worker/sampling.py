"""From logits to the next tokens, by the rules of llmprof's own engine: the same seed draws the same tokens."""

from __future__ import annotations

import torch

from .requests import Sampling

MASK = (1 << 64) - 1


class Sampler:
    """Chooses a token per sequence. The history of a sequence is its prompt and what was generated."""

    def __init__(self, sampling: Sampling, histories: list[list[int]]) -> None:
        self._sampling = sampling
        self._histories = histories
        self._state = sampling.seed & MASK

    def choose(self, logits: torch.Tensor, ended: list[bool]) -> torch.Tensor:
        """The tokens, on the logits' device."""
        if self._sampling.no_repeat_ngram_size:
            logits = self._without_repeats(logits)
        if not self._sampling.do_sample:
            return logits.argmax(-1)
        rows = [row.argmax() if over else self._draw(row) for row, over in zip(logits, ended)]
        return torch.stack(rows)

    def keep(self, sequence: int, token: int) -> None:
        """Adds a token to a history."""
        self._histories[sequence].append(token)

    def _without_repeats(self, logits: torch.Tensor) -> torch.Tensor:
        logits = logits.clone()
        for row, history in zip(logits, self._histories):
            banned = repeats(history, self._sampling.no_repeat_ngram_size)
            # Where every token is ruled out, nothing is.
            if 0 < len(banned) < row.numel():
                row[torch.tensor(banned, device=row.device)] = -torch.inf
        return logits

    def _draw(self, row: torch.Tensor) -> torch.Tensor:
        row = row.float()
        weights = ((row - row.max()).double() / self._sampling.temperature).exp()
        sums = weights.cumsum(-1)
        drawn = torch.searchsorted(sums, sums[-1] * self._uniform(), right=True)
        # Rounding may leave a rest.
        return torch.where(drawn < row.numel(), drawn, row.argmax())

    def _uniform(self) -> float:
        """A number from 0 up to, but not including, 1, by SplitMix64."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
        mixed ^= mixed >> 31
        return (mixed >> 11) / (1 << 53)


def repeats(history: list[int], size: int) -> list[int]:
    """The tokens that would complete a run of `size` tokens that the history already holds."""
    if len(history) + 1 < size:
        return []
    ending = history[len(history) + 1 - size :]
    starts = range(len(history) + 1 - size)
    return sorted({history[at + size - 1] for at in starts if history[at : at + size - 1] == ending})
