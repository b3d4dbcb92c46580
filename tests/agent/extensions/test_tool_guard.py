"""No tool call without all gates, whatever fails when a session is replaced (R-EXT-12).

A real host with real extensions: one gate in a file that the command line names, one that belongs to the program. What
can fail is made to fail: loading, beginning, ending, filling, reading settings, copying; one after the other and within
one another.
"""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.extensions.runs.conftest import Agent, calls, says

from pinnace_agent.config.configuration import load_configuration
from pinnace_agent.config.models.selection import Selection
from pinnace_agent.core.jobs import Jobs
from pinnace_agent.core.user_warnings import Notice
from pinnace_agent.engine.interpreter import EffectInterpreter
from pinnace_agent.engine.profile import AgentProfile, UseFiles
from pinnace_agent.extension_host.manager import ExtensionManager
from pinnace_agent.extension_host.plan import ExtensionPlan, ExtensionStartError
from pinnace_agent.extensions.api.api import ExtensionAPI
from pinnace_agent.extensions.loading.loading import Inline
from pinnace_agent.llm import providers
from pinnace_agent.llm.offline.provider import OFFLINE_MODEL
from pinnace_agent.session.folders import SessionFolder
from pinnace_agent.session.library import Library
from pinnace_agent.session.replacement import CloneSession, EmptySession, ForkSession, SessionRequest, SwitchSession
from pinnace_spec.records.messages import ApprovalMode
from pinnace_statechart.machine import Chart
from pinnace_statechart.triggers import Command, InternalEvent

if TYPE_CHECKING:
    from pinnace_agent.extensions.ports.host_view import Setup

_GATE = """
import builtins

def extension(pi):
    if {broken}:
        raise RuntimeError("this gate is broken")

    @pi.on("tool_call")
    def gate(ctx, event):
        builtins.pinnace_gates_asked.append("file")
"""
ALL_GATES = {"file", "inline"}


