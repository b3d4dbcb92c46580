"""The extensions in Node of one session instance: their process, which is started once more if it is lost.

A process that is started again loads every extension again and lets it restore its state (`session_start`); what it
registers must be what it registered before. Until that is done, calls wait; if it fails, they fail, so gates deny.
"""

import logging
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

import trio

from pinnace_agent.extensions.api.api import ExtensionAPI
from pinnace_agent.extensions.registration.registrations import ErrorRecord, ErrorSink
from pinnace_agent.node_extensions.bridge import Bridge
from pinnace_agent.node_extensions.errors import ProcessLost, RefusedRequest
from pinnace_agent.node_extensions.launch import Launch
from pinnace_agent.node_extensions.members import CHANGES, ask_member, now_member
from pinnace_agent.node_extensions.messages import Origin
from pinnace_agent.node_extensions.process import NodeProcess
from pinnace_agent.node_extensions.program import INSTALL, NoNode
from pinnace_agent.node_extensions.values import Values

_log: Final = logging.getLogger("pinnace.extensions")

MOST_RESTARTS: Final = 1
"""A process that is lost twice will be lost again, and each start takes what the extensions take to load."""
_EXIT_S: Final = 1.0
"""How long it has to exit by itself: its extensions have handled `session_shutdown` before."""
_PROCESS: Final = "<node>"
"""The path in error records of the process, which belongs to no single extension."""


class StartJob(Protocol):
    """Starts a task of the agent."""

    def __call__(self, work: Callable[[], Awaitable[None]]) -> None:
        """Start `work`. Never waits."""
        ...


