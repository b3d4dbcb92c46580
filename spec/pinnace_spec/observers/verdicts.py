"""The input and the output of observers: steps of a trace, its end, verdicts that cite the steps.

Pure data. No assumption about a step is valid: its line is what an agent or a client wrote.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, Protocol, runtime_checkable

Direction = Literal["in", "out"]
"""As the agent sees it: what it reads is in, what it writes is out."""

Record = Mapping[str, Any]
"""The edge of JSON: records of any agent, of which nothing may be assumed."""

Level = Literal["violation", "nonstrict", "information"]
"""A broken rule; one that does not bind this agent; an information."""

Ending = Literal["exit", "killed", "hang", "open"]
"""The process exited by itself, was ended by a signal of the tester, had not ended in time, or was still running."""


ORDERLY: Final = frozenset({None, 0, 129, 130, 143, -1, -2, -15})
"""Codes of an orderly end: of stdin, by SIGHUP, SIGINT, SIGTERM; negative where the signal itself ended the process."""

EXIT_S: Final = 5.0
"""The process ends in this time behind the end of stdin, or a signal."""


def stretched(named_s: float, patience: float) -> float:
    """Return how long something may take, in seconds, that is given `named_s` seconds.

    Patience multiplies it; below 1 it shortens nothing, since rules name the time.
    """
    return named_s * max(1.0, patience)


class Step(NamedTuple):
    """One line, in one direction."""

    number: int
    """Its place in the trace, from 1."""
    direction: Direction
    line: str
    """Without its LF. Bytes that are no UTF-8 are surrogate escapes."""
    record: Record | None
    """The JSON object of the line; None: it is not one."""
    at: float = 0.0
    """Seconds since the agent was started; 0 where that is not known."""
    group: int = 0
    """Steps of one write share it."""


class End(NamedTuple):
    """How a trace ended."""

    how: Ending
    code: int | None = None
    """Of the exit; negative: the signal that ended the process."""
    stderr: str = ""
    seconds: float = 0.0
    """From the end of stdin, or from the signal, to the exit."""
    rest: str = ""
    """The bytes of stdout after the last LF."""
    after: int | None = None
    """The last step before the end of stdin, or before the signal that ended the process; None: unknown."""


class Checks(NamedTuple):
    """The facts about a trace, which decide what can be judged. The default: everything, on a quiet machine."""

    has_inputs: bool = True
    """Commands are in the trace. Without them nothing is judged that needs one."""
    is_whole: bool = True
    """The trace begins with the process. Otherwise what came before is unknown, and so is the state."""
    is_fresh: bool = True
    """The session was empty when the process began."""
    is_ours: bool | None = None
    """The agent claims to follow the rules of origin `ours`; None: as its generation does."""
    has_times: bool = True
    """`Step.at` is known."""
    has_extensions: bool = False
    """Extensions may send texts and messages of their own, and take commands away."""
    is_reading: bool = True
    """The client read all the time; otherwise times and the order of inputs and outputs prove nothing."""
    is_overloaded: bool = False
    """The machine lagged: a deadline that was missed is information."""
    patience: float = 1.0
    """Of every deadline: see `stretched`."""

    def deadline_s(self, named_s: float) -> float:
        """Return how long something may take that a rule gives so much time."""
        return stretched(named_s, self.patience)


WHOLE: Final = Checks()
"""Everything is known."""


class Verdict(NamedTuple):
    """One finding."""

    invariant: str
    """`I-QUE-2`."""
    rules: tuple[str, ...]
    """Ids of the rules that are broken."""
    steps: tuple[int, ...]
    """Numbers of the steps that prove it, in order; empty: the end of the trace does."""
    text: str
    """One line for people. Names the steps."""
    level: Level = "violation"
    is_timed: bool = False
    """It is a missed deadline: on an overloaded machine it proves nothing."""


@runtime_checkable
class Observer(Protocol):
    """An automaton that judges one invariant. Never raises, for any input."""

    @property
    def id(self) -> str:
        """The invariant."""
        ...

    armed: int
    """How often the invariant was applicable: one that is never armed proves nothing."""

    def feed(self, step: Step) -> Sequence[Verdict]:
        """Take the next step and return its violations."""
        ...

    def finish(self, end: End) -> Sequence[Verdict]:
        """Take the end of the trace and return its violations."""
        ...


class Report(NamedTuple):
    """The judgement of one trace."""

    verdicts: tuple[Verdict, ...]
    """In the order of the steps that gave rise to them."""
    armed: Mapping[str, int]
    """Invariant -> how often it was armed."""
    steps: int
    """How many were judged."""

    @property
    def violations(self) -> tuple[Verdict, ...]:
        """The findings that make an agent fail."""
        return tuple(verdict for verdict in self.verdicts if verdict.level == "violation")
