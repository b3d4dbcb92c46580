"""A real host with extensions: a session in memory, a chart, and a model that answers as a test says."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio

from pinnace_agent.config.configuration import load_configuration
from pinnace_agent.config.settings import CompactionSettings
from pinnace_agent.core.jobs import Jobs
from pinnace_agent.engine.client_bash import ShellJob, ShellRequest
from pinnace_agent.engine.interpreter import EffectInterpreter
from pinnace_agent.engine.profile import AgentProfile
from pinnace_agent.extension_host.instance_hooks import InstanceHooks
from pinnace_agent.extensions.services.watchdog import owners_at_work
from pinnace_agent.llm import providers
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.offline.provider import OFFLINE_MODEL
from pinnace_agent.llm.request import LlmRequest
from pinnace_agent.session.conversation import Session
from pinnace_agent.session.library import Library
from pinnace_agent.session.replacement import MoveRequest, SessionRequest
from pinnace_agent.tools.base import Tool, ToolContext, ToolResult, text_result
from pinnace_statechart.machine import Chart
from pinnace_statechart.triggers import Command

if TYPE_CHECKING:
    from tests.agent.extensions.conftest import Rig

    from pinnace_agent.extensions.runtime.runner import Runner

Turn = Callable[[LlmRequest, MessageBuilder], object]
Record = dict[str, Any]


class Echo:
    """A tool that answers with its text, at once or when it is let go."""

    name = "echo"
    label = "echo"
    description = "Says it."
    snippet = ""
    guidelines: tuple[str, ...] = ()
    is_sequential = False
    checks_itself = False
    parameters: Mapping[str, object] = {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    }

    def __init__(self) -> None:
        self.executed: list[Mapping[str, object]] = []
        self.works: Callable[[Mapping[str, object], ToolContext], object] | None = None

    def prepare(self, raw: Mapping[str, object]) -> Mapping[str, object]:
        return raw

    async def execute(self, args: Mapping[str, object], ctx: ToolContext) -> ToolResult:
        self.executed.append(dict(args))
        if self.works is not None:
            done: Any = self.works(args, ctx)
            await done
        return text_result(f"said {args['text']}", {"d": 1})


class Agent:
    """One host, what it was asked and what it has written."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self.turns = list(turns)
        self.requests: list[LlmRequest] = []
        self.records: list[Record] = []
        self.answers: list[tuple[str, Any]] = []
        self.echo = Echo()
        self.session = Session("/nonexistent")
        self.session.model, self.session.thinking_level = OFFLINE_MODEL, "off"
        self.host: Any = None
        self.shell = ShellRequest("")
        self._changed = trio.Event()
        self._ref = 0

    # The client.

    def send(self, name: str, text: str = "", **fields: Any) -> None:
        self._ref += 1
        self.host.submit(Command(name, self._ref, text, **fields))

    async def prompt(self, text: str) -> None:
        """Send a prompt and wait until the agent has settled."""
        self.send("prompt", text)
        await self.until("agent_settled")
        await trio.testing.wait_all_tasks_blocked()

    async def until(self, kind: str) -> Record:
        """Wait for a record that was not written yet."""
        begun = len(self.records)
        while True:
            if found := [record for record in self.records[begun:] if record["type"] == kind]:
                return found[0]
            await self._changed.wait()

    def of(self, *kinds: str) -> list[Record]:
        return [record for record in self.records if record["type"] in kinds]

    @property
    def results(self) -> list[Any]:
        """What the model reads of calls."""
        return [each for each in self.session.messages if each["role"] == "toolResult"]

    @property
    def log(self) -> Any:
        """The log of the open run, or of the last one."""
        return self.host._runs.log

    @property
    def hooks(self) -> Any:
        """The hooks of the same run."""
        return self.host._runs.hooks

    # The emitter.

    def emit(self, record: Mapping[str, object]) -> None:
        self.records.append(dict(record))
        self._changed.set()
        self._changed = trio.Event()

    def update(self, event: Mapping[str, object], builder: MessageBuilder) -> None:
        self.emit({"type": "message_update", "assistantMessageEvent": event})

    def progress(self, record: Mapping[str, object], key: str) -> None:
        self.emit(record)

    async def room(self) -> None:
        await trio.lowlevel.checkpoint()

    # The open commands and their answers.

    def accept(self, effect: Any, _text: str | None) -> None:
        self.answers.append(("accept", effect.ref))

    def accept_result(self, ref: int, result: Any) -> None:
        self.answers.append(("compact", result))

    def refuse(self, effect: Any) -> None:
        self.answers.append(("refuse", effect.text or effect.reason))

    def answer(self, effect: Any, agent: object) -> None:
        self.perform(effect.ref, agent)

    def perform(self, ref: int, _agent: object) -> None:
        self.answers.append(("answer", ref))

    def answer_shell(self, ref: int, _shell: object) -> None:
        self.answers.append(("shell", ref))
        self.emit({"type": "shell_answered"})

    def refuse_all(self, text: str) -> None:
        self.answers.append(("refuse_all", text))

    def close(self) -> None:
        pass

    def shell_request(self, _ref: int) -> ShellRequest:
        return self.shell

    def bash(self, command: str) -> ShellJob:
        self.shell = ShellRequest(command)
        self.session.cwd = "/"
        self.send("bash", command)
        shell: ShellJob = self.host.shells.get(self._ref)
        return shell

    def compact_instructions(self, _ref: int) -> str | None:
        return "look here"

    def session_request(self, ref: int) -> SessionRequest:
        raise AssertionError(ref)

    def identity_of(self, ref: int) -> None:
        raise AssertionError(ref)

    def is_withdrawal(self, ref: int) -> bool:
        raise AssertionError(ref)

    def move_request(self, ref: int) -> MoveRequest:
        raise AssertionError(ref)

    def command_text(self, ref: int) -> str:
        raise AssertionError(ref)

    def message_name(self, ref: int) -> str | None:
        raise AssertionError(ref)

    def dialog_response(self, ref: int) -> Record:
        raise AssertionError(ref)

    def read_again(self, command: Command, _agent: object) -> Command:
        return command

    # The provider.

    async def stream(self, request: LlmRequest, builder: MessageBuilder) -> None:
        await trio.lowlevel.checkpoint()
        self.requests.append(request)
        done: Any = self.turns.pop(0)(request, builder)
        if done is not None:
            await done


