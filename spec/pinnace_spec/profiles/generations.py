"""The generations of the protocol as agents of their time speak them: which commands they take, what they write.

Derived from the declarations of commands and from `spec/profiles.toml`, which dates records and fields, by the release
that brought each or dropped it; a generation is one release. `profiles` names what our own program writes; a generation
is what is expected of any agent, so it also knows names that ours never writes (`auto_compaction_start`, the role
`system`). What is older than the documents that mention it is in `written` but not in `records`: an agent may write it,
and a client must not rely on it. Must not know what a record looks like (`publish.schema` does). Source: R-PRO-01.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast, get_args

from pinnace_spec import data
from pinnace_spec.profiles.command_dates import COMMAND_DATES

GenerationName = Literal["0.18", "0.5x", "seed", "0.87", "1.5", "pi"]
"""From old to new; `pi` is our own profile, which has everything."""

GENERATIONS: Final[tuple[GenerationName, ...]] = get_args(GenerationName)

DEFAULT_BUNDLE: Final[GenerationName] = "pi"
"""The one that documents point to which show the protocol as a whole."""

Kind = Literal["commands", "records", "fields", "roles", "stop_reasons", "levels", "habits"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

Release: TypeAlias = tuple[int, ...]
"""`(0, 80, 2)`."""


class Lifetime(NamedTuple):
    """When something was part of the protocol."""

    since: str | None
    """The first release that has it; None: no release of the original does, only this program."""
    until: str | None = None
    """The first release that has it no more."""
    published: str | None = None
    """The first release whose documents mention it; None: the one that brought it."""
    optional: str | None = None
    """The release from which on it may be absent, where it had to be there; None: as its type says, at all times."""
    ours: Literal["alone", "again", "never"] | None = None
    """This program's alone; dropped by the original and still in this program; not in this program."""

    def is_written_in(self, release: Release) -> bool:
        """Return whether that release of the original has it."""
        if self.since is None or release < release_of(self.since):
            return False
        return self.until is None or release < release_of(self.until)

    def is_certain_in(self, release: Release) -> bool:
        """Return whether that release always has it, where its type does not say otherwise."""
        return self.is_published_in(release) and (self.optional is None or release < release_of(self.optional))

    def is_spoken_by_us(self) -> bool:
        """Return whether this program has it, in its fullest profile."""
        return self.ours in {"alone", "again"} or (self.ours is None and self.until is None)

    def is_published_in(self, release: Release) -> bool:
        """Return whether that release's documents say so, too."""
        return self.is_written_in(release) and (self.published is None or release >= release_of(self.published))


