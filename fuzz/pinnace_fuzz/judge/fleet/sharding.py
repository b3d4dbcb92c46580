"""Divides a run among machines: which part of the work is a shard's.

Deterministic by place: what comes at place P of a list of scenarios or trails is the shard's whose number is P plus the
seed, modulo the number of shards. Every shard of a run has the same seed, so that the lists are the same. Campaigns
that generate cases until their time is over are not divided: each shard draws other cases. Pure.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple, Self, TypeVar

_Item = TypeVar("_Item")


class Shard(NamedTuple):
    """One of several parts of a run."""

    number: int = 1
    """From 1."""
    total: int = 1

    @classmethod
    def read(cls, text: str) -> Self:
        """Read `I/N`.

        Raises:
            ValueError: It is not that.
        """
        found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise ValueError(f"{text!r} is not I/N with I from 1 to N, such as 2/8")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        """Write `I/N`."""
        return f"{self.number}/{self.total}"

    @property
    def is_whole(self) -> bool:
        """Whether it is all there is."""
        return self.total == 1

    def part(self, items: Sequence[_Item], seed: int) -> list[_Item]:
        """Return the shard's part of a list."""
        return [each for place, each in enumerate(items) if self.has(place, seed)]

    def has(self, place: int, seed: int) -> bool:
        """Return whether what is at a place is the shard's."""
        return (place + seed) % self.total == self.number - 1


WHOLE = Shard()
