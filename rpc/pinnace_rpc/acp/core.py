"""One agent process: commands go in, and its records come out in their order, answers among them.

What listens and the callbacks of answers are called in the order of the agent's records, without a checkpoint between
the records of one read, so what is done in them has that order, too. Must not know sessions or the client.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias, cast

import trio

from pinnace_rpc.host.agents.ports import AgentPipes
from pinnace_spec.wire.framing import LineDecoder, TooLong
from pinnace_spec.wire.json_text import WireError, decode_line, encode_record

_log: Final = logging.getLogger("pinnace.acp")

READ_BYTES: Final = 64 * 1024
EXIT_S: Final = 6.0
"""An agent takes 5 s at most to end after its stdin."""
_LAST_RECORDS_S: Final = 1.0
"""How long stdout may stay open behind the exit, for example by a child of a tool."""

Record: TypeAlias = Mapping[str, object]
_NO_FIELDS: Final[Mapping[str, object]] = {}
OnAnswer: TypeAlias = Callable[[Record], None]
OnRecord: TypeAlias = Callable[[Record], None]


class CoreEnded(Exception):
    """The process has ended. The text says how."""


class EditorAgent:
    """An agent process."""

    def __init__(
        self, process: AgentPipes, room: Callable[[], Awaitable[None]], leave: Callable[[], None] | None = None
    ) -> None:
        """Take a process over; `run` reads it.

        Args:
            process: The agent.
            room: Waits until more may be written for the client.
            leave: Lets the agent continue when its stdin is closed; None: it ends.
        """
        self._process = process
        self._room = room
        self._leave = leave
        self._kept: list[Record] = []
        self._on_record: OnRecord = self._kept.append
        self._answers: dict[str, OnAnswer] = {}
        self._outgoing: deque[bytes] = deque()
        self._has_outgoing = trio.lowlevel.ParkingLot()
        self._count = 0
        self._is_closing = False
        self.ended = trio.Event()
        """The process has ended, and all of its records were taken."""
        self.end_text = ""
        """How it has ended."""
        self.status: int | None = None
        """Its exit code, negative: a signal; None: unknown, or it has not ended."""

    def listen(self, on_record: OnRecord) -> None:
        """Have each event taken, and those that have come so far at once."""
        self._on_record = on_record
        kept, self._kept = self._kept, []
        for record in kept:
            on_record(record)

    @property
    def begins_in_run(self) -> bool:
        """Whether a run had begun before the first event that has come so far, and has ended since. Before `listen`."""
        ends = (record["type"] for record in self._kept if record["type"] in ("agent_start", "agent_settled"))
        return next(ends, None) == "agent_settled"

    def send(self, command: str, fields: Mapping[str, object], on_answer: OnAnswer) -> None:
        """Send a command; `on_answer` takes the response. It is not called if the process ends before."""
        self._count += 1
        identity = str(self._count)
        self._answers[identity] = on_answer
        self._post(encode_record({**fields, "type": command, "id": identity}))

    async def ask(self, command: str, **fields: object) -> Record:
        """Send a command and wait for the response. Cancelled, the command is carried out all the same.

        Raises:
            CoreEnded: The process has ended.
        """
        answers: list[Record] = []
        await self._answered((command, fields, answers.append))
        return answers[0]

    async def ask_all(self, *commands: str) -> list[Record]:
        """Send commands without fields at once and return their responses.

        Raises:
            CoreEnded: The process has ended.
        """
        answers: list[Record] = []
        await self._answered(*((command, _NO_FIELDS, answers.append) for command in commands))
        return answers

    async def until(self, event: trio.Event) -> None:
        """Wait for what a response brings about.

        Raises:
            CoreEnded: The process has ended, and it has not happened.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_either, nursery.cancel_scope, event.wait)
            nursery.start_soon(_either, nursery.cancel_scope, self.ended.wait)
        if not event.is_set():
            raise CoreEnded(self.end_text)

    def post(self, record: Record) -> None:
        """Send a record that has no response."""
        self._post(encode_record(record))

    def close(self) -> None:
        """End the process: its stdin ends when everything is written."""
        self._is_closing = True
        self._has_outgoing.unpark_all()

    @property
    def outlives(self) -> bool:
        """Whether the agent continues without this client."""
        return self._leave is not None

    def leave(self) -> None:
        """As `close`, for a client that is gone: an agent that outlives it continues."""
        if self._leave is not None:
            self._leave()
        self.close()

    async def run(self) -> None:
        """Read and write until the process has ended."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write)
            with trio.CancelScope() as reading:
                nursery.start_soon(self._wait_exit, reading)
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    await self._read()
            self.status = await self._process.wait()
            nursery.cancel_scope.cancel()
        await self._close_pipes()
        self.end_text = _said(self._process.stderr_tail()) or f"the agent's process has ended (exit code {self.status})"
        self._answers.clear()
        self.ended.set()

    async def _answered(self, *commands: tuple[str, Mapping[str, object], OnAnswer]) -> None:
        """Send commands and wait for all responses."""
        if self.ended.is_set():
            raise CoreEnded(self.end_text)
        answered = trio.Event()
        left = len(commands)

        def count(on_answer: OnAnswer, record: Record) -> None:
            nonlocal left
            on_answer(record)
            left -= 1
            if not left:
                answered.set()

        for command, fields, on_answer in commands:
            self.send(command, fields, partial(count, on_answer))
        await self.until(answered)

    def _post(self, line: bytes) -> None:
        self._outgoing.append(line)
        self._has_outgoing.unpark_all()

    async def _write(self) -> None:
        stdin = self._process.stdin
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while True:
                while self._outgoing:
                    lines = b"".join(self._outgoing)
                    self._outgoing.clear()
                    await stdin.send_all(lines)
                if self._is_closing:
                    break
                await self._has_outgoing.park()
        await stdin.aclose()
        with trio.move_on_after(EXIT_S):
            await self._process.wait()
            return
        _log.warning("an agent has not ended after its stdin; it is killed")
        self._process.kill()

    async def _wait_exit(self, reading: trio.CancelScope) -> None:
        await self._process.wait()
        reading.deadline = trio.current_time() + _LAST_RECORDS_S

    async def _read(self) -> None:
        decoder = LineDecoder()
        while data := await self._process.stdout.receive_some(READ_BYTES):
            decoder.receive_data(bytes(data))
            for line in decoder.lines():
                self._take(line)
            await self._room()

    def _take(self, line: bytes | TooLong) -> None:
        if isinstance(line, TooLong):
            _log.error("a record of an agent is longer than %d bytes", line.limit_bytes)
            return
        try:
            record = decode_line(line)
        except WireError as error:
            _log.error("a line of an agent is no record: %s", error.text)
            return
        if not isinstance(record, dict):
            return
        fields = cast("Record", record)
        if fields.get("type") == "response":
            on_answer = self._answers.pop(str(fields.get("id")), None)
            if on_answer is not None:
                on_answer(fields)
            return
        self._on_record(fields)

    async def _close_pipes(self) -> None:
        with trio.CancelScope(shield=True):  # closing a descriptor does not wait
            await self._process.stdin.aclose()
            await self._process.stdout.aclose()


def _said(stderr: str) -> str:
    """Return the last that a process has reported, which may have several lines; else its last line."""
    before, mark, said = f"\n{stderr}".rpartition("\npinnace: ")
    return said.strip() if mark else before.strip().rpartition("\n")[2]


async def _either(scope: trio.CancelScope, wait: Callable[[], Awaitable[None]]) -> None:
    await wait()
    scope.cancel()