class Gated(Agent):
    """A host with two gates, and what can be made to fail."""

    def __init__(self, folder: Path) -> None:
        super().__init__([])
        self.folder = folder
        self.asked: list[str] = []
        self.faults: set[str] = set()
        self.hanging = trio.Event()
        self.requested: dict[int, SessionRequest] = {}
        self.gate = folder / "gate.py"
        self.write_gate()
        self.extensions: Any = None

    def write_gate(self, *, broken: bool = False) -> None:
        self.gate.write_text(_GATE.format(broken=broken), encoding="utf-8")

    # The plan, each part of which may fail.

    def may(self, fault: str) -> None:
        if fault in self.faults:
            raise RuntimeError(f"{fault} has failed")

    def plan(self) -> ExtensionPlan:
        def settings(_folder: Path) -> Sequence[Any]:
            self.may("settings")
            return []

        def trusts(_folder: Path) -> bool:
            self.may("trust")
            return False

        def decide(_folder: Path, _trusted: bool, _remembered: bool) -> None:
            pass

        def inline(pi: ExtensionAPI) -> None:
            self.may("load")

            @pi.on("session_start")
            async def begin(_ctx: object, _event: object) -> None:
                if "hang" in self.faults:
                    await self.hang()
                self.may("begin")

            @pi.on("session_shutdown")
            def end(_ctx: object, _event: object) -> None:
                self.may("end")

            @pi.on("tool_call")
            def gate(_ctx: object, _event: object) -> None:
                self.asked.append("inline")

        return ExtensionPlan(
            env={"HOME": str(self.folder), "PI_CODING_AGENT_DIR": str(self.folder / "agent")},
            mode="rpc",
            settings=settings,
            raw_settings=dict,
            trusts=trusts,
            decide=decide,
            select=lambda: Selection(OFFLINE_MODEL, "off", "off"),
            named=(str(self.gate),),
            inline=[Inline("<inline:1>", inline)],
        )

    def read_files_again(self) -> UseFiles:
        self.may("read")

        def use(_profile: AgentProfile) -> Sequence[Notice]:
            self.may("use")
            return []

        return use

    # The open commands.

    def session_request(self, ref: int) -> SessionRequest:
        return self.requested[ref]

    def extend(self, host: EffectInterpreter, _folder: str | None) -> ExtensionManager:
        manager = self.extensions = ExtensionManager(self.plan(), host, lambda: None, lambda: False)
        return manager

    # What the client and extensions ask for.

    @property
    def is_idle(self) -> bool:
        return bool(self.host.idle.is_idle)

    async def settle(self, work: Callable[[], Awaitable[object]] = trio.lowlevel.checkpoint) -> None:
        """Do `work`, and wait until nothing happens any more; an abort ends what would wait for ever."""
        done = trio.Event()

        async def end() -> None:
            await work()
            done.set()

        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(end)
                while not (done.is_set() and self.is_idle):
                    if self.hanging.is_set():
                        self.hanging = trio.Event()
                        self.send("abort")
                    await trio.sleep(0.001)

    async def hang(self) -> None:
        """Wait for ever."""
        self.hanging.set()
        await trio.sleep_forever()

    async def replace(self, request: SessionRequest) -> None:
        names = {
            EmptySession: "new_session",
            SwitchSession: "switch_session",
            ForkSession: "fork",
            CloneSession: "clone",
        }
        self._ref += 1
        self.requested[self._ref] = request
        self.host.submit(Command(names[cast("Any", type(request))], self._ref))
        await self.settle()

    async def new_session(self, setup: "Setup | None") -> str | None:
        """Ask for a new session as a command of an extension does; return why it was refused."""
        runner = self.extensions.runner
        if runner is None:
            return "there is no extension"
        problems: list[str] = []

        async def ask() -> None:
            try:
                await runner.actions.new_session(None, setup, None)
            except RuntimeError as error:
                problems.append(str(error))

        await self.settle(ask)
        return problems[0] if problems else None

    async def reload(self) -> None:
        """Ask for a reload as a command of an extension does; if there is none, as a client does."""
        runner = self.extensions.runner
        if runner is None:
            self._ref += 1
            self.host.submit(Command("reload", self._ref))
            await self.settle()
            return

        async def ask() -> None:
            with suppress(RuntimeError):
                await runner.actions.reload()

        await self.settle(ask)

    async def call(self) -> str:
        """Let the model call the tool; return the text of the result."""
        session = self.host.session
        session.model, session.thinking_level = OFFLINE_MODEL, "off"
        self.turns[:] = [calls('{"text": "x"}'), says("done")]
        self.asked.clear()
        self.send("prompt", "Go.")
        await self.settle()
        [result] = [each for each in session.messages if each["role"] == "toolResult"][-1:]
        return str(result["content"][0]["text"])


@contextmanager
def asked_by_file(agent: Gated) -> Generator[None, None, None]:
    """The extension in a file notes its calls where this process sees them."""
    import builtins

    builtins.pinnace_gates_asked = agent.asked  # type: ignore[attr-defined]
    try:
        yield
    finally:
        del builtins.pinnace_gates_asked  # type: ignore[attr-defined]


@asynccontextmanager
async def started(folder: Path, approval: ApprovalMode = "never", faults: Iterable[str] = ()) -> AsyncGenerator[Gated]:
    """Start a host whose extensions have begun.

    Raises:
        ExtensionStartError: It can't start.
    """
    agent = Gated(folder)
    agent.faults.update(faults)
    known = providers._providers.get()  # pyright: ignore[reportPrivateUsage]  # a registry, with no other way in
    former, known["offline"] = providers.find_provider("offline"), cast("Any", agent)
    assert former is not None
    library = Library(SessionFolder(folder / "sessions", is_flat=False))
    registry = load_configuration({"HOME": "/nonexistent"}, Path("/nonexistent"))[1]
    try:
        with asked_by_file(agent):
            async with trio.open_nursery() as nursery:
                profile = AgentProfile(
                    registry,
                    {"echo": agent.echo},
                    lambda _: "The prompt.",
                    approval=approval,
                    read_again=agent.read_files_again,
                )
                session = agent.session = library.new(str(folder))
                session.model, session.thinking_level = OFFLINE_MODEL, "off"
                host = agent.host = EffectInterpreter(
                    Chart(), session, library, profile, agent, cast("Any", agent), Jobs(nursery), agent.extend
                )
                host.submit(InternalEvent("begin_instance"))
                await agent.settle()
                if agent.extensions.failure is not None:
                    raise agent.extensions.failure
                yield agent
                nursery.cancel_scope.cancel()
    finally:
        known["offline"] = former


