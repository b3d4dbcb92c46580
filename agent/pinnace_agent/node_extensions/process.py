"""The Node process: its start, its calls and their cancellation, its end.

One process for the extensions of a session instance, and of those that follow it. Calls are numbered; what the
process asks during one carries its number. A request of a call that was cancelled is refused. Nothing that the process
writes is unbounded: lines, logs, displays without a pause. A process that has ended, hangs or floods fails every open
call with `ProcessLost`; the caller decides what that means, so gates deny.
"""

import contextvars
import logging
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Final, NamedTuple, Protocol

import trio

from pinnace_agent.node_extensions.blocking import TooSlow, read_now, write_now
from pinnace_agent.node_extensions.errors import ProcessLost, RefusedRequest, error_record, script_error
from pinnace_agent.node_extensions.launch import Launch, start
from pinnace_agent.node_extensions.messages import Origin, decoded, encoded, number_of, request_of
from pinnace_agent.shell.child_processes import Child
from pinnace_spec.wire.framing import LineDecoder, TooLong

_log: Final = logging.getLogger("pinnace.extensions")

MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""As for clients: images travel inside lines."""
START_LIMIT_S: Final = 20.0
"""Until it is ready: a node takes 50 ms, on a machine under load a second."""
MOST_DISPLAYS: Final = 20_000
"""Displays between two turns of its event loop: more of them are an endless loop, and the client keeps them all."""
NOW_LIMIT_S: Final = 2.0
"""How long the event loop may stand still for a function that the agent can't wait for."""
_CHUNK_BYTES: Final = 64 * 1024
_STDERR_BYTES: Final = 8 * 1024
_REAP_S: Final = 2.0
_EXIT_S: Final = 1.0
OVER: Final = "the session has ended, and with it what this extension had asked for"
_PING_S: Final = 5.0
"""How long a call runs before its process is asked whether it still reads."""


class Members(Protocol):
    """What the process may ask: named members, with the number of the extension that asks, its context and values."""

    def now(self, name: str, origin: "Origin", values: Sequence[object]) -> object:
        """Return the value of a member that does not wait. Its exceptions are answered."""
        ...

    async def ask(self, name: str, origin: "Origin", values: Sequence[object]) -> object:
        """Return the value of a member that waits. Its exceptions are answered; it may be cancelled."""
        ...

    def stray(self, extension: int | None, error: Exception, event: str = "background") -> None:
        """Report an error that no call waits for, and what has failed."""
        ...


class _Descriptors(NamedTuple):
    """Our ends of the pipes."""

    calls: int
    messages: int
    answers: int


@dataclass(slots=True, eq=False)
class _Call:
    """An open call."""

    number: int
    on_update: Callable[[object], None] | None
    context: contextvars.Context = field(default_factory=contextvars.copy_context)
    done: trio.Event = field(default_factory=trio.Event)
    value: object = None
    error: Exception | None = None
    requests: set[trio.CancelScope] = field(default_factory=set[trio.CancelScope])


class _Request(NamedTuple):
    """Something that the process waits for."""

    extension: int | None
    scope: trio.CancelScope


