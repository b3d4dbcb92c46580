"""A conversation that outlives its connection: attach processes one after the other, events once, answers for all.

    serve    one `pinnace attach` after the other, until the client is left or attaching again has no use
      read, write, stderr of the process there is

After a connection is lost the next one begins at the cursor of the last event. Commands that were written and not
answered are written again under their ids, if that can't carry out one of them twice: the host knows this client, or
they are reads, or messages, which the agent recognises. Others fail with `outcome_unknown`. Must not know runs.
"""

import logging
import os
import sys
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Unpack, cast

from anyio import Event, create_task_group, current_time, move_on_after
from typing_extensions import TypedDict

from pinnace_rpc.client.connection.lifetime import DRAIN_S, EXIT_NOTICE_S, Lifetime, RunningAgent
from pinnace_rpc.client.connection.link import MESSAGES
from pinnace_rpc.client.connection.process import AgentProcess, start_process
from pinnace_rpc.client.connection.tasks import Bell, Tasks
from pinnace_rpc.client.dialogs import Dialogs, is_dialog
from pinnace_rpc.client.failures import AgentExited, ProtocolError
from pinnace_rpc.client.records.events import Record

_LOGGER: Final = logging.getLogger("pinnace.client")
ATTACH: Final = (sys.executable, "-P", "-m", "pinnace_rpc", "attach")
PATIENCE_S: Final = 60.0
# The connection is lost, or the agent's process was replaced: docs/durable-agents.md.
_EXIT_LOST: Final = 75
# A host or an agent that is being started again takes some hundred milliseconds.
_FIRST_DELAY_S: Final = 0.05
_LAST_DELAY_S: Final = 2.0
# Answers to dialogs whose records may come again; there is seldom more than one.
_KEPT_DIALOGS: Final = 100


class AttachOptions(TypedDict, total=False):
    """Where an attachment begins, and what is added to its words."""

    since: str | None
    """A cursor of an earlier client (`cursor`): what followed it is replayed, to the first `events()`."""
    client_name: str | None
    """Of this run of the program, across its clients; by it the host recognises commands that come again."""
    flags: Sequence[str]
    """More words for `pinnace attach`: those of an agent that is begun."""
    command: Sequence[str]
    """The attaching program; by default that of this interpreter."""
    patience_s: float
    """How long to try to attach again before every call raises `AgentExited`."""


class Attachment:
    """What a client is attached to, and how far it has read: the words of each attach process."""

    def __init__(self, name: str | None, **options: Unpack[AttachOptions]) -> None:
        """Begin; the arguments are those of `Client.attach`."""
        self.patience_s = options.get("patience_s", PATIENCE_S)
        self.id_prefix = f"{uuid.uuid4().hex[:12]}-"
        """Ids are not used again under a client's name, also not by the next process of this program."""
        self.record: Record | None = None
        """The last `attached`."""
        self._name = name
        self._ends_agent = name is None
        self._client_name = options.get("client_name") or f"pinnace-{uuid.uuid4().hex}"
        self._flags = tuple(options.get("flags", ()))
        self._command = tuple(options.get("command", ATTACH))
        self._since = options.get("since")
        self._journal = ""
        self._epoch = 0
        self._seq = 0
        self.is_attached = False
        """Whether the process that was begun has been attached."""
        self._attachments = Bell()
        self._dialogs: OrderedDict[str, Mapping[str, object] | None] = OrderedDict()

    @property
    def cursor(self) -> str | None:
        """Where the events that came end; None before the first `attached`."""
        return f"{self._journal}.{self._epoch}:{self._seq}" if self._journal else self._since

    def words(self) -> tuple[str, ...]:
        """Return the command of the next attach process."""
        words = [*self._command, *([self._name] if self._name is not None else ["--new"])]
        words += ["--cursors", "--client", self._client_name, "--on-eof", "end" if self._ends_agent else "detach"]
        if (cursor := self.cursor) is not None:
            words += ["--since", cursor]
        return (*words, *self._flags)

    def begin(self) -> None:
        """Wait for an `attached` anew: there is no connection until then."""
        self.is_attached = False

    async def attached(self) -> None:
        """Wait until the process that was begun is attached."""
        while not self.is_attached:
            await self._attachments.wait()

    def is_safe(self, command: str) -> bool:
        """Return whether a command that was written and not answered can be written again."""
        is_known = self.record is not None and self.record.get("knownClient") is True
        return is_known or command in MESSAGES or command.startswith("get_") or command == "hello"

    def admits(self, record: Record) -> bool:
        """Take the next record; return whether it is new and for readers."""
        kind = record["type"]
        seq = record.get("seq")
        match kind:
            case "response":
                return True
            case "attached":
                self._attach(record)
                return False
            case "truncated":
                self._move_to(record.get("to"))
                return True
            case "agent_restarted":
                self._dialogs.clear()
                epoch = record.get("epoch")
                if not isinstance(epoch, int) or epoch <= self._epoch:
                    return False
                self._epoch, self._seq = epoch, seq if isinstance(seq, int) else 0
                return True
            case "extension_ui_request" if is_dialog(record) and record["id"] in self._dialogs:
                return False
            case _:
                # A dialog that is still open comes first, with the number that it had.
                is_old = isinstance(seq, int) and seq <= self._seq
                if isinstance(seq, int) and not is_old:
                    self._seq = seq
                    # Before any reader has it: where to continue behind this event.
                    cast("dict[str, object]", record)["cursor"] = self.cursor
                is_new = not is_old or (kind == "extension_ui_request" and is_dialog(record))
                if is_new and kind == "extension_ui_request" and is_dialog(record):
                    self._keep_dialog(str(record["id"]), None)
                return is_new

    def answer_again(self, record: Record) -> Mapping[str, object] | None:
        """Return the answer to a dialog that came again, if there is one."""
        return self._dialogs.get(str(record.get("id")))

    def keep_answer(self, answer: Mapping[str, object]) -> None:
        """Keep the answer to a dialog: the connection may be lost before it arrives."""
        if (identity := str(answer.get("id"))) in self._dialogs:
            self._dialogs[identity] = answer

    def _keep_dialog(self, identity: str, answer: Mapping[str, object] | None) -> None:
        self._dialogs[identity] = answer
        while len(self._dialogs) > _KEPT_DIALOGS:
            self._dialogs.popitem(last=False)

    def _attach(self, record: Record) -> None:
        journal, epoch, seq, name = (record.get(each) for each in ("journal", "epoch", "seq", "agent"))
        if not (isinstance(journal, str) and isinstance(epoch, int) and isinstance(seq, int) and isinstance(name, str)):
            raise ProtocolError("an `attached` record without its journal, epoch, seq or agent")
        self.record = record
        self._name = name
        if not self._journal and self._since is not None:
            self._move_to(self._since)
        if journal != self._journal:
            # The first attach, or an agent that was removed and begun again: nothing before this is missed.
            self._journal, self._epoch, self._seq = journal, epoch, seq
        self.is_attached = True
        self._attachments.ring()

    def _move_to(self, cursor: object) -> None:
        journal, _, place = str(cursor).rpartition(".")
        epoch, _, seq = place.partition(":")
        if journal and epoch.isdigit() and seq.isdigit():
            self._journal, self._epoch, self._seq = journal, int(epoch), int(seq)


