"""One sub-agent: a process of this program in mode rpc, and the conversation with it.

It is a child process like a command: in a session of its own, ended by the watchdog if this process is killed, and with
all its descendants if it does not end by itself. The end of its stdin ends it in an orderly way.
"""

import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeAlias

import trio

from pinnace_agent.core.json_access import as_object
from pinnace_agent.core.nursery import open_flat_nursery
from pinnace_agent.core.ports.children import ChildRefused
from pinnace_agent.shell.child_processes import Child, children
from pinnace_spec.rules.errors import record_too_long
from pinnace_spec.wire.framing import MAX_RECORD_BYTES, LineDecoder, TooLong
from pinnace_spec.wire.json_text import WireError, decode_line, encode_record

Record: TypeAlias = Mapping[str, object]

COMMAND: Final = (sys.executable, "-P", "-m", "pinnace_rpc")
# The longest that an end may take: an abort waits three seconds for its run.
ORDERLY_END_S: Final = 1.5
_KILLED_END_S: Final = 0.5
_STDERR_TAIL_BYTES: Final = 4096
_READ_BYTES: Final = 64 * 1024
_NOT_ANSWERED: Final = "it has ended without an answer"
_ROOM_BYTES: Final = 4096
"""For what a command has beside its text."""
_MOST_BYTES_OF_ONE: Final = 6
"""That a character may become in a record: an escape."""


def is_too_long(text: str) -> bool:
    """Return whether a command with this text would be longer than a record may be."""
    most = MAX_RECORD_BYTES - _ROOM_BYTES
    return len(text) * _MOST_BYTES_OF_ONE > most and len(encode_record({"message": text})) > most


class ChildGone(Exception):
    """The process has ended, or has refused a command; the text says why."""


class ChildProcess:
    """A process that was started. One task reads it; any task may send."""

    def __init__(self, child: Child, on_record: Callable[[Record], None], room: Callable[[], Awaitable[None]]) -> None:
        """Take over a process with three pipes.

        Args:
            child: The process.
            on_record: Takes every record that is no answer.
            room: Waits until more records may come.
        """
        process = child.process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._child = child
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr
        self._on_record = on_record
        self._room = room
        self._waiting_for_room = trio.CancelScope()
        self._is_ending = False
        self._answers: dict[str, Record | None] = {}
        self._on_answers: dict[str, Callable[[Record], None]] = {}
        self._news = trio.Event()
        self._sending = trio.Lock()
        self._is_cut = False
        """Whether a line was cut that was being written: another one behind it would be a part of it."""
        self._count = 0
        self._tail = b""
        self.is_gone = False
        """Whether its stdout has ended."""

    async def ask(
        self, command: str, on_answer: Callable[[Record], None] | None = None, /, **fields: object
    ) -> Mapping[str, object]:
        """Send a command and return the data of its answer.

        Args:
            command: Its name.
            on_answer: Takes the answer before any record behind it is taken; this task may learn of it later.
            fields: Those of the command.

        Raises:
            ChildGone: The process has ended, or has refused it.
        """
        self._count += 1
        identity = f"parent-{self._count}"
        self._answers[identity] = None
        if on_answer is not None:
            self._on_answers[identity] = on_answer
        try:
            await self.send({"id": identity, "type": command, **fields})
            while (answer := self._answers[identity]) is None:
                if self.is_gone:
                    raise ChildGone(self.why_gone())
                await self._news.wait()
        finally:
            del self._answers[identity]
            self._on_answers.pop(identity, None)
        if answer.get("success") is not True:
            raise ChildGone(str(answer.get("error") or _NOT_ANSWERED))
        return as_object(answer.get("data")) or {}

    async def send(self, record: Record) -> None:
        """Write a record, whole; waits for as long as the process does not read. Cancelled, it is the last one.

        Raises:
            ChildGone: Nothing reads it any more, or it is longer than a record may be.
        """
        line = encode_record(record)
        if len(line) > MAX_RECORD_BYTES + 1:  # with its end
            raise ChildGone(record_too_long(MAX_RECORD_BYTES))  # its answer would not say what it answers
        try:
            async with self._sending:
                if self._is_cut:
                    raise ChildGone(self.why_gone())
                self._is_cut = True
                await self._stdin.send_all(line)
                self._is_cut = False
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ChildGone(self.why_gone()) from error

    async def until(self, is_true: Callable[[], bool]) -> None:
        """Wait until something holds, which only a record can change, or what then calls `look_again`.

        Raises:
            ChildGone: The process has ended before.
        """
        while not is_true():
            if self.is_gone:
                raise ChildGone(self.why_gone())
            await self._news.wait()

    def why_gone(self) -> str:
        """Return the last line that it wrote to stderr."""
        lines = self._tail.decode("utf-8", "replace").strip().splitlines()
        return lines[-1].removeprefix("pinnace: ") if lines else _NOT_ANSWERED

    async def read(self) -> None:
        """Read records until stdout ends."""
        decoder = LineDecoder()
        try:
            while data := await self._stdout.receive_some(_READ_BYTES):
                decoder.receive_data(bytes(data))
                for line in decoder.lines():
                    self._take(line)
                self.look_again()
                await self._wait_for_room()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self.is_gone = True
            self.look_again()

    async def _wait_for_room(self) -> None:
        if not self._is_ending:  # an end never waits for what reads the records
            with trio.CancelScope() as self._waiting_for_room:
                await self._room()

    async def read_stderr(self) -> None:
        """Read stderr, so that an agent that logs much is never held up, and keep its end."""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while data := await self._stderr.receive_some(_READ_BYTES):
                self._tail = (self._tail + data)[-_STDERR_TAIL_BYTES:]

    def _take(self, line: bytes | TooLong) -> None:
        if isinstance(line, TooLong):
            return
        try:
            record = as_object(decode_line(line))
        except WireError:
            return
        if record is None:
            return
        identity = record.get("id")
        if record.get("type") != "response":
            self._on_record(record)
        elif isinstance(identity, str) and identity in self._answers:
            self._answers[identity] = record
            if (on_answer := self._on_answers.get(identity)) is not None:
                on_answer(record)

    def look_again(self) -> None:
        """Have those that wait see what is so now."""
        self._news.set()
        self._news = trio.Event()

    async def end(self) -> None:
        """End the process: by the end of its stdin, which saves its session, else with all its descendants at once.

        Takes two seconds at most, and is not cancelled from outside. The tasks that read it must run meanwhile.
        """
        self._is_ending = True
        self._waiting_for_room.cancel()
        with trio.CancelScope(shield=True):
            await self._stdin.aclose()
            with trio.move_on_after(ORDERLY_END_S), suppress(OSError):
                await self._child.exited()
            self._child.kill()
            await self._child.reap(_KILLED_END_S)


