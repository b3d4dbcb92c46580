"""`pi`: the object that an extension receives to register with, and to act through while a session is open.

Checks arguments and passes requests on to `HostActions`; callable from worker threads. Has no access to sessions or
records.
"""

import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pinnace_agent.config.credentials.known_keys import keyless_environment
from pinnace_agent.core.json_values import json_copy
from pinnace_agent.core.loop_thread import usable_from_any_thread
from pinnace_agent.core.trace_context import TRACE_VARIABLES
from pinnace_agent.extensions.api.base import Background, Services
from pinnace_agent.extensions.api.registering import Registering
from pinnace_agent.extensions.api.subscribing import Subscribing
from pinnace_agent.extensions.api.tool_state import StateT, ToolState, tool_state
from pinnace_agent.extensions.events.results import UNSET, Unset
from pinnace_agent.extensions.ports.arguments import given_content, given_draft, given_name, given_text_or_none
from pinnace_agent.extensions.ports.host_view import CommandInfo, Content, DeliverAs, ToolInfo
from pinnace_agent.extensions.registration.flags import FlagValue
from pinnace_agent.extensions.registration.registrations import Extension, ExtensionLoadingError
from pinnace_agent.extensions.services.bus import ExtensionBus
from pinnace_spec.records.messages import THINKING_LEVELS, Model, ThinkingLevel
from pinnace_spec.rules.limits import MAX_BUFFER_BYTES

if TYPE_CHECKING:
    from pinnace_agent.extensions.services.programs import ExecResult

_DELIVERIES: Final[Mapping[str, DeliverAs]] = {
    "steer": "steer",
    "followUp": "followUp",
    "follow_up": "followUp",
    "nextTurn": "nextTurn",
    "next_turn": "nextTurn",
}


