"""Starts agents by forking a process that has loaded them, and in a new interpreter where that is not possible.

The zygote (`zygote_program`) is replaced when it ends or when the program was upgraded; agents live on without it. A
new one serves after an agent of its own has answered. While it loads, the first agents start in new interpreters, as
they would without a zygote, and the others wait for it: it is faster than many interpreters that load side by side, and
its agents share its memory. Agents whose environment only a start applies, and all of them while no zygote is about to
serve, are started by `FreshStarter`.
"""

import json
import logging
import os
import re
import signal
import site
import socket
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from itertools import count
from subprocess import DEVNULL
from typing import Any, Final

import trio

from pinnace_rpc.host.agents.children import CHILDREN
from pinnace_rpc.host.agents.fresh import FreshStarter
from pinnace_rpc.host.agents.ports import AgentLaunch, AgentStarter, AgentStartError, HostedProcess
from pinnace_rpc.host.agents.process import PipedProcess
from pinnace_rpc.host.agents.zygote_messages import (
    DESCRIPTOR_SPACE,
    LARGEST_MESSAGE,
    VERSION,
    received_descriptors,
    rights,
)

_log = logging.getLogger("pinnace.host")

_START_ONLY: Final = re.compile(r"(PYTHON|LD_|DYLD_|MALLOC_|OPENSSL_|PYDANTIC_|GLIBC_TUNABLES$|LC_|LANG)")
"""Variables that the interpreter, its libraries or the dynamic linker read once, when they start."""
_PROGRAM: Final = "pinnace_rpc.host.agents.zygote_program"
_PATHS: Final = ("PYTHONPATH", "PYTHONHOME")

# A fork takes a millisecond or two, and waits its turn among many on a busy machine: longer means stopped or stuck.
FORK_LIMIT_S: Final = 10.0
LOAD_LIMIT_S: Final = 60.0
# The zygote reports an exit at once; it may have been stopped.
STATUS_LIMIT_S: Final = 1.0
RETRY_DELAYS_S: Final = (0.2, 5.0, 60.0)
"""Before the next zygote, by the number of those that failed one after the other."""
WAIT_S: Final = 10.0
"""How long an agent waits for a zygote that loads."""
FRESH_WHILE_LOADING: Final = 2
"""Agents that do not wait for a zygote that loads: a client that is alone has its first answer as early as ever."""
STEADY_S: Final = 60.0
"""A zygote that has served so long has not failed."""

_TRIAL: Final = AgentLaunch(("--no-session", "--provider", "offline"), "/", {"HOME": "/nonexistent"}, 0o077)
"""An agent that reads no file of the user and can write none."""


