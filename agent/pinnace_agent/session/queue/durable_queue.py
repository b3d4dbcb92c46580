"""The queue of messages in the session file: what the statechart decides is saved before it is answered.

The statechart decides what is queued and when it is delivered; without a file everything is at once. Rules R-QUE-12 to
R-QUE-17.
"""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

import trio

from pinnace_agent.core.jobs import Work
from pinnace_agent.core.json_access import as_object
from pinnace_agent.session.queue.operations import (
    CLEAR_QUEUE,
    QUEUE,
    QueuedMessage,
    QueueKind,
    Texts,
    add,
    addition,
    mark_handled,
    mark_refused,
    mark_returned,
)
from pinnace_agent.session.store import save_error
from pinnace_agent.session.store.save_error import SaveError
from pinnace_spec.rules import errors
from pinnace_statechart import effects as fx
from pinnace_statechart.triggers import NO_REPLY, Command, InternalEvent

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.core.ports.sessions import SessionOwner
    from pinnace_agent.session.conversation import Session
    from pinnace_agent.session.queue.history import QueueHistory, ReturnedMessage


class CommandIdentity(NamedTuple):
    """By what a command that empties the queue is recognised when a client repeats it."""

    by: str
    """The client's `by`, or the command's id."""
    is_lasting: bool
    """Whether it is the client's `by`: ids are often used again by the client's next process."""


class MessageFate(NamedTuple):
    """What became of a message that a client sends again."""

    state: Literal["queued", "delivered", "returned", "handled"]
    entry_id: str | None = None
    """Of the entry, if it was delivered."""


class NotReturned(NamedTuple):
    """Messages that a command has withdrawn, and that are queued all the same: that can't be saved."""

    reason: fx.ReturnReason
    """What the command was."""
    error: SaveError
    messages: tuple[QueuedMessage, ...]

    def rest(self, cleared: Texts) -> Texts:
        """Leave these messages out of the texts that are returned: steering messages, and follow-ups."""
        steering, follow_up = map(list, cleared)
        for message in self.messages:
            (steering if message.kind == "steer" else follow_up).remove(message.text)
        return tuple(steering), tuple(follow_up)


class _Mark(NamedTuple):
    """That messages are returned, as it is in the file."""

    effect: fx.ReturnQueued
    write: int
    """The number of its write."""