@usable_from_any_thread(but=("path", "log"))
class ExtensionAPI(Subscribing, Registering):
    """The argument of `extension(pi)`. It may be kept until the session instance ends."""

    def __init__(self, extension: Extension, services: Services) -> None:
        """Create the API of `extension`."""
        super().__init__(extension, services)
        self.events = ExtensionBus(services.bus, extension, self._check_alive)
        """The bus on which extensions talk to each other."""

    @property
    def path(self) -> Path:
        """The file of this extension."""
        return Path(self._extension.path)

    @property
    def log(self) -> logging.Logger:
        """A logger by the name of this extension; it writes to the program's log, never to the protocol."""
        return logging.getLogger(f"pinnace.extension.{slug(self._extension.path)}")

    @property
    def background(self) -> Background:
        """Starts background tasks.

        Raises:
            ExtensionLoadingError: There is no session yet: start tasks in a handler of session_start.
        """
        self._check_alive()
        if self._tasks is None:
            raise ExtensionLoadingError(
                "there are no background tasks while an extension loads; start them in a handler of session_start"
            )
        return self._tasks

    # Flags and settings.

    def get_flag(self, name: str) -> FlagValue | None:
        """Return the value of a flag that this extension registered, else None; only the default while it loads."""
        self._check_alive()
        bare = name.removeprefix("--")
        flag = self._extension.flags.get(bare)
        if flag is None or self._bound is None:
            return None if flag is None else flag.default
        return self._services.flags.value(bare, self._services.extensions())

    def get_settings(self) -> dict[str, object]:
        """Return the merged settings, as a copy."""
        return self._actions.settings()

    # Messages.

    def send_message(
        self,
        custom_type: str,
        content: Content,
        display: bool = True,
        details: object = None,
        *,
        deliver_as: str | None = None,
        trigger_turn: bool | Unset = UNSET,
    ) -> None:
        """Add a message to the conversation, which models read as the user's. Does not wait.

        Args:
            custom_type: What kind of message it is.
            content: A string, or content blocks.
            display: Whether clients should show it.
            details: Data of the extension, never sent to a model.
            deliver_as: How to queue it during a run: `steer`, `follow_up` or `next_turn`.
            trigger_turn: Whether it starts a run if none is open.
        """
        draft = given_draft(custom_type, content, display, details)
        delivery = _delivery(deliver_as)
        triggers = trigger_turn if isinstance(trigger_turn, bool) else None
        self._actions.send_message(draft, deliver_as=delivery, triggers_turn=triggers)

    def send_user_message(self, content: Content, *, deliver_as: str | None = None, expand: bool | None = None) -> None:
        """Send a user message. Does not wait for the run.

        Args:
            content: A string, or content blocks.
            deliver_as: How to queue it during a run: `steer` or `follow_up`; None: it is rejected during a run.
            expand: Whether commands, skills and templates in it are expanded. By default only an extension's
                command that is queued as `follow_up` is: it runs when the agent has settled. False: nothing is.
        """
        checked, delivery = given_content(content), _delivery(deliver_as)
        self._actions.send_user_message(checked, deliver_as=delivery, expands=expand)

    # The session.

    def append_entry(self, custom_type: str, data: object = None) -> str:
        """Append an entry that no model reads, and return its id.

        Raises:
            TypeError: The data is not JSON; the text names the place.
        """
        return self._actions.append_entry(given_name("custom_type", custom_type), json_copy(data, "data"))

    @property
    def session_name(self) -> str | None:
        """The session's display name; None: it has none."""
        return self._actions.session_name()

    @session_name.setter
    def session_name(self, name: str | None) -> None:
        self._actions.set_session_name(name if name is None else given_name("name", name))

    def get_session_name(self) -> str | None:
        """Return the session's display name."""
        return self.session_name

    def set_session_name(self, name: str | None) -> None:
        """Name the session; None clears its name."""
        self.session_name = name

    def set_label(self, entry_id: str, label: str | None = None) -> None:
        """Bookmark an entry; None clears its bookmark."""
        self._actions.set_label(entry_id, given_text_or_none("label", label))

    # Programs.

    async def exec(
        self,
        command: str,
        *arguments: str | Sequence[str],
        cwd: str | os.PathLike[str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  # the name of the public protocol
        max_buffer: int = MAX_BUFFER_BYTES,
        env: Mapping[str, str] | None = None,
    ) -> "ExecResult":
        """Run a program without a shell, with empty standard input, and return its output and exit code.

        If the program can't be started, the code is 1 and `stderr` holds the reason. Cancelling ends its process group:
        SIGTERM, and SIGKILL after five seconds.

        Args:
            command: The program.
            *arguments: Its arguments; a single list is accepted.
            cwd: The working folder, by default the session's.
            timeout: Seconds after which it is killed; then `killed` is true.
            max_buffer: How many bytes of each output are kept.
            env: The complete environment, by default that of tool commands: without the keys of providers, and in a
                call of a tool with the trace that the call belongs to.
        """
        from pinnace_agent.extensions.services.programs import run_program  # with the first program

        self._check_alive()
        words = [command]
        for each in arguments:
            words.extend([each] if isinstance(each, str) else each)
        folder = self._services.cwd if self._bound is None else self._bound.working_folder()
        return await run_program(
            words,
            cwd=os.path.join(folder, os.fspath(cwd) if cwd is not None else ""),
            timeout_s=timeout,
            max_buffer=max_buffer,
            env={**(self._services.environment or keyless_environment()), **TRACE_VARIABLES.get()}
            if env is None
            else env,
        )

    # Tools and commands.

    def get_active_tools(self) -> list[str]:
        """Return the names of the tools that models may call."""
        return self._actions.active_tools()

    def get_all_tools(self) -> list[ToolInfo]:
        """Return all tools, active or not."""
        return self._actions.all_tools()

    def set_active_tools(self, names: Sequence[str]) -> None:
        """Make these the tools of the next request and later ones; unknown names are ignored."""
        if isinstance(names, str):
            raise TypeError("set_active_tools takes a list of names, not a string")
        self._actions.set_active_tools(tuple(names))

    def get_commands(self) -> list[CommandInfo]:
        """Return the slash commands: of extensions, templates and skills."""
        return self._actions.commands()

    def tool_state(
        self, tool: str, model: type[StateT], default: Callable[[], StateT] | None = None
    ) -> ToolState[StateT]:
        """Return state that follows the branch, stored in the details of a tool's results."""
        return tool_state(self, tool, model, default)

    # The model.

    async def set_model(self, model: Model) -> bool:
        """Select another model for this session; False if it has no credentials."""
        return await self._actions.set_model(model)

    def get_thinking_level(self) -> ThinkingLevel:
        """Return the current thinking level."""
        return self._actions.thinking_level()

    def set_thinking_level(self, level: ThinkingLevel) -> None:
        """Set the thinking level, or the nearest that the model supports."""
        if level not in THINKING_LEVELS:
            raise ValueError(f"there is no thinking level {level!r}; there are {', '.join(THINKING_LEVELS)}")
        self._actions.set_thinking_level(level)


def slug(path: str) -> str:
    """Return a name for an extension that is valid in a module's name, made from its file or folder."""
    file = Path(path)
    stem = file.parent.name if file.stem in ("extension", "__init__") else file.stem
    return re.sub(r"\W+", "_", stem, flags=re.ASCII).strip("_").lower()[:40] or "extension"


def _delivery(name: str | None) -> DeliverAs | None:
    if name is None:
        return None
    if name not in _DELIVERIES:
        raise ValueError(f"deliver_as is steer, follow_up or next_turn, not {name!r}")
    return _DELIVERIES[name]
