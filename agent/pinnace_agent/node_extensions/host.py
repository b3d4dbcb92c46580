"""The extensions in Node: their process, which goes on from session to session, and those of one session instance.

As in pi, a module is read once for the sessions of a folder: the next instance calls its function again, and what the
module keeps in its variables is still there. `reload`, another folder, and a client that begins to draw begin with a
new process.

A process that is lost is started once more in an instance: it loads every extension again and lets it restore its
state (`session_start`); what it registers must be what it registered before. Until that is done, calls wait; if it
fails, they fail, so gates deny. What extensions of an instance that has ended still ask is refused, once its last call
has ended.
"""

import logging
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Final, Protocol

import trio

from pinnace_agent.extensions.api.api import ExtensionAPI
from pinnace_agent.extensions.registration.registrations import ErrorRecord, ErrorSink
from pinnace_agent.node_extensions.bridge import Bridge
from pinnace_agent.node_extensions.errors import ProcessLost, RefusedRequest
from pinnace_agent.node_extensions.launch import Launch
from pinnace_agent.node_extensions.members import CHANGES, ask_member, now_member
from pinnace_agent.node_extensions.messages import Origin
from pinnace_agent.node_extensions.process import OVER, NodeProcess
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
    """The process, and the instances whose extensions it has."""

    def __init__(self, launch: Launch, start_job: StartJob, report: ErrorSink) -> None:
        """Start nothing yet."""
        self.launch = launch
        self._start_job = start_job
        self._report = report
        self._numbers = count(1)
        self._instances: list[NodeInstance] = []
        """The newest is the last; those before it have ended, and have calls that still run."""
        self._process: NodeProcess | None = None
        self._lock = trio.Lock()
        self._restarts = 0
        self._is_ending = False
        self._may_end = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._is_open = trio.Event()

    async def begin(self) -> "NodeInstance":
        """Start the process if it does not run, and return an instance without extensions.

        Raises:
            NoNode: It can't run extensions.
        """
        path = self.launch.node
        self._restarts = 0
        try:
            process = await self.live()
        except ProcessLost as error:
            raise NoNode(f"{path} can't be used: {error}") from error
        if not process.is_usable:
            raise NoNode(f"{path} is {process.version}, which is too old: {INSTALL}")
        for each in tuple(self._instances):
            each.close(is_last=False)  # one that was not loaded to its end
        instance = NodeInstance(self)
        self._instances.append(instance)
        return instance

    async def can_go_on(self) -> bool:
        """Return whether another instance may begin in the process that runs. One that does not respond is ended."""
        process = self._process
        if self._is_ending or process is None:
            return False
        with trio.move_on_after(self.launch.limits.cancelled_s) as scope:
            try:
                await process.call({"type": "check"})
            except ProcessLost:  # its end may not have been noticed before
                return False
        if scope.cancelled_caught:
            process.kill(f"did not respond within {self.launch.limits.cancelled_s:g} s")
        return not scope.cancelled_caught

    def next_number(self) -> int:
        """Return the number of an extension, which no other of the process has."""
        return next(self._numbers)

    @property
    def process(self) -> NodeProcess | None:
        """The process that was started last; None: there was none."""
        return self._process

    async def live(self) -> NodeProcess:
        """Return a process that can be called: a lost one is started again, once.

        Raises:
            ProcessLost: There is none.
        """
        process = self._process
        if process is not None and process.lost is None:
            return process
        async with self._lock:
            process = self._process
            if process is not None and process.lost is None:
                return process
            if process is not None:
                if self._restarts >= MOST_RESTARTS or self._is_ending:
                    raise ProcessLost(f"the Node process of the extensions {process.lost}")
                self._restarts += 1
                _log.warning("the Node process of the extensions %s; it is started again", process.lost)
            started = await self._started()
            if process is not None:
                await self._restore(started)
            self._process = started
            return started

    async def _started(self) -> NodeProcess:
        if self._nursery is None:
            self._start_job(self._serve)
            await self._is_open.wait()
        assert self._nursery is not None
        process = NodeProcess(self.launch, self)
        await self._nursery.start(process.serve, name="node: process")
        if process.lost is not None:
            raise ProcessLost(f"the Node process of the extensions {process.lost}")
        self._nursery.start_soon(self._report_loss, process, name="node: loss")
        return process

    async def _restore(self, process: NodeProcess) -> None:
        """Load every extension of the newest instance again. On a failure the process is ended."""
        try:
            for bridge in self._instances[-1].loaded if self._instances else ():
                await process.call({"type": "load", "extension": bridge.number, "path": bridge.path})
                await bridge.start_again(process)
        except BaseException:
            process.kill("could not be started again")
            raise

    async def _report_loss(self, process: NodeProcess) -> None:
        await process.ended.wait()
        for instance in self._instances:
            instance.end_surfaces()
        if process.is_reported:
            self._report(ErrorRecord(_PROCESS, "process", f"the Node process of the extensions {process.lost}"))

    async def _serve(self) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._is_open.set()
            await self._may_end.wait()
            if self._process is not None:
                self._process.close()
                with trio.move_on_after(_EXIT_S):
                    await self._process.ended.wait()
            nursery.cancel_scope.cancel()

    def end(self) -> None:
        """End the process, when the last call of the instances has ended. Never waits."""
        self._is_ending = True
        if not self._instances:
            self._may_end.set()

    def forget(self, instance: "NodeInstance") -> None:
        """Refuse what the extensions of an instance ask from now on: it has ended, and so has its last call.

        A second time does nothing.
        """
        if instance not in self._instances:
            return
        self._instances.remove(instance)
        if self._is_ending:
            self.end()
        elif self._process is not None:
            self._process.refuse(instance.numbers)
            self._process.post({"type": "forget", "extensions": list(instance.numbers)})

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
        bridge = self._bridge(name, origin)
        member = found(bridge, origin.context, Values(name, values))
        if name not in CHANGES:
            return await member
        owner = self._owner(bridge.number)
        assert owner is not None
        with owner.using():
            return await member

    def stray(self, extension: int | None, error: Exception, event: str = "background") -> None:
        """Report an error that no call waits for, and what has failed."""
        path = _PROCESS
        if extension is not None:
            owner = self._owner(extension)
            if owner is None:  # such as a timer that nothing has ended
                _log.warning("node: extension %s of a session that has ended: %s: %s", extension, event, error)
                return
            path = owner.bridges[extension].path
        self._report(ErrorRecord(path, event, str(error), getattr(error, "stack", None)))

    def _bridge(self, name: str, origin: Origin) -> Bridge:
        if origin.extension is not None:
            owner = self._owner(origin.extension)
            if owner is None:
                raise RefusedRequest(f"{name}: {OVER}")
            return owner.bridges[origin.extension]
        # A helper of pi's packages that is used outside of every call: any extension's will do.
        for instance in reversed(self._instances):
            for bridge in instance.bridges.values():
                return bridge
        raise RefusedRequest(f"{name}: there is no extension")

    def _owner(self, number: int) -> "NodeInstance | None":
        return next((each for each in self._instances if number in each.bridges), None)

    def post(self, message: Mapping[str, object]) -> None:
        """Send a message that has no answer."""
        if self._process is not None:
            self._process.post(message)