async def refuses(agent: Gated) -> str:
    """Return why a call is refused, and be sure that it is."""
    before = len(agent.echo.executed)
    text = await agent.call()
    assert before == len(agent.echo.executed)
    return text


async def is_guarded(agent: Gated) -> None:
    """Be sure that a call is carried out, and that all gates were asked."""
    before = len(agent.echo.executed)
    assert "said x" == await agent.call()
    assert ALL_GATES == set(agent.asked)
    assert before + 1 == len(agent.echo.executed)


# What is kept, and what is refused.


async def test_gates_are_asked_in_every_session(tmp_path: Path) -> None:
    async with started(tmp_path) as agent:
        await is_guarded(agent)
        await agent.replace(EmptySession(None))
        await is_guarded(agent)
        await agent.replace(CloneSession())
        await is_guarded(agent)
        await agent.reload()
        await is_guarded(agent)


def _raises(error: BaseException) -> "Setup":
    def setup(session: Any) -> None:
        session.append_message({"role": "user", "content": "left behind?", "timestamp": 1})
        raise error

    return setup


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt()])
async def test_a_setup_that_raises_leaves_the_session_and_its_gates(tmp_path: Path, error: BaseException) -> None:
    async with started(tmp_path) as agent:
        await is_guarded(agent)
        before = agent.host.session, sorted((tmp_path / "sessions").iterdir())

        problem = await agent.new_session(_raises(error))

        assert (problem or "").startswith("The session was not replaced: its setup failed: ")
        assert before == (agent.host.session, sorted((tmp_path / "sessions").iterdir()))
        await is_guarded(agent)


async def test_an_abort_ends_a_setup_that_never_returns(tmp_path: Path) -> None:
    async with started(tmp_path) as agent:
        before = agent.host.session

        async def setup(_session: object) -> None:
            await agent.hang()

        problem = await agent.new_session(setup)

        assert "The session was not replaced: its setup failed: it still ran at an abort, and was ended" == problem
        assert before is agent.host.session
        await is_guarded(agent)


async def test_a_setup_fills_the_session_before_the_former_extensions_end(tmp_path: Path) -> None:
    async with started(tmp_path) as agent:
        former = agent.extensions.runner
        was_there: list[bool] = []

        def setup(session: Any) -> None:
            session.append_message({"role": "user", "content": "Begin here.", "timestamp": 1})
            was_there.append(agent.extensions.runner is former and not former.generation.is_stale)

        assert None is await agent.new_session(setup)

        assert [True] == was_there
        assert "Begin here." == agent.host.session.messages[0]["content"]
        assert agent.extensions.runner is not former
        await is_guarded(agent)


@pytest.mark.parametrize("is_gone", [False, True])
async def test_no_tool_runs_when_an_extension_can_not_be_loaded_again(tmp_path: Path, is_gone: bool) -> None:
    async with started(tmp_path) as agent:
        if is_gone:
            agent.gate.unlink()
        else:
            agent.write_gate(broken=True)
        await agent.replace(EmptySession(None))

        text = await refuses(agent)
        assert text.startswith("Not executed: extensions that may guard tools are missing: ")
        assert str(agent.gate) in text
        assert any(str(agent.gate) in each["error"] for each in agent.of("extension_error"))

        agent.write_gate()
        await agent.reload()
        await is_guarded(agent)


@pytest.mark.parametrize("fault", ["load", "settings", "trust"])
async def test_no_tool_runs_when_the_extensions_of_a_new_session_can_not_be_loaded(tmp_path: Path, fault: str) -> None:
    async with started(tmp_path) as agent:
        agent.faults.add(fault)
        await agent.replace(EmptySession(None))
        assert [] == agent.host.session.messages  # it was replaced all the same

        assert "may guard tools" in await refuses(agent)

        agent.faults.clear()
        await agent.replace(EmptySession(None))
        await is_guarded(agent)


async def test_a_reload_that_can_not_read_the_files_changes_nothing(tmp_path: Path) -> None:
    async with started(tmp_path) as agent:
        former = agent.extensions.runner
        agent.faults.add("read")
        await agent.reload()

        assert former is agent.extensions.runner
        await is_guarded(agent)


