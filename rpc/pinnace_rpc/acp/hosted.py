"""An agent of the host, as if it were a process of this one: a connection to the host in the place of three pipes.

It outlives this process: `leave` ends the connection and nothing else. The host never starts because of an editor; one
that runs is used. Must not know records, sessions of the client, or how agents are chosen.
"""

import os
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import trio

from pinnace_agent.core.json_access import as_array, as_object
from pinnace_agent.core.surroundings import environment, system
from pinnace_rpc.acp.machine import HostStream, Machine
from pinnace_rpc.attach.asking import ANSWER_S, NoAnswer, answer_in
from pinnace_rpc.attach.finding import agent_folder
from pinnace_rpc.host.agents.ports import AgentLaunch, AgentStartError
from pinnace_rpc.host.locations import LocationError, journals_folder
from pinnace_rpc.host.protocol import (
    PROTOCOL_VERSIONS,
    Accepted,
    AgentAction,
    Attach,
    Detach,
    EndAgent,
    Ended,
    FrameDecoder,
    HostProtocolError,
    ListAgents,
    Refused,
    Request,
    encode_client_control,
    encode_data,
    encode_request,
    parse_host_control,
)

_READ_BYTES: Final = 64 * 1024
_LOST: Final = "the connection to the host is lost"
_ENDING: Final = frozenset({"stopping", "asleep", "failed"})
"""States of an agent without a process that a client could use."""


class HostGone(Exception):
    """The host has ended before it had the agent. The text says what was seen."""


class HostedAgent:
    """A connection to an agent of the host; `AgentPipes` of a session."""

    def __init__(self, stream: HostStream) -> None:
        """Take a connection over on which an attach was requested; `accept` has to follow."""
        self._stream = stream
        self._decoder = FrameDecoder()
        self._data: deque[bytes] = deque()
        self._status: int | None = None
        self._error = ""
        self._ended = trio.Event()
        self._is_leaving = False
        self._has_input = True
        self.accepted: Accepted | None = None
        """What the host has said of the agent; None: it has not."""
        self.stdin: trio.abc.SendStream = _Stdin(self)
        self.stdout: trio.abc.ReceiveStream = _Stdout(self)

    async def accept(self) -> None:
        """Wait until the host has the agent.

        Raises:
            AgentStartError: It refuses.
            HostGone: The connection is lost.
        """
        while not self._ended.is_set():
            if await self._receive():
                return
        if self._status is None:
            raise HostGone(self._error)
        raise AgentStartError(self._error)

    def leave(self) -> None:
        """End with the next end of stdin only the connection: the agent continues."""
        self._is_leaving = True

    def stderr_tail(self) -> str:
        """Return why the connection has ended, if that was no order of this side."""
        return self._error

    async def wait(self) -> int | None:
        """Wait for the end of the connection and return the exit code that an attach has then."""
        await self._ended.wait()
        return self._status

    def kill(self) -> None:
        """End the connection at once."""
        self._stream.close_now()
        self._end(None, _LOST)

    async def send(self, data: bytes) -> None:
        """Write bytes of commands. Raises as a stream does."""
        for frame in encode_data(data):
            await self._stream.send_all(frame)

    async def end_input(self) -> None:
        """Say that nothing follows: the agent ends, or this connection if it was left. Idempotent."""
        if not self._has_input:
            return
        self._has_input = False
        control = Detach() if self._is_leaving else EndAgent(at_once=False)
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await self._stream.send_all(encode_client_control(control))

    async def receive(self) -> bytes:
        """Return the next bytes of records; none: the connection has ended."""
        while not self._data and not self._ended.is_set():
            await self._receive()
        return self._data.popleft() if self._data else b""

    async def close(self) -> None:
        """Close the connection. Idempotent."""
        self._stream.close_now()
        await trio.lowlevel.checkpoint()

    async def _receive(self) -> bool:
        """Read once; return whether the host has accepted."""
        is_accepted = False
        try:
            data = await self._stream.receive_some(_READ_BYTES)
            for frame in self._decoder.receive_data(bytes(data)):
                if frame.kind == "d":
                    self._data.append(frame.payload)
                    continue
                match parse_host_control(frame.payload):
                    case Accepted() as accepted:
                        self.accepted = accepted
                        is_accepted = True
                    case Refused(exit_code, error):
                        self._end(exit_code, error)
                    case Ended(exit_code, error):
                        self._end(exit_code, error or "")
                    case _:
                        raise HostProtocolError("an answer to no question")
        except (trio.BrokenResourceError, trio.ClosedResourceError, HostProtocolError):
            data = b""
        if not data:
            self._end(None, _LOST)
        return is_accepted

    def _end(self, status: int | None, error: str) -> None:
        if not self._ended.is_set():
            self._status, self._error = status, error
            self._ended.set()


