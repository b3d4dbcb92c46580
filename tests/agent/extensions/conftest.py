"""A small host for the tests of extensions: a session in memory, and everything that is asked of it."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest
import trio
from tests.agent.samples import served_model

from pinnace_agent.config.credentials.credentials import Credentials
from pinnace_agent.extensions.events.events import AgentStart, Event
from pinnace_agent.extensions.ports.host_actions import HostPort
from pinnace_agent.extensions.ports.host_view import (
    CommandInfo,
    Content,
    ContextUsage,
    CustomDraft,
    DeliverAs,
    ForkPosition,
    Mode,
    SessionResult,
    Setup,
    ToolInfo,
    TreeMove,
    WithSession,
)
from pinnace_agent.extensions.registration.registrations import (
    CommandRegistration,
    ErrorRecord,
    Extension,
    Function,
    Generation,
    Handler,
    ToolDefinition,
    ToolRegistration,
)
from pinnace_agent.extensions.runtime.commands import CommandCall
from pinnace_agent.extensions.runtime.runner import Runner
from pinnace_agent.llm.providers import Provider, find_provider
from pinnace_spec.records.entries import Entry
from pinnace_spec.records.messages import Message, Model, ThinkingLevel

MODEL = served_model(id="m", api="offline", provider="p", baseUrl="", contextWindow=1000, maxTokens=100)


class FakeSession:
    """A session in memory."""

    cwd = "/work/place"
    id = "session-1"
    path: str | None = "/sessions/1.jsonl"
    folder: str | None = "/sessions"
    name: str | None = None
    header: Mapping[str, object] = {"type": "session", "version": 3}

    def __init__(self) -> None:
        self.lines: list[Entry] = []

    @property
    def leaf_id(self) -> str | None:
        return str(self.lines[-1]["id"]) if self.lines else None

    def append(self, text: str) -> None:
        message = {"role": "user", "content": [{"type": "text", "text": text}]}
        self.lines.append({"type": "message", "id": f"e{len(self.lines)}", "message": message})

    def entries(self) -> Sequence[Entry]:
        return self.lines

    def branch(self, leaf_id: str | None = None) -> Sequence[Entry]:
        ids = [line["id"] for line in self.lines]
        return self.lines if leaf_id is None else self.lines[: ids.index(leaf_id) + 1]

    def find(self, entry_id: str) -> Entry | None:
        return next((line for line in self.lines if line["id"] == entry_id), None)

    def label(self, entry_id: str) -> str | None:
        return None

    def tree(self) -> Sequence[Mapping[str, object]]:
        return ()

    def messages(self) -> Sequence[Message]:
        return [{"role": "user", "content": "hello", "timestamp": 1}]


class FakeRegistry:
    """One model."""

    def all(self) -> Sequence[Model]:
        return [MODEL]

    available = all

    def find(self, provider: str, model_id: str) -> Model | None:
        return MODEL

    def provider_for(self, model: Model) -> Provider | None:
        return find_provider(model["api"])

    async def api_key_and_headers(self, model: Model) -> tuple[str | None, Mapping[str, str]]:
        await trio.lowlevel.checkpoint()
        return "key", {}

    async def credentials(self, model: Model) -> Credentials:
        await trio.lowlevel.checkpoint()
        return Credentials("key")


class FakeHost:
    """Reads and actions; what is asked for is kept in `asked`."""

    def __init__(self) -> None:
        self.mode: Mode = "rpc"
        self.editor_text = ""
        self.themes: Sequence[str] | None = None
        self.theme: str | None = None
        self.tools_expanded = False
        self.session = FakeSession()
        self.registry = FakeRegistry()
        self.model: Model | None = MODEL
        self.level: ThinkingLevel = "off"
        self.scoped_models: Sequence[Model] = ()
        self.run_scope: trio.CancelScope | None = None
        self.is_idle = True
        self.has_pending_messages = False
        self.is_project_trusted = True
        self.tools: list[ToolInfo] = []
        self.asked: list[object] = []
        self.frames: list[Mapping[str, object]] = []
        self.errors: list[ErrorRecord] = []
        self.is_settling = False
        self.compacts: Callable[[], Mapping[str, object]] = lambda: {"summary": "short"}
        self.replaces: Callable[[WithSession | None], Awaitable[None]] | None = None

    def take_editor_text(self, text: str) -> None:
        self.editor_text = text

    def take_theme(self, name: str) -> None:
        self.theme = name

    def take_tools_expanded(self, *, is_expanded: bool) -> None:
        self.tools_expanded = is_expanded

    @property
    def port(self) -> HostPort:
        return HostPort(self, Actions(self), self.errors.append, self.frames.append)

    @property
    def thinking_level(self) -> ThinkingLevel:
        return self.level

    def agent_command(self, folder: str | None) -> list[str]:
        return ["agent", str(folder)]

    def context_usage(self) -> ContextUsage | None:
        return ContextUsage(10, 1000, 1.0)

    def system_prompt(self) -> str:
        return "the prompt"

    def system_prompt_options(self) -> Mapping[str, object]:
        return {"tools": ["bash"]}

    @property
    def reported(self) -> list[tuple[str, str, str]]:
        """The errors without stacks."""
        return [(record.extension_path, record.event, record.error) for record in self.errors]


class Actions:
    """What is asked of the host."""

    def __init__(self, host: FakeHost) -> None:
        self.host = host
        self.kept: list[object] = []

    def ask(self, *what: object) -> None:
        (self.kept if self.host.is_settling else self.host.asked).append(what)

    def send_message(self, draft: CustomDraft, *, deliver_as: DeliverAs | None, triggers_turn: bool | None) -> None:
        self.ask("send_message", draft.content)

    def send_user_message(self, content: Content, *, deliver_as: DeliverAs | None, expands: bool | None) -> None:
        self.ask("send_user_message", content)

    def append_entry(self, custom_type: str, data: object) -> str:
        self.ask("append_entry", custom_type, data)
        return "entry-1"

    def session_name(self) -> str | None:
        return self.host.session.name

    def set_session_name(self, name: str | None) -> None:
        self.host.session.name = name

    def set_label(self, entry_id: str, label: str | None) -> None:
        self.ask("set_label", entry_id, label)

    def working_folder(self) -> str:
        return self.host.session.cwd

    def active_tools(self) -> list[str]:
        return ["bash"]

    def all_tools(self) -> list[ToolInfo]:
        return list(self.host.tools)

    def set_active_tools(self, names: Sequence[str]) -> None:
        self.ask("set_active_tools", list(names))

    def tools_changed(self, registered: str | None = None) -> None:
        self.ask("tools_changed", registered)

    def mcp_servers_changed(self) -> None:
        self.ask("mcp_servers_changed")

    def publish_mcp_servers(self, servers: Sequence[Mapping[str, object]]) -> None:
        self.ask("publish_mcp_servers", list(servers))

    def commands(self) -> list[CommandInfo]:
        return []

    async def set_model(self, model: Model) -> bool:
        await trio.lowlevel.checkpoint()
        return True

    def thinking_level(self) -> ThinkingLevel:
        return self.host.level

    def set_thinking_level(self, level: ThinkingLevel) -> None:
        self.host.level = level

    def settings(self) -> dict[str, object]:
        return {}

    def register_provider(self, extension_path: str, name: str, config: object) -> None:
        if name == "bad":
            raise ValueError("no baseUrl")
        self.ask("register_provider", extension_path, name)

    def unregister_provider(self, name: str) -> None:
        self.ask("unregister_provider", name)

    def abort(self) -> None:
        self.ask("abort")

    def shutdown(self) -> None:
        self.ask("shutdown")

    async def compact(self, instructions: str | None) -> Mapping[str, object]:
        await trio.lowlevel.checkpoint()
        return self.host.compacts()

    def begin_settling(self) -> None:
        self.host.is_settling = True

    def end_settling(self) -> None:
        self.host.is_settling = False
        self.host.asked += self.kept
        self.kept.clear()

    async def wait_for_idle(self) -> None:
        await trio.lowlevel.checkpoint()
        self.ask("wait_for_idle")

    async def new_session(
        self, parent_session: str | None, setup: Setup | None, with_session: WithSession | None
    ) -> SessionResult:
        self.ask("new_session", parent_session)
        if self.host.replaces is not None:
            await self.host.replaces(with_session)
        return SessionResult(cancelled=False)

    async def fork(self, entry_id: str, position: ForkPosition, with_session: WithSession | None) -> SessionResult:
        self.ask("fork", entry_id, position)
        return SessionResult(cancelled=False)

    async def switch_session(self, path: str, with_session: WithSession | None) -> SessionResult:
        self.ask("switch_session", path)
        return SessionResult(cancelled=False)

    async def navigate_tree(self, target_id: str | None, move: TreeMove) -> SessionResult:
        self.ask("navigate_tree", target_id, move)
        return SessionResult(cancelled=False)

    async def reload(self) -> None:
        self.ask("reload")


class Rig:
    """Makes extensions by hand, and a runner over them."""

    def __init__(self) -> None:
        self.host = FakeHost()
        self.generation = Generation()
        self.extensions: list[Extension] = []

    def extension(self, name: str = "a") -> Extension:
        path = f"/ext/{name}.py"
        extension = Extension(
            path, {"path": path, "source": "local", "scope": "user", "origin": "top-level"}, self.generation, "live"
        )
        self.extensions.append(extension)
        return extension

    def on(
        self,
        event: str,
        function: Function,
        *,
        extension: Extension | None = None,
        in_thread: bool = False,
        tool: str | None = None,
    ) -> Callable[[], None]:
        """Subscribe a handler; to an extension of its own unless one is given."""
        owner = extension or self.extension(f"x{len(self.extensions)}")
        return owner.add_handler(Handler(event, function, in_thread, tool))

    def command(self, name: str, function: Function, *, extension: Extension | None = None) -> Extension:
        owner = extension or self.extension(f"x{len(self.extensions)}")
        owner.commands[name] = CommandRegistration(name, f"does {name}", function)
        return owner

    def tool(self, name: str, function: Function, *, in_thread: bool = False) -> Extension:
        owner = self.extension(f"x{len(self.extensions)}")
        definition = ToolDefinition(name, "does it", {"type": "object"}, function, in_thread=in_thread)
        owner.tools[name] = ToolRegistration(definition, owner.source)
        return owner

    def runner(self) -> Runner:
        """Return a runner whose tasks don't run."""
        return Runner(self.extensions, self.generation, self.host.port)

    def called_command(self, function: Function) -> tuple[Runner, CommandCall]:
        """Register the command `go`, and return a runner and a call of it."""
        self.command("go", function)
        runner = self.runner()
        call = runner.commands.find("/go")
        assert call is not None
        return runner, call

    @asynccontextmanager
    async def running(self, runner: Runner | None = None) -> AsyncGenerator[Runner]:
        """Run the tasks of a runner; shut it down at the end."""
        runner = runner or self.runner()
        async with trio.open_nursery() as nursery:
            await nursery.start(runner.serve)
            yield runner
            await runner.shutdown("quit")

    @staticmethod
    def started() -> Event:
        return AgentStart()


@pytest.fixture
def rig() -> Rig:
    """Makes extensions and runners over a host of the tests."""
    return Rig()