async def test_a_reload_that_fails_returns_and_no_tool_runs(tmp_path: Path) -> None:
    async with started(tmp_path) as agent:
        agent.faults.add("use")
        await agent.reload()

        assert "could not be loaded: RuntimeError: use has failed" in await refuses(agent)


async def test_no_shell_command_runs_when_an_extension_is_missing(tmp_path: Path) -> None:
    async with started(tmp_path) as agent:
        agent.gate.unlink()
        await agent.replace(EmptySession(None))

        shell = agent.bash(f"touch {tmp_path}/ran")
        await agent.settle()

        assert (shell.failure or "").startswith("Not executed: extensions that may guard tools are missing")
        assert not (tmp_path / "ran").exists()


async def test_a_shell_command_runs_beside_the_session_command_behind_it(tmp_path: Path) -> None:
    async with started(tmp_path) as agent:
        for _ in range(12):  # which of the two tasks begins first is the scheduler's choice
            shell = agent.bash("true")
            await agent.replace(EmptySession(None))
            assert None is shell.failure


async def test_a_process_whose_extensions_can_not_be_loaded_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(ExceptionGroup) as refused:
        async with started(tmp_path, faults={"settings"}):
            pass

    assert refused.group_contains(
        ExtensionStartError, match="the extensions can't be loaded: RuntimeError: settings has failed"
    )


# Any nesting of failures.

_FAULTS = ("settings", "trust", "read", "use", "load", "begin", "end", "hang", "no gate", "broken gate")
_OPERATIONS = ("new", "fork", "clone", "switch", "reload", "setup", "failing setup", "nested setup", "no folder")
_steps = st.lists(st.tuples(st.sampled_from(_OPERATIONS), st.sets(st.sampled_from(_FAULTS), max_size=2)), max_size=4)


async def _carry_out(agent: Gated, operation: str) -> None:
    async def inner(_session: object) -> None:
        agent.hanging.set()  # what is asked for within waits behind this
        with pytest.raises(RuntimeError):
            await agent.extensions.runner.actions.new_session(None, _raises(ValueError("inner")), None)

    session = agent.host.session
    users = [entry for entry in session.tree.entries if entry.get("message", {}).get("role") == "user"]
    other = next(iter(sorted((agent.folder / "sessions").glob("*.jsonl"))), None)
    done: dict[str, Callable[[], Awaitable[object]]] = {
        "new": lambda: agent.replace(EmptySession(None)),
        "fork": lambda: agent.replace(ForkSession(str(users[-1]["id"]) if users else "none")),
        "clone": lambda: agent.replace(CloneSession()),
        "switch": lambda: agent.replace(SwitchSession(str(other or "none.jsonl"))),
        "reload": agent.reload,
        "setup": lambda: agent.new_session(lambda _session: None),
        "failing setup": lambda: agent.new_session(_raises(ValueError("outer"))),
        "nested setup": lambda: agent.new_session(inner),
        "no folder": lambda: agent.replace(CloneSession()),
    }
    folder, hidden = agent.folder / "sessions", agent.folder / "hidden"
    if operation == "no folder" and folder.exists():
        os.rename(folder, hidden)
        folder.write_text("no folder", encoding="utf-8")
    try:
        await done[operation]()
    finally:
        if hidden.exists():
            folder.unlink()
            os.rename(hidden, folder)


async def _play(steps: Sequence[tuple[str, set[str]]], approval: ApprovalMode) -> None:
    with TemporaryDirectory() as name:
        async with started(Path(name), approval) as agent:
            for operation, faults in steps:
                agent.faults = set(faults)
                if "no gate" in faults:
                    agent.gate.unlink(missing_ok=True)
                else:
                    agent.write_gate(broken="broken gate" in faults)
                await _carry_out(agent, operation)
                before = len(agent.echo.executed)
                await agent.call()
                if len(agent.echo.executed) > before:
                    assert ALL_GATES == set(agent.asked)
                    assert "never" == approval


@given(_steps, st.sampled_from(["never", "read-only"]))
def test_any_nesting_of_failures_never_yields_a_call_without_all_gates(
    steps: list[tuple[str, set[str]]], approval: ApprovalMode
) -> None:
    trio.run(_play, steps, approval)
