"""What extensions may ask of the agent: `HostActions`, over the agent and the extension manager.

An action on the run, or one that replaces the session, passes the statechart as an internal command, so it waits behind
earlier commands of clients. Belongs to one session instance.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from pinnace_agent.core.frozen import frozen
from pinnace_agent.core.json_values import is_object
from pinnace_agent.extensions.ports.host_view import (
    CommandInfo,
    Content,
    CustomDraft,
    DeliverAs,
    ForkPosition,
    SessionResult,
    Setup,
    ToolInfo,
    TreeMove,
    WithSession,
)
from pinnace_agent.session.replacement import EmptySession, ForkSession, MoveRequest, SessionRequest, SwitchSession
from pinnace_agent.session.tree import clean_name
from pinnace_spec.records.messages import Model, ThinkingLevel
from pinnace_spec.rules import errors
from pinnace_statechart.triggers import NO_REPLY, Command

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.extension_host.messages import MessageInjector
    from pinnace_agent.extension_host.ports import InstanceHost
    from pinnace_agent.extension_host.providers import ExtensionProviders
    from pinnace_agent.extension_host.server_states import ServerStates

    class ActionHost(InstanceHost, Protocol):
        """The extension manager, as actions use it."""

        setups: dict[int, Setup]
        """Functions that fill new sessions, by the command that requests the session."""

        @property
        def messages(self) -> MessageInjector:
            """Takes messages."""
            ...

        @property
        def providers(self) -> ExtensionProviders:
            """Takes registrations of providers."""
            ...

        def activate_tools(self, names: Sequence[str]) -> None:
            """Declare these tools from the next request on."""

        def tools_changed(self, registered: str | None) -> None:
            """Read the tools of the extensions again."""

        @property
        def servers(self) -> ServerStates:
            """Takes the states of MCP servers."""
            ...

        def registered_servers_changed(self) -> None:
            """Publish the MCP servers that extensions have registered."""

        def tool_infos(self) -> list[ToolInfo]:
            """Describe every tool."""
            ...

        def command_infos(self) -> list[CommandInfo]:
            """Describe what `/name` can be."""
            ...

        def settings(self) -> dict[str, object]:
            """Return the merged settings."""
            ...

        def request_shutdown(self) -> None:
            """End the process once it is idle."""

        async def wait_for_idle(self) -> None:
            """Wait until nothing runs and nothing will by itself."""


class Actions:
    """The agent, for the extensions of one session instance."""

    def __init__(self, host: "ActionHost") -> None:
        """Act on the current session."""
        self._host = host
        self._agent = host.agent
        self._session = host.agent.session

    # Messages.

    def send_message(self, draft: CustomDraft, *, deliver_as: DeliverAs | None, triggers_turn: bool | None) -> None:
        """Put a message of the extension into the conversation."""
        self._host.messages.message(draft, deliver_as, triggers_turn=triggers_turn)

    def send_user_message(self, content: Content, *, deliver_as: DeliverAs | None, expands: bool | None) -> None:
        """Send a message as the user."""
        self._host.messages.user_message(content, deliver_as, expands=expands)

    def begin_settling(self) -> None:
        """Keep messages that are sent."""
        self._host.messages.begin_settling()

    def end_settling(self) -> None:
        """Send the messages that were kept."""
        self._host.messages.end_settling()

    # The session.

    def append_entry(self, custom_type: str, data: object) -> str:
        """Append an entry that no model reads, and emit it."""
        entry = self._session.keep_custom(custom_type, data)
        self._agent.emitter.emit({"type": "entry_appended", "entry": entry})
        return str(entry["id"])

    def session_name(self) -> str | None:
        """Return the display name."""
        return self._session.name

    def set_session_name(self, name: str | None) -> None:
        """Name the session."""
        self._agent.settings.rename(None if name is None else clean_name(name))

    def set_label(self, entry_id: str, label: str | None) -> None:
        """Bookmark an entry."""
        if self._session.tree.find(entry_id) is None:
            raise KeyError(entry_id)
        self._session.keep_label(entry_id, label)

    def working_folder(self) -> str:
        """Return where `exec` runs a program that names no folder."""
        return self._session.cwd

    # Tools and commands.

    def active_tools(self) -> list[str]:
        """Return the names that the next request declares."""
        return list(self._agent.toolbox)

    def all_tools(self) -> list[ToolInfo]:
        """Return every tool."""
        return self._host.tool_infos()

    def set_active_tools(self, names: Sequence[str]) -> None:
        """Declare these from the next request on."""
        self._host.activate_tools(names)

    def tools_changed(self, registered: str | None = None) -> None:
        """Read the tools of the extensions again."""
        self._host.tools_changed(registered)

    def mcp_servers_changed(self) -> None:
        """Publish the MCP servers that extensions have registered."""
        self._host.registered_servers_changed()

    def publish_mcp_servers(self, servers: Sequence[Mapping[str, object]]) -> None:
        """Let clients see the state of all MCP servers."""
        self._host.servers.publish(servers)

    def commands(self) -> list[CommandInfo]:
        """Return what `/name` can be."""
        return self._host.command_infos()

    # The model.

    async def set_model(self, model: Model) -> bool:
        """Use another model; False if it can't be used."""
        registry = self._agent.profile.registry
        found = registry.find(model["provider"], model["id"])
        if found is None or not registry.is_usable(found):
            return False
        if (await registry.check_credentials(found)).problem is not None:
            return False
        self._agent.settings.select_model(found, None, "set")
        return True

    def thinking_level(self) -> ThinkingLevel:
        """Return the current level."""
        return self._session.thinking_level

    def set_thinking_level(self, level: ThinkingLevel) -> None:
        """Take a level, or the nearest that the model supports."""
        self._agent.settings.select_level(level)

    def settings(self) -> dict[str, object]:
        """Return the merged settings."""
        return self._host.settings()

    def register_provider(self, extension_path: str, name: str, config: object) -> None:
        """Add or override a provider."""
        if not is_object(config):
            raise ValueError(f"provider {name}: the config must be an object")
        self._host.providers.register(extension_path, name, config)
        self._host.models_changed()

    def unregister_provider(self, name: str) -> None:
        """Remove it, and restore what it had overridden."""
        self._host.providers.unregister(name)
        self._host.models_changed()

    # The run and the process.

    def abort(self) -> None:
        """Abort the run."""
        if not self._agent.idle.is_idle:
            self._agent.submit(Command("abort", NO_REPLY))

    def shutdown(self) -> None:
        """Request the end of the process."""
        self._host.request_shutdown()

    async def compact(self, instructions: str | None) -> Mapping[str, object]:
        """Compact, and return the result."""
        self._check_open()
        request = self._agent.internal_commands.new()
        request.instructions = instructions
        self._agent.submit(Command("compact", request.ref))
        try:
            await request.answered.wait()
        finally:
            if not request.answered.is_set():
                self._agent.submit(Command("abort", NO_REPLY))
        if request.result is None:
            raise RuntimeError(request.problem or errors.COMPACTION_CANCELLED)
        return cast("Mapping[str, object]", frozen(request.result))  # cast: a copy of it

    # Session control.

    async def wait_for_idle(self) -> None:
        """Wait until nothing runs and nothing will by itself."""
        await self._host.wait_for_idle()

    async def new_session(
        self, parent_session: str | None, setup: Setup | None, with_session: WithSession | None
    ) -> SessionResult:
        """Replace the session by a new one."""
        return await self._replace("new_session", EmptySession(parent_session), with_session, setup)

    async def fork(self, entry_id: str, position: ForkPosition, with_session: WithSession | None) -> SessionResult:
        """Replace the session by one that continues from an entry."""
        return await self._replace("fork", ForkSession(entry_id, position), with_session)

    async def switch_session(self, path: str, with_session: WithSession | None) -> SessionResult:
        """Replace the session by the one in a file."""
        return await self._replace("switch_session", SwitchSession(path), with_session)

    async def _replace(
        self, name: str, session: SessionRequest, with_session: WithSession | None, setup: Setup | None = None
    ) -> SessionResult:
        self._check_open()
        host = self._host
        request = self._agent.internal_commands.new()
        request.session = session
        if setup is not None:
            host.setups[request.ref] = setup
        self._agent.submit(Command(name, request.ref))
        await request.answered.wait()
        host.setups.pop(request.ref, None)
        if request.problem is not None:
            raise RuntimeError(request.problem)
        if not request.is_cancelled and with_session is not None and host.runner is not None:
            await host.runner.commands.run_with_session(with_session)
        return SessionResult(request.is_cancelled)

    def _check_open(self) -> None:
        """Refuse new work once the process is ending."""
        if self._agent.is_closing:
            raise RuntimeError(errors.SHUTTING_DOWN)

    async def navigate_tree(self, target_id: str | None, move: TreeMove) -> SessionResult:
        """Go to another entry of this session."""
        self._check_open()
        if not self._agent.idle.is_idle:
            raise RuntimeError("navigate_tree: something runs; wait_for_idle() first")
        request = self._agent.internal_commands.new()
        request.move = MoveRequest(target_id, *move)
        self._agent.submit(Command("navigate_tree", request.ref))
        await request.answered.wait()
        if request.problem is not None:
            raise RuntimeError(f"navigate_tree: {request.problem}")
        return SessionResult(request.is_cancelled or request.result is None or request.result["cancelled"] is True)

    async def reload(self) -> None:
        """Load settings, resources and extensions afresh."""
        self._check_open()
        if not self._agent.idle.is_idle:
            raise RuntimeError("reload: something runs; wait_for_idle() first")
        request = self._agent.internal_commands.new()
        self._agent.submit(Command("reload", request.ref))
        await request.answered.wait()
        if request.problem is not None:
            raise RuntimeError(f"reload: {request.problem}")
