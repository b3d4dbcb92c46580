"""The parts of a history that may be left out, and the search for those that a finding does not need.

A part has a name, such as `life:2`, `crash:1` or `command:1.4`. A history asks for each where it would play it, and
draws what it draws whatever the answer, so that what is left keeps its schedule. The search leaves out many parts at
once, then fewer, as long as the same oracle finds something; what is left can be played again from the seed and the
names of what is left out.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final

from pinnace_fuzz.simulation.results import History

MOST_PLAYS: Final = 400
"""How often a history is played to shrink it."""


class Parts:
    """What a history may leave out."""

    def __init__(self, left_out: Collection[str] = ()) -> None:
        """Leave out these parts."""
        self._left_out = frozenset(left_out)
        self._asked: dict[str, None] = {}

    def has(self, name: str) -> bool:
        """Return whether a part is played."""
        self._asked[name] = None
        return name not in self._left_out

    @property
    def played(self) -> tuple[str, ...]:
        """The parts that were asked for and not left out, in their order."""
        return tuple(name for name in self._asked if name not in self._left_out)

    @property
    def left_out(self) -> tuple[str, ...]:
        """The parts that were asked for and left out, in their order."""
        return tuple(name for name in self._asked if name in self._left_out)


def shrink(history: History, play: Callable[[Collection[str]], History]) -> History:
    """Return a smaller history in which the same oracle finds something.

    Args:
        history: One that breaks a rule.
        play: Plays the same seed without some parts.
    """
    source, plays = history.findings[0].source, 0
    is_smaller = True
    while is_smaller:
        is_smaller = False
        size = max(1, len(history.parts.played) // 2)
        while size:
            for some in _divided(history.parts.played, size):
                if plays == MOST_PLAYS:
                    return history
                plays += 1
                found = play({*history.parts.left_out, *some})
                if found.findings and found.findings[0].source == source:
                    history, is_smaller = found, True
            size //= 2
    return history


def _divided(names: Sequence[str], size: int) -> list[Sequence[str]]:
    return [names[start : start + size] for start in range(0, len(names), size)]
