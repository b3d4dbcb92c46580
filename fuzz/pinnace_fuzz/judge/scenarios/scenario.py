"""What a scenario is: a model's script, a client's steps, and what must be seen. Rows only.

Made by `scenario_reading` from YAML or JSON; a scenario keeps its source, so that a stored failure is one again.
Rules of the format: `spec/scenarios/README.md`. Must not know how anything is carried out (`player`).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from pinnace_fuzz.judge.scenarios.shapes import as_list, as_object

Json: TypeAlias = Any
"""The edge of JSON: what a scenario sends may be anything, that is the point."""

SessionKind = Literal["none", "new"]
SignalName = Literal["TERM", "INT", "HUP", "KILL"]

CAPABILITIES: Mapping[str, str] = {
    "llm": "the tester's model server can replace the real one",
    "tools": "the model's calls of a tool `bash` are carried out",
    "bash": "the command `bash` runs a shell",
    "sessions": "sessions can be written to files",
    "resume": "a session file can be opened at the start",
    "settings": "`settings.json` can be supplied",
    "images": "a model that takes images can be chosen",
    "reasoning": "a model that thinks can be chosen",
    "models": "several models can be chosen between",
    "context": "files of instructions (AGENTS.md) are read from the working folder",
    "prompts": "templates and skills can be put in place",
    "extensions": "extensions of this project's kind (Python) can be put in place",
    "pinnace": "what only this project's agent has: `hello`, `--protocol`, `--on-eof`",
}
"""The capabilities that a scenario may need, with their meaning. An adapter lists those that it offers."""

EXTENSION_FILE: Final = re.compile(r"(agent|work/\.\w+|\.\w+)/(extensions|hooks)/.+")
"""The folders of extensions; older generations call the scripts hooks."""


class Send(NamedTuple):
    """Records in one write."""

    records: tuple[Mapping[str, Json], ...]


class Bytes(NamedTuple):
    """Bytes as they are; cut: in parts at these places, each read before the next; `(-1,)`: every byte alone."""

    data: bytes
    cuts: tuple[int, ...] = ()


class Wait(NamedTuple):
    """Records like these, in any order, behind the last one waited for; `keep`: name -> path of a field."""

    wanted: tuple[str | Mapping[str, Json], ...]
    keep: Mapping[str, str] = {}


class Try(NamedTuple):
    """A record like this, if it comes within a moment; for generated scripts, which do not know."""

    wanted: str


class Answered(NamedTuple):
    """The responses with these ids, wherever they are; none named: of everything that was sent."""

    ids: tuple[str | int, ...]


class Reached(NamedTuple):
    """The model's answer, or the shell's command, waits at a gate."""

    gate: str


class Open(NamedTuple):
    """Gates open for good."""

    gates: tuple[str, ...]


class Requests(NamedTuple):
    """The model has been asked so often in all."""

    number: int


class Gone(NamedTuple):
    """The agent has closed so many of the model's answers before their end."""

    number: int


class Close(NamedTuple):
    """The client closes its end."""

    what: Literal["stdin", "stdout"]


class Reading(NamedTuple):
    """The client stops reading, or continues."""

    is_on: bool


class Signal(NamedTuple):
    """A signal to the agent's process."""

    name: SignalName


class Exit(NamedTuple):
    """The agent exits; with this code unless None."""

    code: int | None
    within_s: float


class Restart(NamedTuple):
    """The agent is killed, if it runs, and started again in the same home; `session`: with the same session."""

    has_session: bool = True


class Quiet(NamedTuple):
    """Everything sent is answered and the agent does nothing by itself any more."""


class State(NamedTuple):
    """`get_state` now contains at least this."""

    fields: Mapping[str, Json]


class Ask(NamedTuple):
    """A command and what its response must have at least; `keep`: name -> path in the response."""

    record: Mapping[str, Json]
    gives: Mapping[str, Json]
    keep: Mapping[str, str] = {}