@asynccontextmanager
async def child_process(
    words: Sequence[str],
    folder: str,
    env: Mapping[str, str],
    api_key: str | None,
    on_record: Callable[[Record], None],
    room: Callable[[], Awaitable[None]],
    beside: Sequence[Callable[["ChildProcess"], Awaitable[None]]] = (),
) -> AsyncGenerator[ChildProcess]:
    """Start a sub-agent's process, and end it with the body.

    Args:
        words: Of its command line.
        folder: The folder to start it in.
        env: Its environment.
        api_key: The key that it is given by a pipe; None: it finds one as this process has.
        on_record: Takes its records.
        room: Waits until more of them may come.
        beside: Work for as long as it lives.

    Raises:
        ChildRefused: It can't be started.
    """
    descriptors: tuple[int, ...] = ()
    try:
        if api_key is not None:
            reading, writing = os.pipe()
            descriptors = (reading,)
            try:
                os.write(writing, api_key.encode())  # a pipe takes as much without a reader
            finally:
                os.close(writing)
            words = (*words, "--api-key-fd", str(reading))
        pipe = subprocess.PIPE
        command = (*COMMAND, *words)
        # Outside the sandbox, as this process is: its commands are confined.
        child = await children().start(
            command,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            cwd=folder,
            env=env,
            is_outside=True,
            pass_fds=descriptors,
            is_ended_by_owner=True,
        )
    except (OSError, ValueError) as error:
        raise ChildRefused(f"the sub-agent can't be started: {error}") from error
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    process = ChildProcess(child, on_record, room)
    watching = trio.CancelScope(shield=True)  # also while it ends: it could not, if nothing read it

    async def read() -> None:
        with watching:
            async with trio.open_nursery() as readers:
                readers.start_soon(process.read)
                readers.start_soon(process.read_stderr)

    async with open_flat_nursery() as nursery:
        nursery.start_soon(read)
        for work in beside:
            nursery.start_soon(work, process)
        try:
            yield process
        finally:
            await process.end()
            watching.cancel()
            nursery.cancel_scope.cancel()
