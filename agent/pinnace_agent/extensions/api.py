"""`pi`: what an extension is given to register, and later to act (1.2 and 2.6 of the design; A1 to A28).

Actions are the host's; this checks what is asked for and passes it on, from worker threads too. Must not know sessions,
records or how handlers are called.
"""

import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from pinnace_agent.extensions.api_base import Background, Services
from pinnace_agent.extensions.bus import ExtensionBus
from pinnace_agent.extensions.flags import FlagValue
from pinnace_agent.extensions.given import given_content, given_draft, given_name, given_text_or_none
from pinnace_agent.extensions.host_port import CommandInfo, Content, DeliverAs, ToolInfo
from pinnace_agent.extensions.json_values import json_copy
from pinnace_agent.extensions.loop_thread import usable_from_any_thread
from pinnace_agent.extensions.programs import MAX_BUFFER_BYTES, ExecResult, run_program
from pinnace_agent.extensions.registering import Registering
from pinnace_agent.extensions.registrations import Extension, ExtensionLoadingError
from pinnace_agent.extensions.results import UNSET, Unset
from pinnace_agent.extensions.subscribing import Subscribing
from pinnace_agent.extensions.tool_state import StateT, ToolState, tool_state
from pinnace_agent.shell_environment import keyless_environment
from pinnace_spec.messages import THINKING_LEVELS, Model, ThinkingLevel

_DELIVERIES: Final[Mapping[str, DeliverAs]] = {
    "steer": "steer",
    "followUp": "followUp",
    "follow_up": "followUp",
    "nextTurn": "nextTurn",
    "next_turn": "nextTurn",
}