class Mark(NamedTuple):
    """A mark in the trace that expressions can name."""

    name: str


class FileCheck(NamedTuple):
    """A file of the home: there or not, with regular expressions found or not."""

    path: str
    exists: bool = True
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()


class Files(NamedTuple):
    """What must be true of files."""

    checks: tuple[FileCheck, ...]


class Write(NamedTuple):
    """Files that another program writes while the agent works, or appends to."""

    files: Mapping[str, str]
    is_appended: bool = False


class Remove(NamedTuple):
    """Files, or folders with all that is in them, that another program removes."""

    paths: tuple[str, ...]


class Move(NamedTuple):
    """Files that another program renames: from -> to."""

    paths: Mapping[str, str]


class Lock(NamedTuple):
    """Another program holds an exclusive `flock` on a file from now on, or no longer."""

    path: str
    is_held: bool


class Children(NamedTuple):
    """The agent has so many descendants, or at least so many, after a moment at most."""

    number: int
    is_least: bool = False


Step: TypeAlias = (
    Send
    | Bytes
    | Wait
    | Try
    | Answered
    | Reached
    | Open
    | Requests
    | Gone
    | Close
    | Reading
    | Signal
    | Exit
    | Restart
    | Quiet
    | State
    | Ask
    | Mark
    | Files
    | Write
    | Remove
    | Move
    | Lock
    | Children
)


class RequestCheck(NamedTuple):
    """What must be true of the request that an answer of the model is for."""

    last_user: str | None = None
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    roles: tuple[str, ...] | None = None


class LlmAnswer(NamedTuple):
    """One answer of the model: its short form (`harness.model_server.short_form`) and what its request must be."""

    answer: Mapping[str, Json]
    check: RequestCheck | None = None


class Cell(NamedTuple):
    """The cell of the table state x command that a scenario is about."""

    state: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One scenario."""

    id: str
    title: str
    rules: tuple[str, ...]
    client: tuple[Step, ...]
    llm: tuple[LlmAnswer, ...] = ()
    since: str | None = None
    until: str | None = None
    needs: frozenset[str] = frozenset()
    settings: Mapping[str, Json] = field(default_factory=dict[str, Json])
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    session: SessionKind = "none"
    model: str = "m1"
    arguments: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    expect: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()
    state: Mapping[str, Json] = field(default_factory=dict[str, Json])
    exit: int | None = 0
    """The code with which the agent exits at the end of stdin; None: not judged."""
    cells: tuple[Cell, ...] = ()
    is_smoke: bool = False
    not_scored: str = ""
    """Why a failure counts nothing; empty: it counts."""
    skip_observers: tuple[str, ...] = ()
    """Invariants that do not apply, since the scenario violates their preconditions."""
    source: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """As it was read, spelled out: no setup, no table of rows."""
    place: str = ""
    """`file:line`."""

    @property
    def gates(self) -> tuple[str, ...]:
        """All gates of its script, so that the tester can open them at the end."""
        return tuple(dict.fromkeys(_gates(self.source)))

    @property
    def has_extensions(self) -> bool:
        """It puts extensions in place, so that more may happen than what client and model do."""
        written = [name for step in self.client if isinstance(step, Write) for name in step.files]
        return any(EXTENSION_FILE.fullmatch(name) for name in (*self.files, *written))

    @property
    def sent(self) -> int:
        """How many records and pieces of bytes the client sends: the size of a reproduction."""
        sizes = (len(step.records) if isinstance(step, Send) else 1 for step in self.client if is_input(step))
        return sum(sizes)


def is_input(step: Step) -> bool:
    """Return whether a step sends input to the agent."""
    return isinstance(step, Send | Bytes | Ask)


def _gates(value: Json) -> Sequence[str]:
    found: list[str] = []
    for key, each in (as_object(value) or {}).items():
        found += [each] if key in ("gate", "hold") and isinstance(each, str) else _gates(each)
    for each in as_list(value) or ():
        found += _gates(each)
    return found