def start_only(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that only the start of an interpreter applies."""
    found = {name: value for name, value in environment.items() if _START_ONLY.match(name)}
    if site.ENABLE_USER_SITE and "HOME" in environment:  # modules are looked for in there
        found["HOME"] = environment["HOME"]
    return found


class ZygoteStarter:
    """An `AgentStarter` that forks where it can."""

    def __init__(
        self,
        nursery: trio.Nursery,
        environment: Mapping[str, str],
        *,
        memory_bytes: int | None = None,
        fresh: AgentStarter | None = None,
    ) -> None:
        """Begin to start a zygote.

        Args:
            nursery: Gets the tasks of the zygote and of each process.
            environment: Gives the zygote its variables that only a start applies, and no other: agents whose own differ
                start in a new interpreter.
            memory_bytes: The address space of an agent (RLIMIT_AS). Ignored where a limit can't be set.
            fresh: Starts the agents in new interpreters, with others; None: one of its own does.
        """
        self._nursery = nursery
        self._environment = start_only(environment)
        self._memory_bytes = memory_bytes
        self._fresh = fresh or FreshStarter(nursery, memory_bytes=memory_bytes)
        self._zygote: _Zygote | None = None
        self._is_coming = False
        """Whether a zygote loads, or will in a moment."""
        self._fresh_of_load = 0
        """Agents that did not wait for it."""
        self._changed = trio.lowlevel.ParkingLot()
        if can_fork(self._environment):
            self._expect()
            nursery.start_soon(self._keep, name="zygote")

    async def zygote_pid(self) -> int:
        """Wait until a zygote serves and return its process id."""
        while self._zygote is None:
            await self._changed.park()
        return self._zygote.pid

    async def start(self, start: AgentLaunch) -> HostedProcess:
        """Start an agent.

        Raises:
            AgentStartError: It could not be started.
        """
        if start_only(start.environment) == self._environment:
            with trio.move_on_after(WAIT_S):
                while (zygote := await self._next_zygote()) is not None:
                    try:
                        return await zygote.fork(start, self._memory_bytes)
                    except _ForkRefused as error:
                        _log.info("this zygote forks no more agents: %s", error)
                        self._retire(zygote)
        return await self._fresh.start(start)

    async def _next_zygote(self) -> "_Zygote | None":
        """Return the zygote, waiting for one that loads; None: the agent starts in a new interpreter."""
        while self._zygote is None and self._is_coming:
            if self._fresh_of_load < FRESH_WHILE_LOADING:
                self._fresh_of_load += 1
                return None
            await self._changed.park()
        return self._zygote

    def _expect(self) -> None:
        self._is_coming = True
        self._fresh_of_load = 0

    def _retire(self, zygote: "_Zygote") -> None:
        """Have agents wait for the next zygote."""
        zygote.retire()
        if self._zygote is zygote:
            self._zygote = None
            self._expect()

    async def _keep(self) -> None:
        """Have a zygote, one after the other."""
        failures = 0
        while True:
            try:
                zygote = await _load(self._nursery, self._environment)
            except (AgentStartError, _ForkRefused, OSError) as error:
                _log.warning("agents start in new interpreters for now: %s", error)
            else:
                since = trio.current_time()
                self._zygote, self._is_coming = zygote, False
                self._changed.unpark_all()
                await zygote.over.wait()
                self._retire(zygote)
                if trio.current_time() - since >= STEADY_S:
                    failures = 0
            delay_s = RETRY_DELAYS_S[min(failures, len(RETRY_DELAYS_S) - 1)]
            if delay_s > RETRY_DELAYS_S[0]:
                self._is_coming = False
                self._changed.unpark_all()
                await trio.sleep(delay_s)
                self._expect()
            else:
                await trio.sleep(delay_s)
            failures += 1


def can_fork(environment: Mapping[str, str]) -> bool:
    """Return whether a fork equals a new interpreter: elsewhere than on Linux a fork without exec is not safe.

    Relative paths of modules mean something else in each folder.
    """
    paths = (path for name in _PATHS if name in environment for path in environment[name].split(os.pathsep))
    return sys.platform == "linux" and hasattr(os, "pidfd_open") and all(map(os.path.isabs, paths))


class _ForkRefused(Exception):
    """The zygote has not forked; the text gives the reason."""


class _Child:
    """An agent that was requested from a zygote."""

    def __init__(self) -> None:
        self.answered = trio.Event()
        self.pid = 0
        self.handle: int | None = None
        """The pidfd, closed by `close`."""
        self.reason = "the zygote has ended"
        self.exited = trio.Event()
        self.status: int | None = None
        self.is_closed = False

    def forked(self, pid: int, handle: int) -> None:
        self.pid, self.handle = pid, handle
        if self.is_closed:
            self.close()
        self.answered.set()

    async def reap(self) -> int | None:
        """Wait for the exit and return the status that the zygote reports."""
        try:
            assert self.handle is not None
            await trio.lowlevel.wait_readable(self.handle)
            with trio.move_on_after(STATUS_LIMIT_S):
                await self.exited.wait()
            return self.status
        finally:
            self.close()

    def kill(self) -> None:
        if self.handle is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.handle, signal.SIGKILL)

    def close(self) -> None:
        self.is_closed = True
        handle, self.handle = self.handle, None
        if handle is not None:
            os.close(handle)


class _Zygote:
    """A zygote: `run` has to run in a task."""

    def __init__(self, nursery: trio.Nursery, process: trio.Process, connection: trio.socket.SocketType) -> None:
        self._nursery = nursery
        self._process = process
        self._connection = connection
        self._numbers = count(1)
        self._children: dict[int, _Child] = {}
        self._has_ended = False
        self.pid = process.pid
        self.ready = trio.Event()
        """It has loaded everything, or has ended."""
        self.over = trio.Event()
        """It forks no more."""

    async def run(self) -> None:
        """Receive what it reports, until it ends. Cancelled: it is ended; the agents live on."""
        try:
            while True:
                data, ancillary, *_ = await self._connection.recvmsg(LARGEST_MESSAGE, DESCRIPTOR_SPACE)
                if not data:
                    break
                self._take(json.loads(data), received_descriptors(ancillary))
        except OSError as error:
            _log.info("the zygote can't be reached any more: %s", error)
        finally:
            self._has_ended = True
            self._connection.close()
            for child in self._children.values():
                child.answered.set()
                child.exited.set()
            self.over.set()
            self.ready.set()
            self._process.kill()
            with trio.move_on_after(STATUS_LIMIT_S, shield=True):
                await self._process.wait()

    def _take(self, message: dict[str, Any], descriptors: list[int]) -> None:
        match message:
            case {"ready": version} if version == VERSION:
                self.ready.set()
            case {"forked": number, "pid": pid}:
                self._children[number].forked(pid, *descriptors)
            case {"refused": number, "reason": reason}:
                child = self._children.pop(number)
                child.reason = reason
                child.answered.set()
                self._end_if_unused()
            case {"exited": number, "status": status}:
                child = self._children.pop(number)
                child.status = status
                child.exited.set()
                self._end_if_unused()
            case _:
                _log.warning("the zygote is of another release")
                self._process.kill()

    def retire(self) -> None:
        """Fork no more, and end when the agents have ended, whose exits it reports."""
        self.over.set()
        self._end_if_unused()

    def kill(self) -> None:
        """End it at once."""
        self.over.set()
        self._process.kill()

    def _end_if_unused(self) -> None:
        if self.over.is_set() and not self._children and not self._has_ended:
            self._process.kill()

    async def fork(self, start: AgentLaunch, memory_bytes: int | None) -> PipedProcess:
        """Fork an agent.

        Raises:
            _ForkRefused: The zygote can't, or not any more.
            AgentStartError: The agent can't be what it was to become.
        """
        if self.over.is_set():
            raise _ForkRefused("the zygote has ended")
        child = _Child()
        number = next(self._numbers)
        with ExitStack() as theirs, ExitStack() as ours:
            try:
                ends = _Ends(theirs, ours)
            except OSError as error:
                raise AgentStartError(f"the agent could not be started: {error}") from error
            ours.callback(child.close)
            self._children[number] = child
            await self._request(number, ends.theirs)
            theirs.close()
            await self._wait_for(child)
            refusal = await _hand_over(ends.start, start, memory_bytes)
            if refusal is not None:
                raise AgentStartError(f"the agent could not be started in {start.cwd}: {refusal}")
            ours.pop_all()
        pipes = tuple(map(trio.lowlevel.FdStream, ends.pipes))
        agent = PipedProcess(child.pid, (pipes[0], pipes[1], pipes[2]), child.reap, child.kill)
        self._nursery.start_soon(agent.run, name=f"agent process {child.pid}")
        return agent

    async def _request(self, number: int, descriptors: list[int]) -> None:
        try:
            await self._connection.sendmsg([json.dumps({"fork": number}).encode()], rights(descriptors))
        except (OSError, trio.ClosedResourceError) as error:
            self._children.pop(number, None)
            raise _ForkRefused(str(error)) from error

    async def _wait_for(self, child: _Child) -> None:
        with trio.move_on_after(FORK_LIMIT_S):
            await child.answered.wait()
        if not child.answered.is_set():
            self.kill()
            raise _ForkRefused("the zygote does not answer")
        if child.handle is None:
            raise _ForkRefused(child.reason)


class _Ends:
    """The pipes and the socket of a new agent, both ends of each."""

    def __init__(self, theirs: ExitStack, ours: ExitStack) -> None:
        """Open them; they are closed with the stacks."""
        self.theirs: list[int] = []
        self.pipes: list[int] = []
        for is_read_by_agent in (True, False, False):
            reading, writing = os.pipe()
            ends = (reading, writing) if is_read_by_agent else (writing, reading)
            for stack, end in zip((theirs, ours), ends, strict=True):
                stack.callback(os.close, end)
            self.theirs.append(ends[0])
            self.pipes.append(ends[1])
        self.start, start = socket.socketpair()
        ours.enter_context(self.start)
        theirs.enter_context(start)
        self.theirs.append(start.fileno())


async def _hand_over(connection: socket.socket, start: AgentLaunch, memory_bytes: int | None) -> str | None:
    """Give a forked child what it is started with; returns why it refuses."""
    content = {**start._asdict(), "environment": dict(start.environment), "memory": memory_bytes}
    reply = b""
    async with trio.SocketStream(trio.socket.from_stdlib_socket(connection)) as stream:
        try:
            await stream.send_all(json.dumps(content).encode())
            await stream.send_eof()
            async for data in stream:
                reply += data
        except trio.BrokenResourceError:
            pass
    if reply == b"started":
        return None
    return reply.decode("utf-8", "replace") or "its process has ended"


async def _load(nursery: trio.Nursery, environment: Mapping[str, str]) -> _Zygote:
    """Start a zygote and have an agent of it answer.

    Raises:
        AgentStartError, _ForkRefused, OSError: It can't serve; it was ended.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        try:
            process = await CHILDREN.start(
                [sys.executable, "-P", "-m", _PROGRAM, str(theirs.fileno())],
                stdin=DEVNULL,
                stdout=DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=dict(environment),
                cwd="/",
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
    zygote = _Zygote(nursery, process, trio.socket.from_stdlib_socket(ours))
    nursery.start_soon(zygote.run, name=f"zygote {process.pid}")
    try:
        with trio.move_on_after(LOAD_LIMIT_S):
            await zygote.ready.wait()
            await _try(zygote, environment)
            return zygote
        raise AgentStartError("the zygote does not become ready")
    except BaseException:
        zygote.kill()
        raise


async def _try(zygote: _Zygote, environment: Mapping[str, str]) -> None:
    """Have an agent answer and end.

    Raises:
        AgentStartError: It has not.
    """
    trial = _TRIAL._replace(environment={**_TRIAL.environment, **environment})
    process = await zygote.fork(trial, None)
    answer = b""
    async with process.stdout:
        async with process.stdin:
            with suppress(trio.BrokenResourceError):
                await process.stdin.send_all(b'{"type":"get_state"}\n')
                answer = bytes(await process.stdout.receive_some())
        status = await process.wait()
    if status != 0 or b'"success":true' not in answer:
        raise AgentStartError(f"a forked agent does not work: status {status}, {process.stderr_tail()}")