class NodeInstance:
    """The extensions of one session instance: loads them, and calls them."""

    def __init__(self, host: NodeHost) -> None:
        """Load nothing yet."""
        self.bridges: dict[int, Bridge] = {}
        """By their numbers."""
        self.emitted: tuple[str, object] | None = None
        """See `Calls`."""
        self.settings: Callable[[], Mapping[str, object]] = dict
        """See `Calls`."""
        self.trusted_folder: Callable[[], str | None] = lambda: None
        """See `Calls`."""
        self._host = host
        self._uses = 0
        self._is_over = False

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of its extensions."""
        return tuple(self.bridges)

    @property
    def loaded(self) -> Sequence[Bridge]:
        """Those whose function has returned, unless the instance has ended."""
        return () if self._is_over else [each for each in self.bridges.values() if each.is_loaded]

    async def load(self, path: str, api: ExtensionAPI) -> None:
        """Load an extension and let it register with `api`. Cancelling leaves the process as it is.

        Raises:
            ScriptError: It has thrown, or exports no function.
            ProcessLost: The process can't be started, or has ended meanwhile.
        """
        process = await self._host.live()
        number = self._host.next_number()
        bridge = self.bridges[number] = Bridge(number, path, api, self)
        await process.call({"type": "load", "extension": number, "path": path})
        bridge.is_loaded = True

    async def call(self, message: Mapping[str, object], on_update: Callable[[object], None] | None = None) -> object:
        """Call an extension; see `NodeProcess.call`. A lost process is started again, once.

        Raises:
            ScriptError: What was called has thrown.
            ProcessLost: The process was lost before or meanwhile.
        """
        with self.using():
            process = await self._host.live()
            return await process.call(message, on_update)

    @contextmanager
    def using(self) -> Generator[None]:
        """Let its extensions ask for the time of a block, also if the session ends meanwhile.

        Commands that have replaced the session continue in the next one; and a change of the session may be asked
        for by code that no call waits for, or twice at once: each has an outcome.
        """
        self._uses += 1
        try:
            yield
        finally:
            self._uses -= 1
            self._forget_if_over()

    def call_now(self, message: Mapping[str, object]) -> object:
        """Call something that does not wait; see `NodeProcess.call_now`. A lost process is not started again."""
        if self._host.process is None:
            raise ProcessLost("the Node process of the extensions has not started")
        return self._host.process.call_now(message)

    def post(self, message: Mapping[str, object]) -> None:
        """Send a message that has no answer."""
        self._host.post(message)

    def end_surfaces(self) -> None:
        """Close everything that a process which is lost has drawn."""
        for bridge in self.bridges.values():
            bridge.end_surfaces()

    def close(self, *, is_last: bool) -> None:
        """End the instance: its session has ended. Never waits.

        Args:
            is_last: Whether the process ends as well, once the last call has ended.
        """
        if self._is_over:
            return
        self._is_over = True
        if is_last:
            self._host.end()
        else:
            self._host.post({"type": "retire"})
        self._forget_if_over()

    def _forget_if_over(self) -> None:
        if self._is_over and not self._uses:
            self._host.forget(self)