class Generation(NamedTuple):
    """What an agent of one time speaks."""

    name: GenerationName
    release: str
    """The release of the original that stands for it."""
    is_ours: bool
    """It is what this program speaks, with everything that it adds."""
    about: str
    commands: frozenset[str]
    """What it takes, answers to dialogs included."""
    records: frozenset[str]
    """The types that it writes beside `response`, as documented."""
    written: frozenset[str]
    """`records`, and types that were written before they were documented."""
    fields: frozenset[str]
    """Of those that `profiles.toml` dates, the ones that exist: `agent_end.willRetry`, `prompt.data`."""
    roles: frozenset[str]
    """Of messages."""
    stop_reasons: frozenset[str]
    levels: frozenset[str]
    """Of thinking."""
    habits: frozenset[str]

    @property
    def has_settled(self) -> bool:
        """`agent_settled` says that nothing more will happen by itself."""
        return "agent_settled" in self.records

    @property
    def has_settled_aborted(self) -> bool:
        """It also says whether the work was aborted."""
        return "agent_settled.aborted" in self.fields

    @property
    def is_delta_only(self) -> bool:
        """`message_update` reports the step alone, without the message so far."""
        return "message_update.message" not in self.fields

    @property
    def has_update_usage(self) -> bool:
        """`message_update` reports what the request has cost so far."""
        return "message_update.usage" in self.fields

    @property
    def has_queue_update(self) -> bool:
        """Every change of the queues is reported."""
        return "queue_update" in self.records

    @property
    def has_two_queues(self) -> bool:
        """`steer` and `follow_up`; otherwise `queue_message`."""
        return "steer" in self.commands

    @property
    def has_clear_queue(self) -> bool:
        """A client can withdraw what is queued."""
        return "clear_queue" in self.commands

    @property
    def has_streaming_behavior(self) -> bool:
        """A prompt can say how it is queued."""
        return "prompt.streamingBehavior" in self.fields

    @property
    def has_disposition(self) -> bool:
        """The answer to a text says what became of it."""
        return "prompt.data" in self.fields

    @property
    def has_entries(self) -> bool:
        """A client can read the session's entries and tree."""
        return "get_entries" in self.commands

    @property
    def has_fork(self) -> bool:
        """`fork`; otherwise `branch`."""
        return "fork" in self.commands

    @property
    def has_new_session(self) -> bool:
        """`new_session`; otherwise `reset`."""
        return "new_session" in self.commands

    @property
    def has_compaction_records(self) -> bool:
        """`compaction_start` and `compaction_end`; otherwise `auto_compaction_*`, and none for `compact`."""
        return "compaction_start" in self.records

    @property
    def has_retry(self) -> bool:
        """Failed requests are tried again."""
        return "auto_retry_start" in self.records

    @property
    def has_will_retry(self) -> bool:
        """`agent_end` may say whether a retry follows, documented or not."""
        return "agent_end.willRetry" in self.fields

    @property
    def has_bash_updates(self) -> bool:
        """The output of a client's `bash` is reported as it comes."""
        return "bash_execution_update" in self.records

    @property
    def has_system_messages(self) -> bool:
        """Messages of role `system` stand in the conversation."""
        return "system" in self.roles

    @property
    def has_durations(self) -> bool:
        """`tool_execution_end` says how long the tool took."""
        return "tool_execution_end.durationMs" in self.fields

    @property
    def has_extension_ui(self) -> bool:
        """`extension_ui_request`; otherwise `hook_ui_request`, if anything."""
        return "extension_ui_request" in self.written

    def has_habit(self, name: str) -> bool:
        """Return whether agents of this time do what `profiles.toml` calls so."""
        return name in self.habits


@cache
def generation(name: GenerationName) -> Generation:
    """Return a generation.

    Raises:
        KeyError: There is none of that name.
    """
    entry = _generations()[name]
    release, is_ours = str(entry["release"]), bool(entry.get("ours"))
    number = release_of(release)

    def names(kind: Kind) -> frozenset[str]:
        lives = lifetimes(kind).items()
        if is_ours:
            return frozenset(name for name, life in lives if life.is_spoken_by_us())
        return frozenset(name for name, life in lives if life.is_written_in(number))

    return Generation(
        name,
        release,
        is_ours,
        str(entry["about"]),
        commands=names("commands"),
        records=frozenset(
            each for each in names("records") if is_ours or lifetimes("records")[each].is_published_in(number)
        ),
        written=names("records"),
        fields=names("fields"),
        roles=names("roles"),
        stop_reasons=names("stop_reasons"),
        levels=names("levels"),
        habits=names("habits"),
    )


@cache
def lifetimes(kind: Kind) -> Mapping[str, Lifetime]:
    """Return when what was part of the protocol, by name, in the order of its source."""
    declared: Mapping[str, Mapping[str, Any]] = COMMAND_DATES if kind == "commands" else {}
    table = {**declared, **_profiles()[kind]}
    return {
        name: Lifetime(
            dates.get("since"), dates.get("until"), dates.get("published"), dates.get("optional"), dates.get("ours")
        )
        for name, dates in table.items()
    }


def release_of(text: str) -> Release:
    """Read the number of a release, so that releases compare."""
    return tuple(map(int, text.split(".")))


def _generations() -> Mapping[str, Mapping[str, Any]]:
    # Any: TOML, whose shape a test holds.
    return cast("Mapping[str, Mapping[str, Any]]", _profiles()["generations"])


@cache
def _profiles() -> Mapping[str, Mapping[str, Any]]:
    return data.table("profiles.toml")