class NodeProcess:
    """One process. `serve` runs it; the others may be called while it does."""

    def __init__(self, launch: Launch, members: Members) -> None:
        """Start nothing yet."""
        self.lost: str | None = None
        """Why it can no longer be called; None: it can."""
        self.is_reported = False
        """Whether its loss is one to report: nothing had asked it to exit."""
        self.ended = trio.Event()
        self.version = ""
        """That of its node."""
        self.is_usable = False
        """Whether its node can run extensions."""
        self._launch = launch
        self._members = members
        self._child: Child | None = None
        self._calls: dict[int, _Call] = {}
        self._cancelled: set[int] = set()
        self._requests: dict[int, _Request] = {}
        self._numbers = count(1)
        self._outgoing: deque[bytes] = deque()
        self._has_outgoing = trio.Event()
        self._has_calls = trio.Event()
        self._ready = trio.Event()
        self._pong = trio.Event()
        self._displays = 0
        self._is_probing = False
        self._is_closing = False
        self._over: set[int] = set()
        """Extensions whose session has ended."""
        self._stderr = bytearray()
        self._lines = LineDecoder(MAX_LINE_BYTES)
        self._replies: deque[bytes] = deque()
        self._nursery: trio.Nursery | None = None

    # The process.

    async def serve(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the process until it ends; reports that it has started when it is ready, or lost. Cancelling kills it.

        Raises nothing but a cancellation: `lost` says what went wrong.
        """
        ours: list[int] = []
        try:
            calls, messages, answers = os.pipe(), os.pipe(), os.pipe()
            ours = [calls[1], messages[0], answers[1]]
            theirs = [calls[0], messages[1], answers[0]]
            try:
                self._child = await start(self._launch, theirs)
            finally:
                for each in theirs:
                    os.close(each)
            self._descriptors = _Descriptors(*ours)
            send, receive, reply = (trio.lowlevel.FdStream(ours.pop(0)) for _ in self._descriptors)
        except (OSError, ValueError) as error:
            for each in ours:
                os.close(each)
            self._lose(f"can't be started: {error}")
            self.ended.set()
            task_status.started()
            return
        try:
            async with send, receive, reply, trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._write, name="node: calls")
                nursery.start_soon(self._read, receive, name="node: messages")
                nursery.start_soon(self._drain, name="node: log")
                nursery.start_soon(self._watch, name="node: exit")
                nursery.start_soon(self._check_hangs, name="node: hangs")
                with trio.move_on_after(START_LIMIT_S):
                    await self._ready.wait()
                if not self._ready.is_set():
                    self._lose(f"was not ready within {START_LIMIT_S:g} s")
                task_status.started()
                await self.ended.wait()
                nursery.cancel_scope.cancel()
        finally:
            self._nursery = None
            is_lost = self.lost is not None
            self._lose("has ended")
            self.ended.set()
            with trio.CancelScope(shield=True):
                await self._finish(exits=not is_lost)

    def _lose(self, reason: str) -> None:
        """Fail every open call; the first reason counts."""
        if self.lost is None:
            self.lost = reason
            self.is_reported = not self._is_closing
        lost = ProcessLost(f"the Node process of the extensions {self.lost}")
        for call in self._calls.values():
            call.error = lost
            call.done.set()
        self._calls.clear()
        self._ready.set()
        self.ended.set()

    async def _finish(self, *, exits: bool) -> None:
        """End it. `exits`: nothing is wrong with it, and the ends of its pipes let it exit by itself."""
        child = self._child
        assert child is not None
        if exits:
            with trio.move_on_after(_EXIT_S), suppress(OSError):
                await child.exited()
        if child.process.poll() is None:
            child.kill()
        with trio.move_on_after(_EXIT_S):
            await child.exited()
        await child.reap(_REAP_S)
        for stream in (child.process.stdout, child.process.stderr):
            if isinstance(stream, trio.lowlevel.FdStream):
                stream.close()

    def close(self) -> None:
        """Refuse what it asks, and let it exit when it has read that; `serve` then returns. Never waits."""
        self._is_closing = True
        for each in self._requests.values():
            each.scope.cancel()
        self._leave_if_answered()

    def refuse(self, extensions: Collection[int]) -> None:
        """Give up what these extensions have asked for."""
        self._over.update(extensions)
        for each in self._requests.values():
            if each.extension in self._over:
                each.scope.cancel()

    def _leave_if_answered(self) -> None:
        """Let it exit, once it is to end, when the last of what it has asked is answered."""
        if self._is_closing and not self._requests and self.lost is None:
            self._send({"type": "shutdown"})

    def kill(self, reason: str) -> None:
        """End it at once: `serve` returns when it has ended. Calls that are open fail."""
        self._lose(reason)

    # Calls.

    async def call(self, message: Mapping[str, object], on_update: Callable[[object], None] | None = None) -> object:
        """Send a call and return its value.

        Cancelling aborts its signal in the process, waits for nothing, and from then on refuses what the call asks.

        Args:
            message: The call, without its number.
            on_update: Takes the values that it sends before its result. Must not raise.

        Raises:
            ScriptError: What was called has thrown.
            ProcessLost: The process has ended, or was ended.
        """
        if self.lost is not None:
            raise ProcessLost(f"the Node process of the extensions {self.lost}")
        call = _Call(next(self._numbers), on_update)
        self._calls[call.number] = call
        self._has_calls.set()
        self._send({**message, "n": call.number})
        try:
            await call.done.wait()
        except trio.Cancelled:
            if self._calls.pop(call.number, None) is not None:
                self._cancel(call)
            raise
        if call.error is not None:
            raise call.error
        return call.value

    def _cancel(self, call: _Call) -> None:
        self._cancelled.add(call.number)
        for scope in call.requests:
            scope.cancel()
        self._send({"type": "cancel", "n": call.number})
        if self._nursery is not None:
            self._nursery.start_soon(self._probe, self._launch.limits.cancelled_s, name="node: after a cancellation")

    def call_now(self, message: Mapping[str, object]) -> object:
        """Send a call of something that does not wait, and return its value. The event loop stands still meanwhile.

        Args:
            message: The call, without its number.

        Raises:
            ScriptError: What was called has thrown.
            ProcessLost: The process has ended, or did not answer within `NOW_LIMIT_S`.
        """
        if self.lost is not None:
            raise ProcessLost(f"the Node process of the extensions {self.lost}")
        deadline = time.monotonic() + NOW_LIMIT_S
        calls, messages, answers = self._descriptors
        call = _Call(next(self._numbers), None)
        self._calls[call.number] = call
        self._send({**message, "n": call.number})
        try:
            write_now(answers, self._replies, deadline)
            write_now(calls, self._outgoing, deadline)
            while not call.done.is_set():
                data = read_now(messages, deadline)
                if not data:
                    self._lose("has closed its messages")
                for line in self._received(data):
                    self._take(line)
                    write_now(answers, self._replies, deadline)
        except (TooSlow, OSError) as error:
            self._lose(f"did not answer at once: {error}")
        if call.error is not None:
            raise call.error
        return call.value

    def post(self, message: Mapping[str, object]) -> None:
        """Send a message that has no answer."""
        if self.lost is not None:
            return
        self._send(message)
        # No call may be open, and a component may be in an endless loop.
        if message["type"] == "surface" and self._nursery is not None and not self._is_probing:
            self._nursery.start_soon(self._probe, self._launch.limits.hang_s, name="node: a surface")

    def _send(self, message: Mapping[str, object]) -> None:
        self._outgoing.append(encoded(message) + b"\n")
        self._has_outgoing.set()

    # The tasks.

    async def _write(self) -> None:
        while True:
            await self._has_outgoing.wait()
            self._has_outgoing = trio.Event()
            await self._flush(self._descriptors.calls, self._outgoing)

    async def _flush(self, descriptor: int, pieces: deque[bytes]) -> None:
        """Write pieces; what is left of them at each checkpoint is still there, so that `call_now` can go on."""
        while pieces:
            try:
                written = os.write(descriptor, pieces[0])
            except BlockingIOError:
                await trio.lowlevel.wait_writable(descriptor)
            except OSError:  # it has closed its end; its exit is noticed elsewhere
                pieces.clear()
            else:
                rest = pieces.popleft()[written:]
                if rest:
                    pieces.appendleft(rest)

    async def _read(self, stream: trio.abc.ReceiveStream) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while data := await stream.receive_some(_CHUNK_BYTES):
                for line in self._received(data):
                    self._take(line)
                    await self._flush(self._descriptors.answers, self._replies)
                    # Tasks that are started together begin in any order: what was asked first begins first.
                    await trio.lowlevel.checkpoint()

    def _received(self, data: bytes | bytearray) -> Iterator[bytes]:
        """Return the lines that are complete now. One that is too long ends the process."""
        self._lines.receive_data(bytes(data))
        for line in self._lines.lines():
            if isinstance(line, TooLong):
                self._lose(f"has written a line of more than {MAX_LINE_BYTES >> 20} MiB")
                return
            yield line

    def _take(self, line: bytes) -> None:
        message = decoded(line)
        match message.get("type"):
            case "result":
                self._take_result(message)
            case "update":
                call = self._calls.get(number_of(message, "n"))
                if call is not None and call.on_update is not None:
                    call.context.run(call.on_update, message.get("value"))
            case "now":
                self._replies.append(self._immediate(message))
            case "post":
                self._take_post(message)
            case "ask":
                self._take_request(message)
            case "drop":
                if asked := self._requests.get(number_of(message, "q")):
                    asked.scope.cancel()
            case "pong":
                self._displays = 0
                self._pong.set()
            case "stray":
                event = str(message.get("event", "background"))
                self._members.stray(Origin.of(message).extension, script_error(message.get("error")), event)
            case "ready":
                self.version, self.is_usable = str(message.get("version")), message.get("isUsable") is True
                self._ready.set()
            case _:
                self._lose("has written what is no message")

    def _take_result(self, message: Mapping[str, object]) -> None:
        number = number_of(message, "n")
        self._cancelled.discard(number)
        call = self._calls.pop(number, None)
        if call is None:
            return
        if (error := message.get("error")) is not None:
            call.error = script_error(error)
        call.value = message.get("value")
        call.done.set()

    def _immediate(self, message: Mapping[str, object]) -> bytes:
        """Return the answer to a request that does not wait, behind its length."""
        try:
            data = encoded({"value": self._run(message)})
        except Exception as error:  # the boundary: it is thrown where the extension has asked
            data = encoded({"error": error_record(error)})
        return len(data).to_bytes(4, "big") + data

    def _take_post(self, message: Mapping[str, object]) -> None:
        self._displays += 1
        if self._displays > MOST_DISPLAYS:
            self._lose(f"has sent {MOST_DISPLAYS} displays without a pause")
            return
        if self._displays > MOST_DISPLAYS // 4 and self._nursery is not None and not self._is_probing:
            self._nursery.start_soon(self._probe, self._launch.limits.hang_s, name="node: many displays")
        try:
            self._run(message)
        except Exception as error:  # the boundary: nothing waits for it
            self._members.stray(Origin.of(message).extension, error)

    def _run(self, message: Mapping[str, object]) -> object:
        """Run a member that does not wait, as code of the call that asks."""
        call = self._caller(message)
        name, origin, values = request_of(message)
        if call is None:
            return self._members.now(name, origin, values)
        return call.context.run(self._members.now, name, origin, values)

    def _caller(self, message: Mapping[str, object]) -> _Call | None:
        """Return the call that a request belongs to; None: it is open no more, or there was none.

        Raises:
            RefusedRequest: It was cancelled.
        """
        number = message.get("call")
        if number in self._cancelled:
            raise RefusedRequest(f"{message.get('name')}: the call that this belongs to was cancelled")
        return self._calls.get(number) if isinstance(number, int) else None

    def _take_request(self, message: Mapping[str, object]) -> None:
        number = number_of(message, "q")
        nursery = self._nursery
        assert nursery is not None
        scope = trio.CancelScope()
        try:
            call = self._caller(message)
            name, origin, values = request_of(message)
            if self._is_closing:
                raise RefusedRequest(f"{name}: {OVER}")
        except Exception as error:  # the boundary, as above
            self._send({"type": "answer", "q": number, "error": error_record(error)})
            return
        self._requests[number] = _Request(origin.extension, scope)
        work = self._members.ask(name, origin, values)
        if call is None:
            nursery.start_soon(self._answer, number, scope, work, None, name=f"node: {name}")
        else:
            call.requests.add(scope)
            # A task inherits the variables of the code that starts it.
            answer = partial(self._answer, number, scope, work, call)
            call.context.run(partial(nursery.start_soon, answer, name=f"node: {name}"))

    async def _answer(self, number: int, scope: trio.CancelScope, work: Awaitable[object], call: _Call | None) -> None:
        answer: dict[str, object] = {"type": "answer", "q": number}
        try:
            with scope:
                answer["value"] = await work
                encoded(answer)
        except Exception as error:  # the boundary: it is thrown where the extension has asked
            answer = {"type": "answer", "q": number, "error": error_record(error)}
        finally:
            asked = self._requests.pop(number, None)
            is_over = asked is not None and asked.extension in self._over
            if call is not None:
                call.requests.discard(scope)
        if scope.cancelled_caught and (self._is_closing or is_over):
            answer["error"] = error_record(RefusedRequest(OVER))
        elif scope.cancelled_caught:
            answer["error"] = {"name": "AbortError", "message": "This operation was aborted"}
        self.post(answer)
        self._leave_if_answered()

    # The process as an observer sees it.

    async def _drain(self) -> None:
        assert self._child is not None
        async with trio.open_nursery() as nursery:
            for stream in (self._child.process.stdout, self._child.process.stderr):
                nursery.start_soon(self._log_lines, stream)

    async def _log_lines(self, stream: trio.abc.ReceiveStream | None) -> None:
        assert stream is not None
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while data := await stream.receive_some(_CHUNK_BYTES):
                self._stderr += data
                del self._stderr[:-_STDERR_BYTES]
                for line in bytes(data).decode("utf-8", "replace").splitlines():
                    _log.info("node: %s", line)

    async def _watch(self) -> None:
        assert self._child is not None
        await self._child.exited()
        await trio.sleep(0.05)  # so that what it wrote last is read
        status = self._child.process.poll()
        last = self._stderr.decode("utf-8", "replace").strip().splitlines()
        reason = next((each.strip() for each in last if "Error" in each), last[-1].strip() if last else "")
        self._lose(f"has ended with status {status}" + (f": {reason[:300]}" if reason else ""))

    async def _check_hangs(self) -> None:
        while True:
            await self._has_calls.wait()
            self._has_calls = trio.Event()
            while self._calls:
                await trio.sleep(min(_PING_S, self._launch.limits.hang_s))
                if self._calls:
                    await self._probe(self._launch.limits.hang_s)

    async def _probe(self, limit_s: float) -> None:
        """Ask whether the process still reads; end it if it does not within the limit."""
        self._is_probing = True
        self._pong = pong = trio.Event() if self._pong.is_set() else self._pong
        self._send({"type": "ping", "n": 0})
        with trio.move_on_after(limit_s) as limit:
            await pong.wait()
        self._is_probing = False
        if limit.cancelled_caught:
            self._lose(f"did not respond for {limit_s:g} s")
