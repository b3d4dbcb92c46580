"""A server that is a program: its process, its lines, its end.

It runs in a session of its own, and all its descendants end with the connection, whatever they ignore. Its exit is
noticed although a child may hold its stdout. Nothing that it writes is unbounded: lines, stderr, invalid text.
"""

import os
import re
import subprocess
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple

import anyio
import trio
from anyio.streams.memory import MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from pinnace_agent.mcp import limits
from pinnace_agent.mcp.ports import LinkLost
from pinnace_agent.mcp.wire.incoming import IncomingMessages
from pinnace_agent.mcp.wire.outgoing import OutgoingMessages
from pinnace_agent.mcp.wire.streams import Streams
from pinnace_agent.shell.child_processes import Child, children
from pinnace_agent.shell.confined_process import NOT_RUN
from pinnace_spec.wire.framing import LineDecoder, TooLong

_CHUNK_BYTES: Final = 64 * 1024
_GRACE_S: Final = 0.5
"""Between the end of stdin and SIGTERM, and between that and SIGKILL."""
_ORPHAN_S: Final = 0.1
"""How long what a program wrote before its exit is read."""
_EXIT_S: Final = 0.3
"""How long the exit of a program that has closed its stdout is waited for."""
_REAP_S: Final = 1.0
_TOO_LONG: Final = f"message over {limits.MESSAGE_BYTES >> 20} MiB"


class Launch(NamedTuple):
    """How to start a server."""

    arguments: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    is_outside: bool = False
    """Whether it runs without the sandbox, if there is one, as the user has configured."""


class _Stderr:
    """The end of what a server has written there."""

    def __init__(self) -> None:
        self._kept = bytearray()

    def add(self, data: bytes) -> None:
        self._kept += data
        if len(self._kept) > 2 * limits.STDERR_BYTES:
            del self._kept[: -limits.STDERR_BYTES]

    @property
    def tail(self) -> str:
        """Its last characters; empty: it has written none."""
        return self._kept[-limits.STDERR_BYTES :].decode("utf-8", "replace").strip()[-limits.STDERR_SHOWN :]


@asynccontextmanager
async def program(
    launch: Launch,
    incoming: IncomingMessages,
    outgoing: OutgoingMessages,
    lost: Callable[[str, str], None],
    ending_s: Callable[[], float],
) -> AsyncGenerator[Streams, None]:
    """Start a server, and end it with the block.

    The block is cancelled when the server has ended.

    Args:
        launch: How.
        incoming: Sorts its messages.
        outgoing: The messages to it.
        lost: Called once with the reason, and the end of its stderr, when it has ended, or its connection has.
        ending_s: Returns how long its end may take in all.

    Raises:
        LinkLost: It can't be started.
    """
    try:
        child = await children().start(
            launch.arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=launch.cwd,
            env=launch.env,
            is_outside=launch.is_outside,
        )
    except (OSError, ValueError) as error:
        raise LinkLost(_start_failure(launch, error)) from None
    stderr = _Stderr()
    send, receive = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    is_ended = False

    def end(reason: str) -> None:
        nonlocal is_ended
        if not is_ended:
            is_ended = True
            tail = stderr.tail
            lost(f"{reason}: {telling_line(tail)}" if tail else reason, tail)
            nursery.cancel_scope.cancel()

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_read, child, incoming, send, end)
            nursery.start_soon(_write, child, outgoing)
            nursery.start_soon(_drain, child, stderr)
            nursery.start_soon(_watch, child, end)
            yield Streams(receive, outgoing, child.is_current if child.is_confined else None)
            nursery.cancel_scope.cancel()
    finally:
        outgoing.close()
        send.close()
        with trio.CancelScope(shield=True):
            await _finish(child, ending_s())


# How programs say last what has failed: `ValueError: …`, also within a group; `Error: …`, `error: …`.
_FAILURE: Final = re.compile(r"[\s|]*((?:[\w.]*(?:Error|Exception|Interrupt|Exit)|error|fatal|panic)\b\W.*\S)")
_MOST_LINE: Final = 300


def telling_line(text: str) -> str:
    """Return the line of some output that says what has failed, or the last one."""
    lines = [line.strip(" \t\r|+-") for line in text.splitlines()]
    lines = [line for line in lines if line] or [""]
    found = [failure[1] for line in text.splitlines() if (failure := _FAILURE.match(line))]
    return (found or lines)[-1][:_MOST_LINE]


async def _read(
    child: Child,
    incoming: IncomingMessages,
    send: MemoryObjectSendStream[SessionMessage | Exception],
    end: Callable[[str], None],
) -> None:
    lines = LineDecoder(limits.MESSAGE_BYTES)
    stdout = child.process.stdout
    assert stdout is not None
    begun = 0  # bytes of the line that has no end yet
    try:
        while data := await stdout.receive_some(_CHUNK_BYTES):
            end_at = data.rfind(b"\n") + 1
            begun = len(data) - end_at if end_at else begun + len(data)
            if begun > limits.MESSAGE_BYTES:
                raise LinkLost(_TOO_LONG)
            lines.receive_data(bytes(data))
            for line in lines.lines():
                if isinstance(line, TooLong):
                    raise LinkLost(_TOO_LONG)
                message = await incoming.take(line)
                if message is not None:
                    await send.send(SessionMessage(message))
        await trio.sleep(_EXIT_S)  # its exit says more
        end("it has closed its stdout")
    except LinkLost as error:
        end(str(error))
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        end("its stdout can't be read")
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # the library has ended


async def _write(child: Child, outgoing: OutgoingMessages) -> None:
    stdin = child.process.stdin
    assert stdin is not None
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):  # its exit is noticed elsewhere
        while True:
            item = await outgoing.next()
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            await stdin.send_all(f"{text}\n".encode())


async def _drain(child: Child, stderr: _Stderr) -> None:
    assert child.process.stderr is not None
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        while data := await child.process.stderr.receive_some(_CHUNK_BYTES):
            stderr.add(bytes(data))


async def _watch(child: Child, end: Callable[[str], None]) -> None:
    """Notice the exit of the program itself, although a child of it may hold its stdout."""
    await child.exited()
    await trio.sleep(_ORPHAN_S)
    child.kill()
    status = child.process.poll()
    failure = child.failure_at(status)
    end(f"it has exited with {_status_text(status)}" if failure is None else failure.removeprefix(NOT_RUN))


async def _finish(child: Child, limit_s: float) -> None:
    """End the program and all its descendants: the end of stdin, SIGTERM, SIGKILL."""
    process = child.process
    each_s = min(_GRACE_S, limit_s / 2)
    if process.stdin is not None:
        await process.stdin.aclose()
    with trio.move_on_after(each_s):
        await child.exited()
    if process.poll() is None and limit_s > each_s:
        child.terminate()
        with trio.move_on_after(each_s):
            await child.exited()
    child.kill()
    await child.reap(_REAP_S)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            await stream.aclose()


def _status_text(status: int | None) -> str:
    if status is None:
        return "no status"
    return f"signal {-status}" if status < 0 else f"exit code {status}"


def _start_failure(launch: Launch, error: OSError | ValueError) -> str:
    name = launch.arguments[0]
    if not os.path.isdir(launch.cwd):
        return f"cwd: {launch.cwd} is no folder"
    if isinstance(error, FileNotFoundError):
        return f"spawn {name} ENOENT: there is no such program"
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return f"{name} can't be started: {reason.removeprefix(NOT_RUN)}"
