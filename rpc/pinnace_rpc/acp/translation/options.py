"""The settings of a session that a client can show and change: model, thinking level, approval of tools, and switches.

Made from what the agent reports, and mapped to the command that changes each. A response has the whole list, since one
change may have another option as its consequence.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from pinnace_agent.core.json_access import as_array, as_object
from pinnace_rpc.acp.translation.params import Params
from pinnace_rpc.acp.translation.tool_calls import Json

MODES: Final[Mapping[str, tuple[str, str]]] = {
    "never": ("Don't ask", "Tools run without a question."),
    "ask": ("Ask", "Each call of a tool that can change something is asked for."),
    "read-only": ("Read only", "Tools that can change something are refused."),
}
DEFAULT_MODE: Final = "never"
_MOST_NAMED: Final = 50
_SWITCHES: Final = {
    "auto_compaction": ("Compact automatically", "autoCompactionEnabled", "set_auto_compaction"),
    "auto_retry": ("Retry automatically", "autoRetryEnabled", "set_auto_retry"),
}


class Change(NamedTuple):
    """A command that changes an option."""

    command: str
    fields: Mapping[str, object]


class Settings(NamedTuple):
    """What the agent has reported."""

    state: Json
    """The data of `get_state`."""
    models: Sequence[Json]
    levels: Sequence[str]

    @property
    def mode(self) -> str:
        """How calls of tools are approved."""
        mode = self.state.get("toolApproval")
        return mode if isinstance(mode, str) and mode in MODES else DEFAULT_MODE

    def modes(self) -> Json:
        """Return the same as `mode`, for clients that know no options."""
        available = [{"id": name, "name": title, "description": text} for name, (title, text) in MODES.items()]
        return {"currentModeId": self.mode, "availableModes": available}

    def options(self, *, has_switches: bool) -> list[Json]:
        """Return the options.

        Args:
            has_switches: Whether the client knows options that are on or off.
        """
        return [*self._selects(), *(self._switches() if has_switches else ())]

    def change(self, params: Params, *, has_switches: bool) -> Change:
        """Return the command for a request to set an option.

        Raises:
            InvalidParams: There is no such option or value.
        """
        name = params.text("configId")
        option = next((each for each in self.options(has_switches=has_switches) if each["id"] == name), None)
        if option is None:
            known = ", ".join(str(each["id"]) for each in self.options(has_switches=has_switches))
            raise params.invalid("configId", f"must be one of {known}")
        if name in _SWITCHES:
            value = params.fields.get("value")
            if not isinstance(value, bool):
                raise params.invalid("value", "must be true or false")
            return Change(_SWITCHES[name][2], {"enabled": value})
        chosen = params.text("value")
        values = [str((as_object(each) or {}).get("value")) for each in as_array(option["options"])]
        if chosen not in values:
            raise params.invalid("value", f"must be one of {', '.join(values[:_MOST_NAMED])}")
        return _change(name, chosen)

    def _selects(self) -> Iterator[Json]:
        model = as_object(self.state.get("model"))
        if model is not None:
            models = list(self.models)
            if all(_reference(each) != _reference(model) for each in models):
                models.insert(0, model)
            options = [{"value": _reference(each), "name": str(each.get("name") or each["id"])} for each in models]
            yield _select("model", "Model", "model", _reference(model), options)
        if len(self.levels) > 1:
            options = [{"value": level, "name": level} for level in self.levels]
            level = str(self.state.get("thinkingLevel", "off"))
            yield _select("thought_level", "Thinking", "thought_level", level, options)
        modes = [{"value": name, "name": title, "description": text} for name, (title, text) in MODES.items()]
        yield _select("mode", "Approval of tools", "mode", self.mode, modes)

    def _switches(self) -> Iterator[Json]:
        for name, (title, field, _) in _SWITCHES.items():
            if isinstance(value := self.state.get(field), bool):
                yield {"id": name, "name": title, "type": "boolean", "currentValue": value}


def mode_change(params: Params) -> Change:
    """Return the command for a request to set the mode.

    Raises:
        InvalidParams: There is no such mode.
    """
    mode = params.text("modeId")
    if mode not in MODES:
        raise params.invalid("modeId", f"must be one of {', '.join(MODES)}")
    return Change("set_tool_approval", {"mode": mode})


def _change(name: str, value: str) -> Change:
    match name:
        case "model":
            provider, _, model = value.partition("/")
            return Change("set_model", {"provider": provider, "modelId": model})
        case "thought_level":
            return Change("set_thinking_level", {"level": value})
        case _:
            return Change("set_tool_approval", {"mode": value})


def _select(name: str, title: str, category: str, value: str, options: Sequence[Json]) -> Json:
    return {
        "id": name,
        "name": title,
        "category": category,
        "type": "select",
        "currentValue": value,
        "options": list(options),
    }


def _reference(model: Json) -> str:
    return f"{model.get('provider')}/{model.get('id')}"