class NodeHost:
    """Loads extensions in Node, and calls them."""

    def __init__(self, launch: Launch, start_job: StartJob, report: ErrorSink) -> None:
        """Start nothing yet."""
        self._launch = launch
        self._start_job = start_job
        self._report = report
        self._bridges: dict[int, Bridge] = {}
        self.emitted: tuple[str, object] | None = None
        """See `Calls`."""
        self.settings: Callable[[], Mapping[str, object]] = dict
        """See `Calls`."""
        self._process: NodeProcess | None = None
        self._lock = trio.Lock()
        self._restarts = 0
        self._closing = trio.Event()
        self._uses = 0
        self._is_unused = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._is_open = trio.Event()

    # The process.

    async def start(self) -> None:
        """Start the process.

        Raises:
            NoNode: It can't run extensions.
        """
        path = self._launch.node
        try:
            process = await self._live()
        except ProcessLost as error:
            raise NoNode(f"{path} can't be used: {error}") from error
        if not process.is_usable:
            raise NoNode(f"{path} is {process.version}, which is too old: {INSTALL}")

    async def load(self, path: str, api: ExtensionAPI) -> None:
        """Load an extension and let it register with `api`. Cancelling leaves the process as it is.

        Raises:
            ScriptError: It has thrown, or exports no function.
            ProcessLost: The process can't be started, or has ended meanwhile.
        """
        number = len(self._bridges) + 1
        process = await self._live()
        bridge = self._bridges[number] = Bridge(number, path, api, self)
        await process.call({"type": "load", "extension": number, "path": path})
        bridge.is_loaded = True

    async def call(self, message: Mapping[str, object], on_update: Callable[[object], None] | None = None) -> object:
        """Call an extension; see `NodeProcess.call`. A lost process is started again, once.

        Raises:
            ScriptError: What was called has thrown.
            ProcessLost: The process was lost before or meanwhile.
        """
        with self._using():
            process = await self._live()
            return await process.call(message, on_update)

    @contextmanager
    def _using(self) -> Generator[None]:
        """Keep the process of a session that has ended for the time of a block."""
        self._uses += 1
        try:
            yield
        finally:
            self._uses -= 1
            if not self._uses:
                self._is_unused.set()

    def call_now(self, message: Mapping[str, object]) -> object:
        """Call something that does not wait; see `NodeProcess.call_now`. A lost process is not started again."""
        if self._process is None:
            raise ProcessLost("the Node process of the extensions has not started")
        return self._process.call_now(message)

    async def _live(self) -> NodeProcess:
        """Return a process that can be called."""
        process = self._process
        if process is not None and process.lost is None:
            return process
        async with self._lock:
            process = self._process
            if process is not None and process.lost is None:
                return process
            if process is not None:
                if self._restarts >= MOST_RESTARTS or self._closing.is_set():
                    raise ProcessLost(f"the Node process of the extensions {process.lost}")
                self._restarts += 1
                _log.warning("the Node process of the extensions %s; it is started again", process.lost)
            started = await self._started()
            if process is None:
                self._process = started
                return started
            await self._restore(started)
            self._process = started
            return started

    async def _started(self) -> NodeProcess:
        if self._nursery is None:
            self._start_job(self._serve)
            await self._is_open.wait()
        assert self._nursery is not None
        process = NodeProcess(self._launch, self)
        await self._nursery.start(process.serve, name="node: process")
        if process.lost is not None:
            raise ProcessLost(f"the Node process of the extensions {process.lost}")
        self._nursery.start_soon(self._report_loss, process, name="node: loss")
        return process

    async def _restore(self, process: NodeProcess) -> None:
        """Load every extension again. On a failure the process is ended."""
        try:
            for bridge in self._bridges.values():
                if not bridge.is_loaded:
                    continue
                await process.call({"type": "load", "extension": bridge.number, "path": bridge.path})
                await bridge.start_again(process)
        except BaseException:
            process.kill("could not be started again")
            raise

    async def _report_loss(self, process: NodeProcess) -> None:
        await process.ended.wait()
        for bridge in self._bridges.values():
            bridge.end_surfaces()
        if not self._closing.is_set():
            self._report(ErrorRecord(_PROCESS, "process", f"the Node process of the extensions {process.lost}"))

    async def _serve(self) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._is_open.set()
            await self._closing.wait()
            # Commands that have replaced the session continue in the next one; and a change of the session may be asked
            # for by code that no call waits for, or twice at once: each has an outcome.
            while self._uses:
                self._is_unused = trio.Event()
                await self._is_unused.wait()
            if self._process is not None:
                self._process.close()
                with trio.move_on_after(_EXIT_S):
                    await self._process.ended.wait()
            nursery.cancel_scope.cancel()

    def close(self) -> None:
        """End the process, when its last call has ended, and each change of the session has an outcome. Never waits."""
        self._closing.set()

    # What the process asks.

    def now(self, name: str, origin: Origin, values: Sequence[object]) -> object:
        """Return the value of a member that does not wait."""
        bridge = self._bridge(name, origin)
        if name == "listen":
            bridge.listen(Values(name, values).text(0, "channel"), self.post)
            return None
        found = now_member(name)
        if found is None:
            raise RefusedRequest(f"{name} is not available in pinnace")
        return found(bridge, origin.context, Values(name, values))

    async def ask(self, name: str, origin: Origin, values: Sequence[object]) -> object:
        """Return the value of a member that waits."""
        found = ask_member(name)
        if found is None:
            raise RefusedRequest(f"{name} is not available in pinnace")
        member = found(self._bridge(name, origin), origin.context, Values(name, values))
        if name not in CHANGES:
            return await member
        with self._using():
            return await member

    def stray(self, extension: int | None, error: Exception, event: str = "background") -> None:
        """Report an error that no call waits for, and what has failed."""
        bridge = None if extension is None else self._bridges.get(extension)
        path = _PROCESS if bridge is None else bridge.path
        self._report(ErrorRecord(path, event, str(error), getattr(error, "stack", None)))

    def _bridge(self, name: str, origin: Origin) -> Bridge:
        found = None if origin.extension is None else self._bridges.get(origin.extension)
        if found is None:
            # A helper of pi's packages that is used outside of every call: any extension's will do.
            found = next(iter(self._bridges.values()), None)
        if found is None:
            raise RefusedRequest(f"{name}: there is no extension")
        return found

    def post(self, message: Mapping[str, object]) -> None:
        """Send a message that has no answer."""
        if self._process is not None:
            self._process.post(message)