class AttachedLifetime(Lifetime):
    """One attachment, from the first attach process to the last."""

    def __init__(
        self,
        start: Callable[[], AgentProcess],
        tasks: Tasks,
        dialogs: Dialogs,
        on_malformed: Callable[[ProtocolError], None] | None,
        exit_timeout_s: float,
        attachment: Attachment,
    ) -> None:
        """Start the first process; `attach` does this."""
        super().__init__(start(), tasks, dialogs, on_malformed, exit_timeout_s, attachment)
        self._attachment = attachment
        self._start_process = start
        self._has_read_stderr.set()  # of each process: `_converse` reads it to its end

    @classmethod
    async def attach(
        cls,
        attachment: Attachment,
        *,
        cwd: str | os.PathLike[str] | None,
        env: Mapping[str, str] | None,
        dialogs: Dialogs,
        on_malformed: Callable[[ProtocolError], None] | None,
        on_stderr: Callable[[str], object] | None,
        exit_timeout_s: float,
    ) -> "AttachedLifetime":
        """Start the first attach process and the task that serves it and those after it.

        Raises:
            OSError: It could not be started.
        """

        def start() -> AgentProcess:
            return start_process(attachment.words(), cwd, env, on_stderr)

        lifetime = cls(start, Tasks(), dialogs, on_malformed, exit_timeout_s, attachment)
        if attachment.cursor is not None:
            lifetime.link.hub.hold()  # what is replayed may come before there is a reader
        await lifetime._serve_pipes(lifetime._serve)
        return lifetime

    async def _serve(self) -> None:
        delay_s, deadline = 0.0, current_time() + self._attachment.patience_s
        while True:
            await self._converse(self.process)
            if self._attachment.is_attached:
                delay_s, deadline = 0.0, current_time() + self._attachment.patience_s
            self._attachment.begin()
            exit_code = self.process.exit_code
            is_lost = exit_code is None or exit_code < 0 or exit_code == _EXIT_LOST
            if not is_lost or current_time() > deadline:
                break
            with move_on_after(delay_s):
                await self._is_left.wait()
            if self._is_left.is_set():
                break
            _LOGGER.info("the connection to the agent is lost (exit code %s); attaching again", exit_code)
            try:
                self.process = self._start_process()
            except OSError as error:
                _LOGGER.warning("can't attach again: %s", error)
                break
            delay_s = min(max(2 * delay_s, _FIRST_DELAY_S), _LAST_DELAY_S)
            if self._is_left.is_set():
                await self.process.end(0)
        self.link.hub.stop_pausing()
        process = self.process
        self.link.end(lambda: AgentExited(process.command, process.exit_code, process.stderr_tail, None))

    async def _converse(self, process: RunningAgent) -> None:
        """Serve one process until its end."""
        has_read_stderr = Event()

        async def read_stderr() -> None:
            await process.collect_stderr()
            has_read_stderr.set()

        async def write() -> None:
            await self._attachment.attached()
            self.link.resend(self._attachment.is_safe)
            await self.link.write(process.stdin)

        async with create_task_group() as group:
            group.start_soon(read_stderr)
            group.start_soon(write)
            await self.link.read(process.stdout)
            await process.end(EXIT_NOTICE_S)
            with move_on_after(DRAIN_S):
                await has_read_stderr.wait()
            group.cancel_scope.cancel()
        process.close()
