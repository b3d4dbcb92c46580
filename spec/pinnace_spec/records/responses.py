"""Responses: the envelope, and the type of the data of every command's success, for each profile.

Types, and what fields of one answer must not contradict; the data of reads is in `readings`. Which type answers which
command is declared with the command (`commands`). Must not know what a command does nor how an answer is judged
(`outputs`). Source: the published protocol, its older and later generations, R-RSP-01, R-ERR-01, R-PRO-01.
"""

from collections.abc import Iterator, Mapping
from types import EllipsisType
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from pinnace_spec.profiles.profiles import Profile
from pinnace_spec.records import compactions, readings
from pinnace_spec.records.commands import MODELS
from pinnace_spec.records.events import AgentInfo
from pinnace_spec.records.messages import Model, ThinkingLevel
from pinnace_spec.records.output_model import NonEmpty, OutputModel
from pinnace_spec.rules.errors import ErrorCode

Id: TypeAlias = str | int | float | None
Code: TypeAlias = Annotated[ErrorCode, Field(strict=False)]


def _refuse_numbers(value: object) -> object:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


class Success(OutputModel):
    """A command was carried out, or accepted. With `data` where the command has some. An id of null is one."""

    type: Literal["response"]
    id: Id = ""
    command: str
    success: Literal[True]


class _Failure(OutputModel):
    type: Literal["response"]
    id: Id = ""
    command: str
    success: Annotated[Literal[False], BeforeValidator(_refuse_numbers)]  # 0 equals False
    error: NonEmpty


class SeedFailure(_Failure):
    """A command was refused or has failed. `command` is what the client wrote, whatever that was."""


class Failure(_Failure):
    """With its code, for programs."""

    errorCode: Code
    didYouMean: NonEmpty | None = None
    """The existing command, model (`provider/id`) or tool whose name is nearest to the unknown one."""


class Disposition(OutputModel):
    """What happened to a message."""

    disposition: Literal["started", "queued", "handled", "duplicate"]
    state: Literal["queued", "delivered", "returned", "handled"] | None = None
    """Of a duplicate: what became of the message."""
    entryId: NonEmpty | None = None
    """Of a duplicate that was delivered: its entry."""


class QueuedTexts(OutputModel):
    """The messages that were removed from the queues."""

    steering: list[str]
    followUp: list[str]


class Cleared(OutputModel):
    """The messages of the queue, if the abort cleared it."""

    cleared: QueuedTexts


class AgentMessageAccepted(OutputModel):
    """A message to a sub-agent."""

    messageId: NonEmpty
    """Its name; one that was given none has got one."""
    state: Literal["accepted", "delivered", "returned"]
    """`accepted` the first time, or `returned` if its sub-agent has ended meanwhile; of one that is repeated, what
    became of it."""


class AgentStarted(OutputModel):
    """A sub-agent that a client has started."""

    agent: AgentInfo
    """As `list_agents` has it; of a task that is repeated, in the state that its sub-agent has."""


class AgentResult(OutputModel):
    """What became of a sub-agent."""

    agent: AgentInfo
    """As `list_agents` has it; `running` only where `timeout` was shorter, or another process has its session."""
    text: str | None
    """Its last answer; null if it has given none."""


class SeedReplaced(OutputModel):
    """Whether an extension prevented the replacement of the session."""

    cancelled: bool


class Replaced(SeedReplaced):
    """With the messages that were queued in the former session."""

    cleared: QueuedTexts | None = None


class SeedForked(SeedReplaced):
    """With the text of the message that the fork starts before."""

    text: str


class Forked(Replaced):
    """With the text of the message that the fork starts before."""

    text: str


class SeedBranched(OutputModel):
    """`SeedForked` in the oldest generation, which has the text alone unless an extension kept it from happening."""

    text: str
    cancelled: bool | None = None


class Branched(SeedBranched):
    """With the messages that were queued in the former session."""

    cleared: QueuedTexts | None = None


class CycledModel(OutputModel):
    """The selected model. `isScoped`: the choice is restricted by the user."""

    model: Model
    thinkingLevel: ThinkingLevel
    isScoped: bool


class Level(OutputModel):
    """The selected thinking level."""

    level: ThinkingLevel


class ShellResult(OutputModel):
    """The result of a client's `bash`. It was cancelled exactly if there is no exit code."""

    output: str
    exitCode: int | None = None
    cancelled: bool
    truncated: bool
    fullOutputPath: NonEmpty | None = None

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.cancelled == (self.exitCode is not None):
            raise ValueError("exitCode exactly if not cancelled")
        return self


class Path(OutputModel):
    """The path of a written file."""

    path: NonEmpty


def _resolved(name: str | None, types: Mapping[str, Any]) -> object:  # Any: a type or a union, which take `| None`
    if name is None:
        return None
    kind = name.removesuffix(" | None")
    return types[kind] if kind == name else types[kind] | None


def _answers(profile: Literal["pi", "seed"]) -> Iterator[tuple[str, object]]:
    types = {**vars(compactions), **vars(readings), **globals()}
    for name, model in MODELS.items():
        known = profile == "pi" or name == "hello" or model.since is not None
        if model.kind != "answer" and known:
            older = model.seed_answer if profile == "seed" else ...
            yield name, _resolved(model.answer if isinstance(older, EllipsisType) else older, types)


_SEED: Final[Mapping[str, object]] = dict(_answers("seed"))
_PI: Final[Mapping[str, object]] = dict(_answers("pi"))
DATA: Final[Mapping[Profile, Mapping[str, object]]] = {"pi": _PI, "1.5": _PI, "seed": _SEED}
"""The type of the data of a command's success; None: there is none."""
MAY_LACK_DATA: Final = frozenset({"abort"})
FAILURES: Final[Mapping[Profile, type[OutputModel]]] = {"pi": Failure, "1.5": Failure, "seed": SeedFailure}
