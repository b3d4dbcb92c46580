"""One session: its tree of entries, the context that a model sees, its file, and its model, thinking level and name.

Decides what becomes an entry, in which order, and what happens to an entry that can't be saved: work in progress is
kept in memory and the failure reported (`keep`), a command is rejected and leaves no trace (`accept`, `choose`).
`store.file` brings lines to the disk, `context` chooses the entries that make the context, `tree` finds the parents.
Has no access to records, queues or providers. Without a file everything stays in memory. Rules R-SES-05 to R-SES-08.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, cast

from pinnace_agent.core.json_access import as_object
from pinnace_agent.core.surroundings import wall_time_ns
from pinnace_agent.session.context import ContextIndex
from pinnace_agent.session.identity import iso_time, new_entry_id, new_session_id
from pinnace_agent.session.store.entries import StoredMessage
from pinnace_agent.session.store.file import SaveError, SessionFile
from pinnace_agent.session.store.lease import LeaseHeld
from pinnace_agent.session.store.reading import read_entries
from pinnace_agent.session.store.save_error import not_written
from pinnace_agent.session.totals import RunningTotals
from pinnace_agent.session.tree import EntryTree
from pinnace_spec.records.entries import Entry
from pinnace_spec.records.messages import Message, Model, ThinkingLevel
from pinnace_spec.rules.errors import ClientError
from pinnace_spec.wire.json_text import EncodedArray, encode_fragment, encode_record, without_faults

if TYPE_CHECKING:
    from orjson import Fragment

    from pinnace_agent.session.context_meter import ContextMeter
    from pinnace_agent.session.interruption import Interruption
    from pinnace_agent.session.library import OpenedSession
    from pinnace_agent.session.tool_records import ToolChange

_log = logging.getLogger("pinnace.session")

# Entries of ours under the type that every reader of the format passes over.
LEAF_MARKER: Final = "pinnace.leaf"
REFUSED: Final = "refused"
"""The field of a marker with the id of a message that it leaves out since its prompt was refused."""
_LEFT_WAIT_S: Final = 1.0
"""How long an append waits for a process that leaves the file: for its flush, which takes milliseconds."""
_OF_EACH_ENTRY: Final = frozenset({"type", "id", "parentId", "timestamp"})
PENDING_SHELL: Final = "pinnace.pending-shell"


@dataclass(slots=True, frozen=True)
class SessionReport:
    """What was wrong with a file when it was read; reading changed nothing."""

    damaged_lines: int = 0
    orphans: int = 0
    has_torn_tail: bool = False
    damaged_copy: str | None = None
    """The path of the quarantine file, which keeps the damaged bytes; None: there is none."""


class OnTakenOver(Protocol):
    """Called after the file of a session was opened anew."""

    def __call__(self, is_following: bool, notices: tuple[str, ...], /, *, is_other_conversation: bool) -> None:
        """Take whether the choices were those of its entries, notices, and whether it ends with another entry."""


class Session:
    """One conversation. A session command replaces the object; a shell keeps the one in which it was admitted.

    `messages` is the context of the leaf, and only for reading. `model`, `thinking_level` and `name` are choices: they
    become entries before the next entry that is saved for its own sake.
    """

    def __init__(
        self,
        cwd: str,
        *,
        session_id: str | None = None,
        parent_session: str | None = None,
        tree: EntryTree | None = None,
        file: SessionFile | None = None,
        report: SessionReport | None = None,
        is_continued: bool = False,
        take_over: "Callable[[Session], OpenedSession] | None" = None,
    ) -> None:
        """Take what was read, or begin with nothing.

        Args:
            cwd: The folder in which its tools work.
            session_id: None makes one.
            parent_session: Path of the session that it comes from.
            tree: What its file holds.
            file: None keeps it in memory.
            report: What was wrong with its file.
            is_continued: Whether its file is continued here; a copy is a new session.
            take_over: Takes the lease of the file, which another process has, and opens it anew; raises `LeaseHeld`,
                `ClientError` or OSError. None: there is no other process.
        """
        self.cwd = cwd
        self.id = session_id or new_session_id()
        self.parent_session = parent_session
        self.tree = tree or EntryTree()
        self.file = file
        self.report = report or SessionReport()
        self.is_continued = is_continued
        self.totals = RunningTotals()
        self.model: Model | None = None
        self.thinking_level: ThinkingLevel = "off"
        self.name: str | None = self.tree.name
        self.on_problem: Callable[[str], None] | None = None  # called once when saving begins to fail
        self.on_appended: Callable[[], None] | None = None  # called after each line that was written
        self.users = 0  # that may still append: the host, shells that were accepted here
        self._messages: list[Message] = []
        self._unread: ContextIndex | None = None  # what `_messages` will hold once it is read
        self._meter: ContextMeter | None = None
        self.recorded_model: tuple[str, str] | None = None  # the latest of the current branch
        self.recorded_level: str | None = None
        self.tools: ToolChange | None = None  # chosen, and not recorded yet
        self._reported_problem: str | None = None
        self._take_over = take_over
        self.on_taken_over: OnTakenOver | None = None
        # Until its first run here. What another process does at the moment is not interrupted.
        self._may_be_interrupted = tree is not None and take_over is None
        self._interruption: Interruption | None = None
        self._last_ms = 0
        self._reserved: set[str] = set()  # ids of entries that are not appended yet
        self._rebuild()
        if file is not None:
            file.on_foreign = self._take_foreign

    @property
    def path(self) -> str | None:
        """Where it is or will be saved; None in memory."""
        return None if self.file is None else str(self.file.path)

    @property
    def problem(self) -> str | None:
        """Why not everything is saved, or nothing may be; None when all is well."""
        return None if self.file is None else self.file.problem or self.file.read_only

    @property
    def is_beside_owner(self) -> bool:
        """Whether another process had the file when it was opened, and this one has appended nothing since."""
        return self._take_over is not None

    @property
    def is_being_left(self) -> bool:
        """Whether another process has the file, and has begun to leave it: its client may know of that."""
        if self._take_over is None or self.file is None:
            return False
        from pinnace_agent.session.store.leaving import is_being_left  # of a session that another process had

        return is_being_left(self.file.path)

    async def wait_until_left(self) -> None:
        """Wait for a process that has begun to leave the file, a second at most; mostly there is none."""
        if self._take_over is not None and self.file is not None:
            from pinnace_agent.session.store.leaving import wait_until_left

            await wait_until_left(self.file.path, _LEFT_WAIT_S)

    def claim(self) -> str | None:
        """Make sure that this process may append, before something is done whose result is to be appended.

        Waits for no other process (`wait_until_left`).

        Returns why it may not: another process has the file. One that has ended meanwhile has left the session to this
        one, which reads the file anew: the conversation continues behind what was appended there.
        """
        if self._take_over is None or self.file is None:
            return None
        try:
            opened = self._take_over(self)
        except LeaseHeld as held:
            self.file.read_only = held.append_text
        except ClientError as error:
            self.file.read_only = error.text
        except OSError as error:
            self.file.read_only = not_written(self.file.path, error)
        else:
            self._take_over = None
            left = self.tree.leaf_id
            is_following = self.model is None or (self.model["provider"], self.model["id"]) == self.recorded_model
            self._continue_from(opened.session, self.file)
            if self.on_taken_over is not None:
                is_other = self.tree.leaf_id != left
                self.on_taken_over(is_following, opened.notices, is_other_conversation=is_other)
        return self.file.read_only

    def _continue_from(self, opened: "Session", former: SessionFile) -> None:
        """Be what was read anew, with what was kept in memory alone behind it."""
        entries = self.tree.entries[len(self.tree.entries) - former.unsaved :] if former.unsaved else []
        if self.name == self.tree.name:
            self.name = opened.name
        self.id, self.tree, self.file, self.report = opened.id, opened.tree, opened.file, opened.report
        if self.file is not None:
            self.file.on_foreign, self.file.on_notice = self._take_foreign, former.on_notice
        self.totals = RunningTotals()
        self._may_be_interrupted, self._interruption, self._reported_problem = True, None, None
        for entry in entries:
            fields = {name: value for name, value in entry.items() if name not in _OF_EACH_ENTRY}
            entry_id = str(entry["id"])
            self._append(str(entry["type"]), fields, entry_id=None if self.tree.has_id(entry_id) else entry_id)
        self._rebuild()

    @property
    def messages(self) -> list[Message]:
        """The context of the leaf."""
        if self._unread is not None:
            self._messages[:], self._unread = self._unread.messages(), None
        return self._messages

    @property
    def interruption(self) -> "Interruption | None":
        """What was cut when the process that had this session before ended; None: nothing, or a run has followed."""
        if self._may_be_interrupted:
            from pinnace_agent.session.interruption import find_interruption  # not at start: for opened sessions

            self._interruption, self._may_be_interrupted = find_interruption(self.tree.upward(self.tree.leaf)), False
        return self._interruption

    def run_begins(self) -> None:
        """Forget what was interrupted before: the conversation continues."""
        self._interruption, self._may_be_interrupted = None, False

    def run_ends(self) -> None:
        """Mark the end of a run whose messages do not show that it has ended: a crash would leave the same."""
        if self.file is None:
            return
        from pinnace_agent.session.interruption import RUN_ENDED, find_interruption  # not at start: no run has ended

        if find_interruption(self.tree.upward(self.tree.leaf)) is not None:
            self.keep_custom(RUN_ENDED, {})

    def retry_begins(self) -> None:
        """Mark that the answer that has just failed does not end its run: it is asked for again."""
        if self.file is not None:
            from pinnace_agent.session.interruption import RETRYING

            self.keep_custom(RETRYING, {})

    @property
    def message_count(self) -> int:
        """How many they are. Cheaper than reading them, after a session was opened."""
        return len(self._messages) if self._unread is None else self._unread.count()

    @property
    def meter(self) -> "ContextMeter":
        """What the messages come to."""
        from pinnace_agent.session.context_meter import ContextMeter  # not at start: it is of no use before a prompt

        if self._meter is None:
            self._meter = ContextMeter()
        if self._unread is None:
            self._meter.read(self._messages)
        elif not self._meter.has_read:
            self._meter.begin(self._unread.items())
        return self._meter

    def newest_first(self) -> Iterator[Message]:
        """Yield the messages from the last to the first; of a session that was just opened only as far as need be."""
        return reversed(self._messages) if self._unread is None else self._unread.newest_first()

    def encoded_messages(self) -> "Fragment | EncodedArray":
        """Return the messages as a JSON array. Those that have not been decoded are taken from their lines."""
        if self._unread is None:
            return encode_fragment(self._messages)
        items = self._unread.items()
        if not any(isinstance(item, StoredMessage) for item in items):
            return encode_fragment(items)
        from pinnace_agent.session.store.line_shape import encoded_messages  # not at start: most sessions are short

        return encoded_messages(items)

    def now_ms(self) -> int:
        """Return the wall clock in milliseconds since the epoch, never earlier than it was before (I-EVT-12)."""
        self._last_ms = max(self._last_ms, wall_time_ns() // 1_000_000)
        return self._last_ms

    def reserve_entry_id(self) -> str:
        """Return an id for an entry that will be appended; no other entry gets it."""
        entry_id = new_entry_id(self.tree.ids)
        while entry_id in self._reserved:
            entry_id = new_entry_id(self.tree.ids)
        self._reserved.add(entry_id)
        return entry_id

    def release_entry_id(self, entry_id: str) -> None:
        """Take a reserved id back: the entry will not be appended."""
        self._reserved.discard(entry_id)

    def entry_of_message_id(self, message_id: str) -> str | None:
        """Return the id of the entry that has a message of the user, on any branch; None: no message has this id."""
        return self.tree.entry_of_message_id(message_id)

    def keep(self, message: Message, *, entry_id: str | None = None, message_id: str = "") -> None:
        """Append a message of work in progress. Never refused: what can't be saved now is reported and tried again.

        Args:
            message: Of any role.
            entry_id: What `reserve_entry_id` returned for it; None: any.
            message_id: Of a message of the user; empty for others.
        """
        self.record_choices()
        if message["role"] == "custom":
            fields: Mapping[str, object] = {
                name: value for name, value in message.items() if name not in {"role", "timestamp"}
            }
            # The entry's time is what readers take for the message's.
            entry = self._keep("custom_message", fields, at_ms=message["timestamp"], entry_id=entry_id)
            is_whole = all(entry[name] is value for name, value in fields.items())
        else:
            fields = _fields(message, message_id)
            is_whole = self._keep("message", fields, entry_id=entry_id)["message"] is message
        self.messages.append(message if is_whole else cast("Message", without_faults(message)))  # cast: its fields are
        if message["role"] == "assistant":  # readers take the model from whichever came last
            self.recorded_model = message["provider"], message["model"]

    def keep_custom(self, custom_type: str, data: object) -> Entry:
        """Append an entry that no model reads, as `keep` does, and return it."""
        return self._keep("custom", {"customType": custom_type, "data": data})

    def accept_custom(self, custom_type: str, data: object, *, makes_file: bool = True) -> SaveError | None:
        """Append an entry that no model reads; return why it is not in the file, and then not in the session either.

        Without `makes_file` it waits for another entry where the session has no file yet.
        """
        _, failure = self._append("custom", {"customType": custom_type, "data": data}, is_setup=not makes_file)
        if failure is not None and self.file is not None and self.file.withdraw_last():
            self._remove_last()
        return failure

    def keep_usage(self, fields: Mapping[str, object]) -> Entry:
        """Append what was used beside the messages of the session, as `keep` does, and return the entry."""
        return self._keep("usage", fields)

    def keep_label(self, target_id: str, label: str | None) -> None:
        """Append a bookmark of an entry, or that it has none any more, as `keep` does."""
        self._keep("label", {"targetId": target_id, "label": label})

    def choose_label(self, target_id: str, label: str | None) -> None:
        """Bookmark an entry, or remove its bookmark, where that can be saved.

        Raises:
            SaveError: What was appended before is still not saved, or nothing may be: nothing was changed.
        """
        if (problem := self.claim()) is not None:
            raise SaveError(problem)
        if self.file is not None:
            self.file.flush()
        _, failure = self._append("label", {"targetId": target_id, "label": label})
        # Else a part of it is in the file, and the rest will be.
        if failure is not None and self.file is not None and self.file.withdraw_last():
            self._remove_last()
            raise failure

    def move(self, place: int | None, fields: Mapping[str, object] | None = None) -> Entry:
        """Continue from another entry; None: from before the first. Returns the entry that marks this for readers.

        Args:
            place: Of the entry.
            fields: Of a summary of the branch that is left, which becomes part of the new one.
        """
        left = self.tree.leaf_id
        self.tree.leaf = place
        if fields is None:
            entry = self.keep_custom(LEAF_MARKER, {"left": left})
        else:
            entry = self._keep("branch_summary", fields)
        self._rebuild()
        return entry

    def keep_entry(self, entry_type: str, fields: Mapping[str, object]) -> Entry:
        """Append an entry of any type, as `keep` does, and return it; the context is made anew."""
        self._keep(entry_type, fields)
        self._rebuild()
        assert self.tree.leaf is not None
        return self.tree.entries[self.tree.leaf]

    def entry_of(self, message: Message) -> Entry | None:
        """Return the entry of a message, this very object, that is in the branch."""
        place = self.tree.leaf
        while place is not None and self.tree.entries[place].get("message") is not message:
            place = self.tree.parent(place)
        return None if place is None else self.tree.entries[place]

    def accept(self, message: Message, message_id: str) -> int:
        """Append a message of the user that is refused if it can't be saved. Returns its place, for `drop`.

        Raises:
            SaveError: The message is not in the branch.
        """
        self.record_choices()
        _, failure = self._append("message", _fields(message, message_id))
        self.messages.append(message)
        place = self.tree.leaf
        assert place is not None
        if failure is not None:
            self.drop(place)
            raise failure
        return place

    def compact(self, fields: Mapping[str, object], *, entry_id: str | None = None) -> None:
        """Append a compaction, as `keep` does; the context begins with its summary now."""
        self.record_choices()
        self._keep("compaction", fields, entry_id=entry_id)
        self._rebuild()

    def leave_failed(self) -> None:
        """Take the newest answer out of the context; its entry stays, with one that hides it from readers."""
        place = self.tree.leaf
        while place is not None and _role(self.tree.entries[place]) != "assistant":
            place = self.tree.parent(place)
        if place is not None:
            self._keep("context_edit", {"targetId": self.tree.entries[place]["id"], "replacement": None})
            self._rebuild()

    def drop(self, place: int) -> bool:
        """Take an accepted message out of the branch: the leaf goes back to where it was.

        Returns whether it is out only when what was appended by this is on the disk (`sync`). What is in the file stays
        there, as a branch of its own; a marker makes readers go on from the former leaf, and the message's id unknown
        again. If the marker can't be saved, the message is taken out of the file: a crash would leave it in the branch.
        """
        if place == len(self.tree.entries) - 1 and (self.file is None or self.file.withdraw_last()):
            self.tree.remove_last(place)
            self.totals = RunningTotals()
            is_marked = False
        else:
            is_marked = True
            self.tree.leaf = self.tree.parent(place)
            left = self.tree.entries[place]
            # In one entry: a crash between two would leave a message out whose id is known, and which is so lost.
            marker = {"left": left["id"], REFUSED: left.get("messageId")}
            failure = self.accept_custom(LEAF_MARKER, marker)
            # Else a part of the marker is in the file, and the rest will be.
            if failure is not None and place == len(self.tree.entries) - 1 and not self.take_back():
                self.keep_custom(LEAF_MARKER, marker)
        self._rebuild()
        return is_marked

    def take_back(self) -> bool:
        """Take the newest entry out of the session and out of its file; return whether that was possible."""
        if self.file is not None and not (self.file.withdraw_last() or self.file.take_back()):
            return False
        self._remove_last()
        self.totals = RunningTotals()
        return True

    def choose(
        self,
        *,
        model: Model | None,
        thinking_level: ThinkingLevel,
        name: str | None,
        tools: "ToolChange | None" = None,
    ) -> None:
        """Change the choices. In a session that is on the disk they are saved now, else with its first message.

        Raises:
            SaveError: What was appended before is still not saved, or nothing may be: nothing was changed.
        """
        former = self.model, self.thinking_level, self.name
        if self.is_beside_owner:
            if (problem := self.claim()) is not None:
                raise SaveError(problem)
            # What the caller leaves as it was may be another value by now.
            model = self.model if model is former[0] else model
            thinking_level = self.thinking_level if thinking_level == former[1] else thinking_level
            name = self.name if name == former[2] else name
            former = self.model, self.thinking_level, self.name
        if self.file is not None:
            self.file.flush()
            self._reported_problem = None
        self.model, self.thinking_level, self.name = model, thinking_level, name
        former_tools, self.tools = self.tools, tools or self.tools
        # A name is the user's own text: it is worth a file; a model alone is not. In memory, copies need the tools.
        is_recorded = self.file.exists or name != former[2] if self.file is not None else tools is not None
        if not is_recorded:
            return
        recorded = len(self.tree.entries), self.recorded_model, self.recorded_level
        self.record_choices()
        if self._reported_problem is None or self.file is None:
            return
        text = self._reported_problem
        while len(self.tree.entries) > recorded[0] and self.file.withdraw_last():
            self._remove_last()
        if len(self.tree.entries) == recorded[0]:  # else a part of it is in the file, and the rest will be
            (self.model, self.thinking_level, self.name), self._reported_problem = former, None
            _, self.recorded_model, self.recorded_level = recorded
            self.tools = former_tools
            raise SaveError(text)

    async def sync(self) -> None:
        """Return when everything appended so far can't be lost any more; at once in memory.

        Cancelling it only ends the waiting.

        Raises:
            SaveError: Something could not be saved.
        """
        if self.file is not None:
            await self.file.sync()

    async def close(self) -> None:
        """Save what can be saved and let others write the file."""
        if self.file is not None:
            await self.file.close()

    def _remove_last(self) -> None:
        """Take the newest entry, which adds no message, out of the session alone."""
        self.tree.remove_last(len(self.tree.entries) - 1)
        if self._unread is not None:  # its branch may have the entry
            self._rebuild()

    def _rebuild(self) -> None:
        self._unread = index = ContextIndex(self.tree.branch(), self.tree.kinds)
        self._meter = None
        self.recorded_model = index.model
        self.recorded_level = index.thinking_level

    def record_choices(self) -> None:
        """Append entries for choices that the branch does not record yet, as `keep` does."""
        if self._take_over is not None:
            self.claim()
        model = self.model and (self.model["provider"], self.model["id"])
        if model is not None and model != self.recorded_model:
            self._keep("model_change", {"provider": model[0], "modelId": model[1]}, is_setup=True)
            self.recorded_model = model
        if self.thinking_level != self.recorded_level:
            self._keep("thinking_level_change", {"thinkingLevel": self.thinking_level}, is_setup=True)
            self.recorded_level = self.thinking_level
        if self.tools is not None:
            from pinnace_agent.session.tool_records import record_of  # not at start: most sessions have none

            record, self.tools = record_of(self.tools, self.tree.branch(), self.now_ms()), None
            if record is not None:
                self._keep("message", {"message": record}, is_setup=True)
        if (self.name or None) != self.tree.name:
            self._keep("session_info", {"name": self.name or ""})

    def _keep(
        self,
        entry_type: str,
        fields: Mapping[str, object],
        *,
        is_setup: bool = False,
        at_ms: int | None = None,
        entry_id: str | None = None,
    ) -> Entry:
        entry, failure = self._append(entry_type, fields, is_setup=is_setup, at_ms=at_ms, entry_id=entry_id)
        if failure is None:
            self._reported_problem = None
        else:
            if self._reported_problem is None and self.on_problem is not None:
                self.on_problem(failure.text)
            self._reported_problem = failure.text
        return entry

    def _append(
        self,
        entry_type: str,
        fields: Mapping[str, object],
        *,
        is_setup: bool = False,
        at_ms: int | None = None,
        entry_id: str | None = None,
    ) -> tuple[Entry, SaveError | None]:
        """Append an entry to the file and to the tree, whose leaf it is then. Return why it is not in the file, too."""
        if self._take_over is not None:
            self.claim()
        if entry_id is None:
            entry_id = self.reserve_entry_id() if self._reserved else new_entry_id(self.tree.ids)
        if self._reserved:
            self._reserved.discard(entry_id)
        entry: Entry = {
            "type": entry_type,
            "id": entry_id,
            "parentId": self.tree.leaf_id,
            "timestamp": iso_time(self.now_ms() if at_ms is None else at_ms),
            **fields,
        }
        failure: SaveError | None = None
        if self.file is not None:
            try:
                line = encode_record(entry)
            except (TypeError, ValueError):  # a defect, and no reason to lose the rest
                _log.exception("an entry of type %s can't be encoded: values that are no JSON become null", entry_type)
                entry = without_faults(entry)
                line = encode_record(entry)
            try:
                # First, so that lines of another program before it come before it in the tree too.
                self.file.append(line, is_durable=not is_setup)
            except SaveError as error:
                failure = error
            else:
                if self.on_appended is not None:
                    self.on_appended()
        self.tree.add(entry)
        return entry, failure

    def _take_foreign(self, data: bytes) -> None:
        """Add the lines of another program to the tree; the current branch stays."""
        entries, _ = read_entries(data)
        for entry in entries:
            self.tree.add_aside(entry)


def _fields(message: Message, message_id: str) -> Mapping[str, object]:
    """Return the fields of a message's entry. Its id stands beside the message: what models and pi read is the same."""
    return {"message": message, "messageId": message_id} if message_id else {"message": message}


def _role(entry: Entry) -> object:
    message = as_object(entry.get("message"))
    return None if message is None else message.get("role")
