"""The statechart of one agent in a host: when it has a process, and what follows when that ends.

Two regions: the life of the agent, and its clients. A transition belongs to states of both, an event, and perhaps a
guard; of those for one cell the first whose guard holds is taken, and every cell has one that always holds. Rows only:
pure, no clock. Must not know what a guard computes or an action does: `supervisor` does.
"""

from collections.abc import Mapping
from itertools import product
from typing import Final, Literal, NamedTuple, get_args

Life = Literal["asleep", "starting", "running", "stopping", "backing_off", "failed"]
"""`asleep`: no process, a client starts it. `starting`: until its first answer. `stopping`: its stdin has ended, and
nothing is given to it any more. `backing_off`: no process, a delay does. `failed`: no process, a client tries again."""
Clients = Literal["none", "attached"]
Event = Literal[
    "attach",  # a client, with all that a process is started with
    "detach",  # the last client
    "restart",  # requested, without a client
    "stop",  # requested, or the client that started it has ended it
    "answered",  # the process, for the first time
    "not_started",  # no process could be started
    "ended",  # the process, by itself with 0, or by a signal that requests it; the rest of its output is read now
    "closed",  # the same process, when that is done
    "refused",  # the process, with an exit code that says why it can't be started so: another try ends likewise
    "crashed",  # the process, otherwise
    "delay_over",
    "steady",  # it has worked for long enough that its crashes are forgotten
    "idle",  # for long enough
]
Guard = Literal["", "has_start", "is_wanted", "is_restartable", "is_unused"]
Action = Literal[
    "keep_start",
    "begin",
    "end_process",
    "want",
    "unwant",
    "delay",
    "cancel_delay",
    "forget_crashes",
    "replace",
    "rest",
    "fail",
    "refuse",
]

LIVES: Final[tuple[Life, ...]] = get_args(Life)
CLIENTS: Final[tuple[Clients, ...]] = get_args(Clients)
EVENTS: Final[tuple[Event, ...]] = get_args(Event)


class Transition(NamedTuple):
    """One row. Its order among the rows of its cell counts."""

    life: Life
    clients: Clients
    event: Event
    guard: Guard
    target: Life | None
    """None: it stays in its state."""
    actions: tuple[Action, ...]


def _rows(
    lives: str, event: Event, guard: Guard, target: Life | None, *actions: Action, clients: Clients | None = None
) -> tuple[Transition, ...]:
    names: list[Life] = [life for life in LIVES if life in lives.split()]
    regions = CLIENTS if clients is None else (clients,)
    return tuple(Transition(life, each, event, guard, target, actions) for life in names for each in regions)


_ALL: Final = " ".join(LIVES)

TRANSITIONS: Final = (
    # A client brings the environment; that of one that attaches to a process changes nothing.
    *_rows("asleep failed", "attach", "", "starting", "keep_start", "forget_crashes", "begin"),
    *_rows("starting running backing_off", "attach", "", None),
    *_rows("stopping", "attach", "", None, "keep_start", "want"),
    *_rows(_ALL, "detach", "", None),
    # Without a client: with the environment of the last start, which a new host does not have.
    *_rows("asleep failed", "restart", "has_start", "starting", "forget_crashes", "begin"),
    *_rows("asleep failed", "restart", "", None, "refuse"),
    *_rows("backing_off", "restart", "", "starting", "cancel_delay", "forget_crashes", "begin"),
    *_rows("starting running", "restart", "", "stopping", "want", "end_process"),
    *_rows("stopping", "restart", "", None, "want"),
    *_rows("asleep failed", "stop", "", None),
    *_rows("backing_off", "stop", "", "asleep", "cancel_delay", "rest"),
    *_rows("starting running", "stop", "", "stopping", "unwant", "end_process"),
    *_rows("stopping", "stop", "", None, "unwant"),
    *_rows("starting", "answered", "", "running"),
    *_rows("running stopping", "answered", "", None),
    # The end of a process that was to end: how it has ended does not matter.
    *_rows("stopping", "closed", "is_wanted", "starting", "unwant", "replace", "begin"),
    *_rows("stopping", "closed", "", "asleep", "rest"),
    *_rows("stopping", "not_started", "is_wanted", "starting", "unwant", "replace", "begin"),
    *_rows("stopping", "not_started", "", "asleep", "rest"),
    *_rows("starting", "not_started", "", "failed", "fail"),
    *_rows("starting running", "ended", "", "stopping", "unwant"),
    *_rows("starting running", "refused", "", "failed", "fail"),
    *_rows("starting running", "crashed", "is_restartable", "backing_off", "replace", "delay"),
    *_rows("starting running", "crashed", "", "failed", "fail"),
    *_rows("backing_off", "delay_over", "", "starting", "begin"),
    *_rows("running", "steady", "", None, "forget_crashes"),
    *_rows("stopping", "steady", "", None),
    *_rows("running", "idle", "is_unused", "stopping", "unwant", "end_process", clients="none"),
    *_rows("running", "idle", "", None),
    *_rows("stopping", "idle", "", None),
)

POSSIBLE: Final[Mapping[Event, str]] = {
    "attach": _ALL,
    "detach": _ALL,
    "restart": _ALL,
    "stop": _ALL,
    "answered": "starting running stopping",
    "not_started": "starting stopping",
    "ended": "starting running",
    "closed": "stopping",
    "refused": "starting running",
    "crashed": "starting running",
    "delay_over": "backing_off",
    "steady": "running stopping",
    "idle": "running stopping",
}
"""In which states each event may come: those of a process or a delay, where there is one."""


def undecided() -> list[tuple[Life, Clients, Event]]:
    """Return the cells without a last row that always holds, and those that can't be reached and have one.

    A cell is a state of each region and an event.
    """
    wrong: list[tuple[Life, Clients, Event]] = []
    for life, clients, event in product(LIVES, CLIENTS, EVENTS):
        guards = [row.guard for row in TRANSITIONS if row[:3] == (life, clients, event)]
        expected = [""] if life in POSSIBLE[event].split() else []
        if guards[-1:] != expected or "" in guards[:-1]:
            wrong.append((life, clients, event))
    return wrong
