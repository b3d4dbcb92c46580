"""Pointed histories: crashes where something was just promised, and commands that come together.

A crash at a random step rarely comes between a promise and the flush that it must have waited for, and two commands of
a random client rarely come within the few steps of one that is being saved. Some of the seeds (`World.is_pointed`) have
histories with both, from numbers of their own: those of the other seeds do not change with what is drawn here.
"""

import random
from collections.abc import Sequence
from typing import Final

_BURSTS: Final = 0.2
_TOGETHER: Final = (
    "prompt abort:hold",
    "prompt abort:clear prompt",
    "steer abort:continue",
    "follow_up abort:clear follow_up abort:hold get_queue",
    "steer abort:clear abort:hold follow_up get_queue",
    "prompt steer follow_up abort:clear",
    "prompt compact abort:hold",
    "compact abort:clear",
    "new_session abort:hold",
)
"""Commands of one write: messages, and aborts that come while they are checked and saved."""


class Bursts:
    """Decides when several commands follow one, and which."""

    def __init__(self, draws: random.Random) -> None:
        """Take the numbers, of which the commands are made too."""
        self.draws = draws

    def next(self) -> Sequence[str]:
        """Return the names of the commands that follow now, with what an abort does with the queue; mostly none."""
        return self.draws.choice(_TOGETHER).split() if self.draws.random() < _BURSTS else ()
