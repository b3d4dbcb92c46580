"""What extensions may ask of the agent: `HostActions`, over the host.

Everything that works on the run or replaces the session passes the chart as a command from inside, so it stands in line
with what clients have sent. Belongs to one session instance. A11 to A28, C11, C13, C15, K1 to K6.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from pinnace_agent.extension_host.tree_moves import navigate
from pinnace_agent.extensions.frozen import frozen
from pinnace_agent.extensions.host_view import (
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
from pinnace_agent.extensions.result_shapes import is_object
from pinnace_agent.session.replacement import ForkSession, NewSession, SessionRequest, SwitchSession
from pinnace_agent.session.tree import clean_name
from pinnace_spec import errors
from pinnace_spec.messages import Model, ThinkingLevel
from pinnace_statechart.triggers import NOBODY, Command

if TYPE_CHECKING:
    from pinnace_agent.extension_host.seat import ExtensionSeat


class Actions:
    """The agent, for the extensions of one session instance."""

    def __init__(self, seat: "ExtensionSeat") -> None:
        """Act on the session that is in force now."""
        self._seat = seat
        self._host = seat.host
        self._session = seat.host.session

    # Speaking.

    def send_message(self, draft: CustomDraft, *, deliver_as: DeliverAs | None, triggers_turn: bool | None) -> None:
        """Put a message of the extension into the conversation (A11)."""
        self._seat.speech.message(draft, deliver_as, triggers_turn=triggers_turn)

    def send_user_message(self, content: Content, *, deliver_as: DeliverAs | None, expands: bool | None) -> None:
        """Say something as the user (A12)."""
        self._seat.speech.user_message(content, deliver_as, expands=expands)

    def begin_settling(self) -> None:
        """Keep what is asked to be sent."""
        self._seat.speech.begin_settling()

    def end_settling(self) -> None:
        """Send what was kept."""
        self._seat.speech.end_settling()

    # The session.

    def append_entry(self, custom_type: str, data: object) -> str:
        """Append an entry that no model reads and tell it (A13)."""
        entry = self._session.keep_custom(custom_type, data)
        self._host.emitter.emit({"type": "entry_appended", "entry": entry})
        return str(entry["id"])

    def session_name(self) -> str | None:
        """Return the display name (A14)."""
        return self._session.name

    def set_session_name(self, name: str | None) -> None:
        """Name the session (A14)."""
        self._host.choices.rename(None if name is None else clean_name(name))

    def set_label(self, entry_id: str, label: str | None) -> None:
        """Bookmark an entry (A15)."""
        if self._session.tree.find(entry_id) is None:
            raise KeyError(entry_id)
        self._session.keep_label(entry_id, label)

    def working_folder(self) -> str:
        """Return where `exec` runs a program that names no folder (A16)."""
        return self._session.cwd

    # Tools and commands.

    def active_tools(self) -> list[str]:
        """Return the names that the next request declares (A17)."""
        return list(self._host.toolbox)

    def all_tools(self) -> list[ToolInfo]:
        """Return every tool (A18)."""
        return self._seat.tool_infos()

    def set_active_tools(self, names: Sequence[str]) -> None:
        """Declare these from the next request on (A19)."""
        self._host.toolbox.activate(names)

    def tools_changed(self, registered: str | None = None) -> None:
        """Read the tools of the extensions again."""
        self._seat.tools_changed(registered)

    def commands(self) -> list[CommandInfo]:
        """Return what `/name` can be (A20)."""
        return self._seat.command_infos()

    # The model.

    async def set_model(self, model: Model) -> bool:
        """Use another model; False if it can't be asked (A21)."""
        registry = self._host.profile.registry
        found = registry.find(model["provider"], model["id"])
        if found is None or not registry.is_usable(found):
            return False
        if (await registry.check_credentials(found)).problem is not None:
            return False
        self._host.choices.select_model(found, None, "set")
        return True

    def thinking_level(self) -> ThinkingLevel:
        """Return the level in force (A22)."""
        return self._session.thinking_level

    def set_thinking_level(self, level: ThinkingLevel) -> None:
        """Take a level, or the nearest that the model can do (A22)."""
        self._host.choices.select_level(level)

    def settings(self) -> dict[str, object]:
        """Return the merged settings (A28)."""
        return self._seat.settings()

    def register_provider(self, extension_path: str, name: str, config: object) -> None:
        """Add or override a provider (A24)."""
        if not is_object(config):
            raise ValueError(f"provider {name}: the config must be an object")
        self._seat.providers.register(extension_path, name, config)
        self._seat.models_changed()

    def unregister_provider(self, name: str) -> None:
        """Take it away, and give back what it had overridden (A25)."""
        self._seat.providers.unregister(name)
        self._seat.models_changed()

    # The run and the process.

    def abort(self) -> None:
        """Ask for the end of the run (C11)."""
        if not self._host.idleness.is_idle:
            self._host.submit(Command("abort", NOBODY))

    def shutdown(self) -> None:
        """Ask for the end of the process (C13)."""
        self._seat.ask_for_shutdown()

    async def compact(self, instructions: str | None) -> Mapping[str, object]:
        """Compact, and return the result (C15)."""
        self._check_open()
        request = self._host.requests.new()
        request.instructions = instructions
        self._host.submit(Command("compact", request.ref))
        try:
            await request.answered.wait()
        finally:
            if not request.answered.is_set():
                self._host.submit(Command("abort", NOBODY))
        if request.result is None:
            raise RuntimeError(request.problem or errors.COMPACTION_CANCELLED)
        return cast("Mapping[str, object]", frozen(request.result))  # cast: a copy of it

    # Session control.

    async def wait_for_idle(self) -> None:
        """Wait until nothing runs and nothing will by itself (K1)."""
        await self._seat.wait_for_idle()

    async def new_session(
        self, parent_session: str | None, setup: Setup | None, with_session: WithSession | None
    ) -> SessionResult:
        """Replace the session by a new one (K2)."""
        return await self._replace("new_session", NewSession(parent_session), with_session, setup)

    async def fork(self, entry_id: str, position: ForkPosition, with_session: WithSession | None) -> SessionResult:
        """Replace the session by one that goes on from an entry (K3)."""
        return await self._replace("fork", ForkSession(entry_id, position), with_session)

    async def switch_session(self, path: str, with_session: WithSession | None) -> SessionResult:
        """Replace the session by the one in a file (K5)."""
        return await self._replace("switch_session", SwitchSession(path), with_session)

    async def _replace(
        self, name: str, session: SessionRequest, with_session: WithSession | None, setup: Setup | None = None
    ) -> SessionResult:
        self._check_open()
        seat = self._seat
        request = self._host.requests.new()
        request.session = session
        if setup is not None:
            seat.setups[request.ref] = setup
        self._host.submit(Command(name, request.ref))
        await request.answered.wait()
        seat.setups.pop(request.ref, None)
        if request.problem is not None:
            raise RuntimeError(request.problem)
        if not request.is_cancelled and with_session is not None and seat.runner is not None:
            await seat.runner.commands.run_with_session(with_session)
        return SessionResult(request.is_cancelled)

    def _check_open(self) -> None:
        """Refuse new work once the process is ending."""
        if self._host.is_closing:
            raise RuntimeError(errors.SHUTTING_DOWN)

    async def navigate_tree(self, target_id: str, move: TreeMove) -> SessionResult:
        """Go to another entry of this session (K4)."""
        return await navigate(self._seat, self._session, target_id, move)

    async def reload(self) -> None:
        """Load settings, resources and extensions afresh (K6)."""
        await self._seat.reload()