async def attach(machine: Machine, start: AgentLaunch, session: str | None, release: str) -> HostedAgent:
    """Return a connection to the agent that has a session, or to a new one.

    An agent that runs with other options is taken as it is; `accepted` names the options.

    Args:
        machine: Has the host.
        start: What a process is started with if the agent has none.
        session: The path of the session's file; None: a new agent.
        release: Of this program.

    Raises:
        AgentStartError: The host refuses.
        HostGone: There is no host, or it has just ended.
    """
    request = Attach(
        versions=PROTOCOL_VERSIONS,
        release=release,
        is_new=session is None,
        agent=f"editor-{system().urandom(4).hex()}" if session is None else None,
        session=session,
        since=None,
        has_cursors=False,
        client=None,
        on_eof="detach",
        start=start.arguments,
        cwd=start.cwd,
        environment=dict(start.environment),
        umask=start.umask,
        profile=None,
        takes_options=True,
    )
    try:
        stream = await machine.connect()
    except ConnectionError as error:
        raise HostGone(str(error)) from None
    agent = HostedAgent(stream)
    try:
        await stream.send_all(encode_request(request))
        await agent.accept()
    except BaseException as error:
        stream.close_now()
        if isinstance(error, ValueError):
            raise AgentStartError("the environment and the options are too long for the host") from None
        if isinstance(error, trio.BrokenResourceError):
            raise HostGone(_LOST) from None
        raise
    return agent


class AgentUsed(Exception):
    """Another client uses the agent of a session. The text names it."""


async def remove_agents(machine: Machine, session_id: str) -> None:
    """Remove the agents of the host that have a session: it is to be deleted.

    Raises:
        AgentUsed: A client is attached to one; nothing has happened.
        AgentStartError: The host refuses, or is lost on the way.
    """
    try:
        rows = await _rows(machine, session_id)
        for row in rows:
            if row["clients"] and row["state"] not in _ENDING:
                raise AgentUsed(f"another client uses the session, by the agent {row['name']} of the host")
        for row in rows:
            await _answer(machine, AgentAction("remove", str(row["name"])))
    except ConnectionError:
        return


async def has_agent(machine: Machine, session_id: str) -> bool:
    """Return whether an agent of the host has a session in its process.

    Raises:
        AgentStartError: The host is lost on the way.
    """
    try:
        return any(row["state"] not in _ENDING for row in await _rows(machine, session_id))
    except ConnectionError:
        return False


def forget_agents(session_id: str) -> None:
    """Remove the journals of agents of a session that was deleted. No host may run, which has them. Blocks."""
    from pinnace_rpc.host.details import remove_agent, session_of  # what a host keeps, for this alone

    with suppress(LocationError, OSError):
        for entry in os.scandir(journals_folder(agent_folder(environment()))):
            if session_of(entry.path) == session_id:
                remove_agent(entry.path, system())


async def _rows(machine: Machine, session_id: str) -> list[Mapping[str, object]]:
    """Return the agents of the host that have a session. Raises as `_answer` does."""
    listed = as_array((await _answer(machine, ListAgents(watches=False)))["agents"])
    return [row for each in listed if (row := as_object(each) or {}).get("sessionId") == session_id]


async def _answer(machine: Machine, request: Request) -> Mapping[str, object]:
    """Return the first answer of the host to a request.

    Raises:
        ConnectionError: There is none.
        AgentStartError: It refuses, is silent, or is lost.
    """
    stream = await machine.connect()
    decoder = FrameDecoder()
    try:
        with trio.move_on_after(ANSWER_S):
            await stream.send_all(encode_request(request))
            while data := await stream.receive_some(_READ_BYTES):
                for frame in decoder.receive_data(bytes(data)):
                    return answer_in(frame.payload)
            raise AgentStartError(_LOST)
    except NoAnswer as refused:
        raise AgentStartError(str(refused)) from None
    except (trio.BrokenResourceError, trio.ClosedResourceError, HostProtocolError) as error:
        raise AgentStartError(f"{_LOST}: {error}") from None
    finally:
        stream.close_now()
    raise AgentStartError(f"the host has not answered within {ANSWER_S:g} seconds")


class _Stdin(trio.abc.SendStream):
    """The commands of one agent."""

    def __init__(self, agent: HostedAgent) -> None:
        self._agent = agent

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._agent.send(bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        await self._agent.end_input()


class _Stdout(trio.abc.ReceiveStream):
    """The records of one agent."""

    def __init__(self, agent: HostedAgent) -> None:
        self._agent = agent

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return await self._agent.receive()

    async def aclose(self) -> None:
        await self._agent.close()
