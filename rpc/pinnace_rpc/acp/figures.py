"""Options, commands and usage of one session: read from the agent, and shown when they have changed.

The reads go to the agent in one order, and their answers come in it, so what is shown last is what is the case. Must
not know turns.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, cast

from pinnace_agent.core.json_access import as_amount, as_array, as_object
from pinnace_rpc.acp.core import EditorAgent, Record
from pinnace_rpc.acp.translation.options import ReportedSettings
from pinnace_rpc.acp.translation.shown import (
    Command,
    CommandsChanged,
    Json,
    ModeChanged,
    OptionsChanged,
    Shown,
    Spent,
    UsageChanged,
)
from pinnace_rpc.acp.translation.stop_reasons import refusal

_log: Final = logging.getLogger("pinnace.acp")

_COMPACT: Final = Command("compact", "Summarise the conversation so far", "instructions")


# Of `Spent`, in its order.
_KINDS: Final = ("input", "output", "cacheRead", "cacheWrite")


class _Totals(NamedTuple):
    """What a session has used in all."""

    session: object
    tokens: Spent


class Figures:
    """What a session shows of itself beside its conversation."""

    def __init__(
        self, core: EditorAgent, settings: ReportedSettings, show: Callable[[Shown], None], *, has_switches: bool
    ) -> None:
        """Take what was read at the opening.

        Args:
            core: The agent.
            settings: What it has reported.
            show: Takes what has changed.
            has_switches: Whether the client knows options that are on or off.
        """
        self._core = core
        self._show = show
        self._has_switches = has_switches
        self.settings = settings
        self._models = settings.models
        self._levels = settings.levels
        self.commands: Sequence[Command] | None = None
        self._usage: UsageChanged | None = None
        self._totals: _Totals | None = None
        self._counted: _Totals | None = None
        """What was used before the present turn."""
        self.is_changing = False
        """The client changes an option, and learns of the result by the response."""

    def options(self) -> list[Json]:
        """Return the options, with their current values."""
        return self.settings.options(has_switches=self._has_switches)

    def is_handled(self, text: str) -> bool:
        """Return whether a prompt is a command that an extension carries out."""
        name = text.removeprefix("/").partition(" ")[0] if text.startswith("/") else ""
        return any(each.name == name and each.is_handled for each in self.commands or ())

    async def read(self) -> None:
        """Read commands and usage, for a response that has them.

        Raises:
            CoreEnded: The agent has ended.
        """
        commands, stats = await self._core.ask_all("get_commands", "get_session_stats")
        self.commands = _commands(_data_or(commands, {}))
        self._take_usage(_data_or(stats, {}))

    async def change(self, command: str, fields: Mapping[str, object]) -> None:
        """Have the agent change something, and read its options again.

        Raises:
            RequestError: It refuses.
            CoreEnded: It has ended.
        """
        self.is_changing = True
        try:
            answer = await self._core.ask(command, **fields)
            if answer.get("success") is not True:
                raise refusal(answer)
            answers = await self._core.ask_all("get_state", "get_available_thinking_levels")
            state, levels = (data_of(each) for each in answers)
            self.settings = ReportedSettings(state, self._models, levels_of(levels))
        finally:
            self.is_changing = False

    def refresh(self, then: Callable[[], None]) -> None:
        """Read options, commands and usage again, show the client what has changed, and continue."""
        self.ask("get_available_thinking_levels", self._take_levels)
        self.ask("get_state", self._take_state)
        self.ask("get_commands", self._take_commands)
        self.show_usage(then)

    def refresh_models(self) -> None:
        """Read the models again. A difference is shown with the next state, at the end of the turn."""
        self.ask("get_available_models", self._take_models)

    def show_usage(self, then: Callable[[], None]) -> None:
        """Read the usage again, show it if it has changed, and continue."""

        def take(data: Json) -> None:
            self._take_usage(data)
            then()

        self.ask("get_session_stats", take)

    def take_spent(self) -> Spent | None:
        """Return what was used since the last call, as far as it was read; None: not known, or of another session."""
        former, self._counted = self._counted, self._totals
        if former is None or self._totals is None or former.session != self._totals.session:
            return None
        return Spent(*(now - before for now, before in zip(self._totals.tokens, former.tokens, strict=True)))

    def ask(self, command: str, then: Callable[[Json], None]) -> None:
        """Read something; what the agent refuses to say counts as nothing."""

        def take(answer: Record) -> None:
            if answer.get("success") is not True:
                _log.warning("%s: %s", command, answer.get("error"))
            then(_data_or(answer, {}))

        self._core.send(command, {}, take)

    def _take_levels(self, data: Json) -> None:
        # They are those of the model, which an extension may have changed. Shown with the state, which follows.
        self._levels = levels_of(data)

    def _take_state(self, state: Json) -> None:
        if not state:
            return
        former, options = self.settings, self.options()
        self.settings = ReportedSettings(state, self._models, self._levels)
        if self.options() != options:
            self._show(OptionsChanged(self.options()))
        if self.settings.mode != former.mode:
            self._show(ModeChanged(self.settings.mode))

    def _take_models(self, data: Json) -> None:
        self._models = cast("Sequence[Json]", as_array(data.get("models")))

    def _take_commands(self, data: Json) -> None:
        commands = _commands(data)
        if commands != self.commands:
            self.commands = commands
            self._show(CommandsChanged(commands))

    def _take_usage(self, data: Json) -> None:
        tokens = as_object((as_object(data.get("session")) or {}).get("tokens")) or {}
        counts = [tokens.get(name) for name in _KINDS]
        whole = [count for count in counts if isinstance(count, int)]
        self._totals = _Totals(data.get("sessionId"), Spent(*whole)) if len(whole) == len(counts) else None
        self._counted = self._counted or self._totals  # read first when the session is opened, before any prompt
        usage = as_object(data.get("contextUsage")) or {}
        used, size = usage.get("tokens"), usage.get("contextWindow")
        if isinstance(used, int) and isinstance(size, int):
            shown = UsageChanged(used, size, as_amount(data.get("cost")))
            if shown != self._usage:
                self._usage = shown
                self._show(shown)


async def read_settings(core: EditorAgent) -> ReportedSettings:
    """Read the settings of an agent.

    Raises:
        CoreEnded: It has ended.
        RequestError: It refuses.
    """
    reads = ("get_state", "get_available_models", "get_available_thinking_levels")
    state, models, levels = (data_of(answer) for answer in await core.ask_all(*reads))
    return ReportedSettings(state, cast("Sequence[Json]", models["models"]), levels_of(levels))


def data_of(answer: Record, default: Json | None = None) -> Json:
    """Return the data of an answer, or what counts as data if it has none.

    Raises:
        RequestError: It is a refusal.
    """
    if answer.get("success") is not True:
        raise refusal(answer)
    return cast("Json", answer["data"] if default is None else answer.get("data", default))


def levels_of(data: Json) -> Sequence[str]:
    """Return the thinking levels that an answer has."""
    return [str(level) for level in as_array(data.get("levels"))]


def _data_or(answer: Record, default: Json) -> Json:
    return cast("Json", answer["data"]) if answer.get("success") is True else default


def _commands(data: Json) -> list[Command]:
    records = [as_object(each) or {} for each in as_array(data.get("commands"))]
    commands = [_command(each) for each in records if each.get("name")]
    return commands if any(each.name == _COMPACT.name for each in commands) else [*commands, _COMPACT]


def _command(record: Json) -> Command:
    name, hint = str(record["name"]), record.get("argumentHint")
    is_handled = record.get("source") == "extension"
    return Command(name, str(record.get("description") or name), hint if isinstance(hint, str) else "", is_handled)