@usable_from_any_thread(but=("path", "log"))
class ExtensionAPI(Subscribing, Registering):
    """What `extension(pi)` is called with. It may be kept as long as the session instance lives."""

    def __init__(self, extension: Extension, services: Services) -> None:
        """Speak for `extension`."""
        super().__init__(extension, services)
        self.events = ExtensionBus(services.bus, extension, self._check_alive)
        """The bus on which extensions talk to each other (A23)."""

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
        """Where to start tasks that nobody waits for.

        Raises:
            ExtensionLoadingError: The session is not there yet: start tasks in a handler of session_start (R4).
        """
        self._check_alive()
        if self._tasks is None:
            raise ExtensionLoadingError(
                "there are no background tasks while an extension loads; start them in a handler of session_start"
            )
        return self._tasks

    # Flags (A6) and settings (A28).

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

    # Speaking (A11, A12).

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
        """Put a message into the conversation, which models read as the user's. Does not wait (A11).

        Args:
            custom_type: What kind of message it is.
            content: A text, or blocks.
            display: Whether clients should show it.
            details: For the extension itself, never sent to a model.
            deliver_as: While a model answers: `steer`, `follow_up` or `next_turn`.
            trigger_turn: Whether a model is asked if none is being asked.
        """
        draft = given_draft(custom_type, content, display, details)
        delivery = _delivery(deliver_as)
        triggers = trigger_turn if isinstance(trigger_turn, bool) else None
        self._actions.send_message(draft, deliver_as=delivery, triggers_turn=triggers)

    def send_user_message(self, content: Content, *, deliver_as: str | None = None, expand: bool | None = None) -> None:
        """Say something as the user. Does not wait for the answer (A12).

        Args:
            content: A text, or blocks.
            deliver_as: While a model answers: `steer` or `follow_up`; without it, it is refused then.
            expand: Whether commands, skills and templates in it count. By default only one does: an extension's
                command that is queued as `follow_up`, which runs when the agent has settled. False: none does.
        """
        checked, delivery = given_content(content), _delivery(deliver_as)
        self._actions.send_user_message(checked, deliver_as=delivery, expands=expand)

    # The session (A13 to A15).

    def append_entry(self, custom_type: str, data: object = None) -> str:
        """Append an entry that no model reads, and return its id (A13).

        Raises:
            TypeError: The data is no JSON; the text names the place.
        """
        return self._actions.append_entry(given_name("custom_type", custom_type), json_copy(data, "data"))

    @property
    def session_name(self) -> str | None:
        """The session's display name; None: it has none (A14)."""
        return self._actions.session_name()

    @session_name.setter
    def session_name(self, name: str | None) -> None:
        self._actions.set_session_name(name if name is None else given_name("name", name))

    def get_session_name(self) -> str | None:
        """Return the session's display name (A14)."""
        return self.session_name

    def set_session_name(self, name: str | None) -> None:
        """Name the session; None clears its name (A14)."""
        self.session_name = name

    def set_label(self, entry_id: str, label: str | None = None) -> None:
        """Bookmark an entry; None clears its bookmark (A15)."""
        self._actions.set_label(entry_id, given_text_or_none("label", label))

    # Programs (A16).

    async def exec(
        self,
        command: str,
        *arguments: str | Sequence[str],
        cwd: str | os.PathLike[str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  # spelled as authors know it
        max_buffer: int = MAX_BUFFER_BYTES,
        env: Mapping[str, str] | None = None,
    ) -> ExecResult:
        """Run a program, without a shell and with nothing to read, and return what became of it (A16).

        A program that can't be started has the code 1 and the reason in `stderr`. Cancelling ends it with all that it
        has started: SIGTERM, and SIGKILL after five seconds.

        Args:
            command: The program.
            *arguments: Its arguments; one list will do.
            cwd: The folder to run in, by default the session's.
            timeout: Seconds after which it is ended; then `killed` is true.
            max_buffer: How many bytes of each of its outputs are kept.
            env: The whole environment, by default that of the commands of tools: without the keys of providers.
        """
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
            env=(self._services.environment or keyless_environment()) if env is None else env,
        )

    # Tools and commands (A17 to A20).

    def get_active_tools(self) -> list[str]:
        """Return the names of the tools that models may call (A17)."""
        return self._actions.active_tools()

    def get_all_tools(self) -> list[ToolInfo]:
        """Return every tool, active or not (A18)."""
        return self._actions.all_tools()

    def set_active_tools(self, names: Sequence[str]) -> None:
        """Let models call these tools from the next request on; unknown names are passed over (A19)."""
        if isinstance(names, str):
            raise TypeError("set_active_tools takes a list of names, not a text")
        self._actions.set_active_tools(tuple(names))

    def get_commands(self) -> list[CommandInfo]:
        """Return what can be typed behind a slash: extensions' commands, templates, skills (A20)."""
        return self._actions.commands()

    def tool_state(
        self, tool: str, model: type[StateT], default: Callable[[], StateT] | None = None
    ) -> ToolState[StateT]:
        """Return state that follows the branch, kept in the details of a tool's results (2.4)."""
        return tool_state(self, tool, model, default)

    # The model (A21, A22).

    async def set_model(self, model: Model) -> bool:
        """Use another model in this session; False if there are no credentials for it (A21)."""
        return await self._actions.set_model(model)

    def get_thinking_level(self) -> ThinkingLevel:
        """Return the level in force (A22)."""
        return self._actions.thinking_level()

    def set_thinking_level(self, level: ThinkingLevel) -> None:
        """Take a level, or the nearest that the model can do (A22)."""
        if level not in THINKING_LEVELS:
            raise ValueError(f"there is no thinking level {level!r}; there are {', '.join(THINKING_LEVELS)}")
        self._actions.set_thinking_level(level)


def slug(path: str) -> str:
    """Return a name for an extension that can be part of a module's name: from its file, or from its folder."""
    file = Path(path)
    stem = file.parent.name if file.stem in ("extension", "__init__") else file.stem
    return re.sub(r"\W+", "_", stem, flags=re.ASCII).strip("_").lower()[:40] or "extension"


def _delivery(name: str | None) -> DeliverAs | None:
    if name is None:
        return None
    if name not in _DELIVERIES:
        raise ValueError(f"deliver_as is steer, follow_up or next_turn, not {name!r}")
    return _DELIVERIES[name]