class DurableQueue:
    """Saves what happens to queued messages, in the file of the session that they belong to."""

    def __init__(
        self,
        session: "Session",
        agent: "SessionOwner",
        on_released: Callable[[], None],
        warn: Callable[[str], None],
    ) -> None:
        """Belong to the session of the start; nothing is restored.

        Args:
            session: That session.
            agent: Runs jobs, and takes what comes of them.
            on_released: Called when a session may have nothing more to be appended to it by this.
            warn: Warns the user.
        """
        self._session = session
        self._former = session  # what a replacement returns is marked in its file
        self._agent = agent
        self._on_released = on_released
        self._warn = warn
        self._returning: set[int] = set()  # the commands whose answer waits for the disk
        self._answering: dict[int, trio.Event] = {}  # those that are being answered: set when they are
        self._returned: dict[int, list[_Mark]] = {}  # by the command, what is in the file, perhaps not on disk
        self._not_returned: dict[int, NotReturned] = {}  # by the command
        self._when_answered: Callable[[], None] | None = None
        self._when_left_count = 0
        self._history: QueueHistory | None = None  # as far as it was read for repeated messages
        self._handled: set[str] = set()  # messages that extensions have taken, also where that can't be saved
        self._former_entries = 0  # how many entries the session had when this process opened it

    # What became of a message.

    def fate_of(self, message_id: str) -> MessageFate | None:
        """Return what became of a message that the session's file has; None: it is not known, or was refused."""
        entry_id = self._session.entry_of_message_id(message_id)
        history = self._read()
        if entry_id is not None:
            place = self._session.tree.find(entry_id)
            is_refused = place is not None and history.refused.get(message_id, -1) > place
            return None if is_refused else MessageFate("delivered", entry_id)
        if message_id in history.returned:
            return MessageFate("returned")
        is_handled = message_id in self._handled or message_id in history.handled
        return MessageFate("handled") if is_handled else None

    def when_saved(self, ref: int, answer: Callable[[SaveError | None], None]) -> None:
        """Answer a command when all that the session has is on the disk, or with why it is not; at once if it is.

        Such as a message that is repeated: a file that was opened may hold what a killed process has only written
        (R-QUE-14).
        """
        session = self._session
        if session.file is None or session.file.is_durable:
            answer(None)
            return
        failure: SaveError | None = SaveError(save_error.closed(session.file.path))

        async def work() -> None:
            nonlocal failure
            try:
                await session.sync()
            except SaveError as error:
                failure = error
            else:
                failure = None

        self._answer_after(ref, session, work, lambda: answer(failure))

    def when_left(self, ref: int, then: Callable[[], None]) -> None:
        """Carry out a command, which can't wait, when a process that leaves the session has left it.

        Later commands that append begin behind it.
        """
        session = self._session
        if self._when_left_count or session.is_being_left:
            self._when_left_count += 1

            def left() -> None:
                self._when_left_count -= 1
                then()

            self._answer_after(ref, session, self.behind_answers(session.wait_until_left), left)
        else:
            then()

    def _read(self) -> "QueueHistory":
        if self._history is None:
            self._history = read_history(self._session)
        return self._history

    def returned(self) -> Iterable["ReturnedMessage"]:
        """Return the messages that were returned to clients, as the session's file has them."""
        return () if self._session.file is None else self._read().returned.values()

    def prompt_dropped(self, message_id: str) -> None:
        """A prompt was refused after its message was appended, and `Session.drop` has made its id unknown again."""
        if self._session.entry_of_message_id(message_id) is not None:
            self._history = None

    def answer_when_saved(self, ref: int) -> None:
        """Let the refusal of a prompt wait until the entry that leaves its message out is on the disk (`answer`).

        A crash of the machine could keep the message, and take the entry: the next process would go on from it.
        """
        self._returning.add(ref)

    # Accepting.

    def save(self, job: int, command: Command) -> None:
        """Bring a message to the disk and report that: `save_ok` or `save_failed`. At once without a file."""
        if self._session.file is None:
            self._agent.submit(InternalEvent("save_ok", job))
        elif self._session.is_being_left:
            self._agent.start_job(job, partial(self._add_when_left, job, command), "save_failed")
        elif self._add(job, command):
            self._agent.start_job(job, partial(self._save, job, command.message_id), "save_failed")

    async def _add_when_left(self, job: int, command: Command) -> None:
        await self._session.wait_until_left()
        if self._add(job, command):
            await self._save(job, command.message_id)

    def _add(self, job: int, command: Command) -> bool:
        """Append the `add` of a message; return False if that failed, which is reported then."""
        kind: QueueKind = "steer" if command.is_steering else "follow_up"
        message = QueuedMessage(command.message_id, kind, command.text, command.blocks)
        try:
            add(self._session, message)
        except SaveError as error:
            if self._is_newest(command.message_id):  # a part of it is in the file, and the rest will be
                mark_refused(self._session, command.message_id)
            self._fail(job, error)
            return False
        return True

    def _is_newest(self, message_id: str) -> bool:
        """Whether the newest entry is the `add` of a message."""
        entries = self._session.tree.entries
        data = as_object(entries[-1].get("data")) if entries else None
        return data is not None and (data.get("op"), data.get("messageId")) == ("add", message_id)

    async def _save(self, job: int, message_id: str) -> None:
        try:
            await self._session.sync()
        except SaveError as error:
            self._history = None
            if not (self._is_newest(message_id) and self._session.take_back()):
                mark_refused(self._session, message_id)
            self._fail(job, error)
            return
        self._agent.submit(InternalEvent("save_ok", job))

    def _fail(self, job: int, error: SaveError) -> None:
        code = errors.ErrorCode.SESSION_NOT_SAVED
        self._agent.submit(InternalEvent("save_failed", job, text=error.text, code=code))

    # Messages that extensions take.

    def once(self, message_id: str | None, work: Work) -> Work:
        """Return the work of a command that a message calls, as it is done once, however often the message comes.

        It begins behind what is being answered now, and when it is on the disk that it does: a crash may cut it, and
        no later process repeats it. A command needs no session, so a disk that fails holds none up.
        """
        if message_id is None:
            return self.behind_answers(work)
        session = self._session
        self._handled.add(message_id)
        if not (is_being_left := session.is_being_left):
            self._take(session, message_id, makes_file=True)

        async def saved() -> None:
            if is_being_left:
                await session.wait_until_left()
                self._take(session, message_id, makes_file=True)
            try:
                await session.sync()
            except SaveError as error:
                self._warn_of_repetition(error)
            await work()

        return self.behind_answers(saved)

    def handled(self, message_id: str | None) -> None:
        """An extension has taken a message, which is answered now."""
        if message_id is not None and self.fate_of(message_id) is None:
            self._take(self._session, message_id, makes_file=False)

    def _take(self, session: "Session", message_id: str, *, makes_file: bool) -> None:
        self._handled.add(message_id)
        self._history = None
        try:
            mark_handled(session, message_id, makes_file=makes_file)
        except SaveError as error:
            self._warn_of_repetition(error)

    def _warn_of_repetition(self, error: SaveError) -> None:
        self._warn(f"A message that an extension has taken may be given to it again after a crash: {error.text}")

    # Returning.

    def mark_returned(self, effect: fx.ReturnQueued, identity: CommandIdentity | None) -> None:
        """Save that messages are returned by the answer of a command, which waits for that (`answer`).

        Messages of which that can't be saved stay queued, paused.
        """
        session, ids = self._of(effect), _ids(effect)
        if session.file is None or not ids:
            return
        if session is self._session:
            self._history = None
        try:
            mark_returned(session, ids, effect.reason, None if identity is None else identity.by)
        except SaveError as error:
            history = read_history(session)
            self._take_back(session, effect, error, tuple(map(history.queued.__getitem__, ids)))
            return
        if effect.ref != NO_REPLY:
            self._returned.setdefault(effect.ref, []).append(_Mark(effect, session.file.writes))
            self._returning.add(effect.ref)

    def _of(self, effect: fx.ReturnQueued) -> "Session":
        """Return the session in whose file the messages are that are returned."""
        return self._former if effect.reason == "session_replaced" else self._session

    def _take_back(
        self, session: "Session", effect: fx.ReturnQueued, error: SaveError, messages: tuple[QueuedMessage, ...]
    ) -> None:
        """Queue messages again that were withdrawn: a crash would restore them, so they must not be returned as well.

        Those of a session that was replaced stay in its file, for the process that opens it next.
        """
        if effect.ref != NO_REPLY:
            former = self._not_returned.get(effect.ref)
            messages_so_far = () if former is None else former.messages
            self._not_returned[effect.ref] = NotReturned(effect.reason, error, (*messages_so_far, *messages))
        if effect.reason != "clear_queue" and session.on_problem is not None:
            session.on_problem(error.text)  # the command itself succeeds
        if effect.reason != "session_replaced":
            self._agent.submit(InternalEvent("queue_restored", texts=_commands(messages)))

    def returned_again(self, ref: int, identity: CommandIdentity, *, is_empty: bool) -> Texts | None:
        """Return what a `clear_queue` has returned that a client repeats; None: it is none that is repeated.

        The answer waits until it is saved that these messages are returned (`answer`). A command that is known by its
        id alone counts as repeated only if it finds nothing queued, if a former process has executed one of this id,
        and if nothing was queued or said since: clients count their commands from 1 again.

        Args:
            ref: The command.
            identity: Its identity.
            is_empty: Whether it has been executed and has found nothing queued.
        """
        if not (identity.is_lasting or is_empty) or self._session.file is None:
            return None
        history = self._read()
        if not identity.is_lasting and not self._was_last(history, identity.by):
            return None
        texts = history.texts_of(identity.by)
        if texts is not None:
            self._returning.add(ref)
        return texts

    def _was_last(self, history: "QueueHistory", by: str) -> bool:
        if history.newest is None or history.newest[1] != by or history.newest[0] >= self._former_entries:
            return False
        since = self._session.tree.entries[history.newest[0] :]
        return not any("messageId" in entry for entry in since)

    def answer(self, ref: int, answer: Callable[[NotReturned | None], None]) -> None:
        """Answer a command when all that its answer says is saved; at once if it is, as mostly.

        So is what it returns, and that a message is left out. `answer` gets the messages of which that can't be saved.
        """
        marks = self._returned.pop(ref, [])
        effects = [mark.effect for mark in marks]
        session = self._of(effects[0]) if effects else self._session
        # An abort is answered in one step with the start of the run of a message that has come, and was saved, behind
        # it. The records of that run must follow the answer (C-7), and the flush of the message was one of the mark.
        if marks and session.file is not None and session.file.has_on_disk(marks[-1].write):
            self._returning.remove(ref)
            answer(self._not_returned.pop(ref, None))
            self._report_answered()
            return
        if ref not in self._returning:
            answer(self._not_returned.pop(ref, None))
            return

        async def work() -> None:
            try:
                await session.sync()
            except SaveError as error:
                history = read_history(session)
                for effect in effects:
                    messages = tuple(history.returned[each].message for each in _ids(effect))
                    for message in messages:  # the mark is in the file, and may stay there
                        session.keep_custom(QUEUE, addition(session, message))
                    self._take_back(session, effect, error, messages)
                if not effects:  # of a repeated command: what its first one has marked may be lost with the power
                    self._not_returned[ref] = NotReturned(CLEAR_QUEUE, error, ())

        self._answer_after(ref, session, work, lambda: answer(self._not_returned.pop(ref, None)))

    def _answer_after(
        self, ref: int, session: "Session", work: Callable[[], Awaitable[None]], answer: Callable[[], None]
    ) -> None:
        self._returning.add(ref)
        answered = self._answering[ref] = trio.Event()
        session.users += 1  # it may be replaced meanwhile

        def ended(_cancelled: bool, _failure: BaseException | None) -> None:
            session.users -= 1
            self._on_released()
            self._returning.remove(ref)
            del self._answering[ref]
            answer()
            answered.set()
            self._report_answered()

        self._agent.jobs.start(f"return:{ref}", work, ended)

    def behind_answers(self, work: Work) -> Work:
        """Return work that begins when what is being answered now was answered.

        The answer of a command that returns messages waits for the disk. What a later command starts must not be
        reported before it: a client takes what it reads until then for what happens in the former session. An abort is
        answered by the statechart only when a message that came before it is saved, so one that it has not answered
        yet is not waited for.
        """
        earlier = tuple(self._answering.values())
        if not earlier:
            return work

        async def after() -> None:
            for answered in earlier:
                await answered.wait()
            await work()

        return after

    def _report_answered(self) -> None:
        if not self._returning and self._when_answered is not None:
            self._when_answered()

    def when_answered(self, then: Callable[[], None]) -> None:
        """Call `then` when no answer waits any more; at once if none does."""
        if self._returning:
            self._when_answered = then
        else:
            then()

    # Another process, another session.

    def restore(self, session: "Session", *, continues: bool = False) -> None:
        """Belong to the session of the start; report what its file has left queued.

        With `continues` that is delivered without a further command; else it is paused.
        """
        self._report_restored(self._belong_to(session), continues=continues)

    def replace(self, session: "Session", switched: Callable[[], None]) -> None:
        """Belong to another session, and report what its file has left queued after `switched`, which replaces it.

        A message that came behind the replacing command is saved within `switched`: in the file of the new session,
        and it is not among those that its file had left.
        """
        self._former = self._session
        left = self._belong_to(session)
        switched()
        self._former = session  # nothing of the former one is needed any more
        if left:  # the session may be the former one: then its queue was returned
            queued = read_history(session).queued
            left = tuple(command for command in left if command.message_id in queued)
        self._report_restored(left, continues=False)

    def _belong_to(self, session: "Session") -> tuple[Command, ...]:
        """Belong to a session; return the messages that its file has left queued."""
        self._session, self._history = session, None
        self._handled.clear()
        self._former_entries = len(session.tree.entries)
        # What is queued in a session that another process has is queued there; and in a file to which nothing can be
        # appended it stays queued for the next process, since no delivery could be saved.
        if session.file is None or session.is_beside_owner or session.file.read_only is not None:
            return ()
        if not session.tree.kinds.get("custom"):
            return ()
        self._history = read_history(session)
        return _commands(self._history.queued.values())

    def _report_restored(self, left: tuple[Command, ...], *, continues: bool) -> None:
        if left:
            self._agent.submit(InternalEvent("queue_restored", texts=left, enabled=continues))


def read_history(session: "Session") -> "QueueHistory":
    """Return what the operations in a session's file come to."""
    from pinnace_agent.session.queue.history import QueueHistory  # not at start: few sessions have any

    return QueueHistory(session)


def _ids(effect: fx.ReturnQueued) -> list[str]:
    return [item.message_id for item in effect.items if item.message_id]


def _commands(messages: Iterable[QueuedMessage]) -> tuple[Command, ...]:
    return tuple(
        Command(kind, NO_REPLY, text, blocks, message_id=message_id, saved=True)
        for message_id, kind, text, blocks in messages
    )