def says(text: str) -> Turn:
    """Answer with a text, in one delta a word."""

    async def turn(_request: LlmRequest, builder: MessageBuilder) -> None:
        builder.start()
        for word in text.split():
            builder.text_delta("text", f"{word} ")
            await builder.room()
        builder.finish("stop")

    return turn


def calls(*arguments: str, name: str = "echo", stop: Any = "toolUse") -> Turn:
    """Call a tool once for each of these."""

    async def turn(_request: LlmRequest, builder: MessageBuilder) -> None:
        builder.start()
        for number, text in enumerate(arguments):
            builder.toolcall_start(number, f"call-{number}", name)
            builder.toolcall_delta(number, text)
        await builder.room()
        builder.finish(stop)

    return turn


class RunnerExtensions:
    """Extensions whose runner is there from the start: without sessions, prompts and dialogs of their own."""

    system_prompt = None

    def __init__(self, runner: "Runner") -> None:
        self.runner = runner
        self.instance = InstanceHooks(runner)
        self.prompt_hooks = self.messages = self

    async def read_pending(self, _job: int) -> bool:
        return True

    async def before_run(self) -> None:
        pass

    def take_opening(self) -> Sequence[Any]:
        return ()

    def append_rest(self, _run: object) -> None:
        pass

    def asks(self, _request: object) -> bool:
        return False

    def handlers_at_work(self, task: trio.lowlevel.Task) -> list[str]:
        return [f"{path} on {event}" for path, event in owners_at_work(task)]

    def __getattr__(self, _name: str) -> Callable[..., None]:
        return lambda *_, **__: None


class InRuns:
    """Starts agents over the extensions of a rig."""

    says = staticmethod(says)
    calls = staticmethod(calls)

    def __init__(self, rig: "Rig") -> None:
        self.rig = rig
        self.registry = load_configuration({"HOME": "/nonexistent"}, Path("/nonexistent"))[1]
        self.settings = CompactionSettings(keep_recent_tokens=1)

    @asynccontextmanager
    async def agent(
        self, *turns: Turn, tools: Mapping[str, Tool] | None = None, extended: bool = True
    ) -> AsyncGenerator[Agent]:
        """Run one until the block is left."""
        agent = Agent(turns)
        known = providers._providers.get()  # pyright: ignore[reportPrivateUsage]  # a registry, with no other way in
        former, known["offline"] = providers.find_provider("offline"), agent
        assert former is not None
        try:
            async with AsyncExitStack() as stack:
                runner = await stack.enter_async_context(self.rig.running()) if extended else None
                nursery = await stack.enter_async_context(trio.open_nursery())
                added: Mapping[str, Tool] = {} if runner is None else runner.tools()
                all_tools: dict[str, Any] = {"echo": agent.echo, **added, **(tools or {})}
                profile = AgentProfile(self.registry, all_tools, lambda _: "The prompt.", compaction=self.settings)
                jobs = Jobs(nursery)
                extensions: Any = None if runner is None else RunnerExtensions(runner)
                client: Any = agent  # ignores what it does not name

                def extend(_agent: EffectInterpreter, _folder: str | None) -> Any:
                    return extensions

                agent.host = EffectInterpreter(
                    Chart(), agent.session, Library(None), profile, agent, client, jobs, extend
                )
                yield agent
                nursery.cancel_scope.cancel()
        finally:
            known["offline"] = former

    @staticmethod
    def runner_of(agent: Agent) -> "Runner":
        runner: Runner = agent.host.extensions.runner
        return runner


@pytest.fixture
def in_runs(rig: "Rig") -> InRuns:
    """Starts agents over the extensions of `rig`."""
    return InRuns(rig)
