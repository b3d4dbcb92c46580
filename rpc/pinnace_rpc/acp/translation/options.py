"""The settings of a session that a client can show and change: model, thinking level, approval of tools, and switches.

Made from what the agent reports, and mapped to the command that changes each. A response has the whole list, since one
change may have another option as its consequence.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from pinnace_agent.core.json_access import as_array, as_object
from pinnace_rpc.acp.translation.params import Params
from pinnace_rpc.acp.translation.shown import Json

if TYPE_CHECKING:  # for annotations alone
    from pinnace_spec.records.messages import Model

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


_OF_ADAPTER: Final = frozenset({"--mode", "--protocol", "--add-dir"})
"""Options that the adapter sets itself, and those that it hands over with each session."""


class _Chosen(NamedTuple):
    """The model that a command line names."""

    model: Mapping[str, object] | None
    """None: the current one."""
    level: str | None


class Change(NamedTuple):
    """A command that changes an option."""

    command: str
    fields: Mapping[str, object]


class EditorOptions(NamedTuple):
    """What the command line of an editor wants of the agents of its sessions, as far as a running one can take it."""

    provider: str | None
    model: str | None
    thinking: str | None
    approval: str
    directories: Sequence[str]
    """Additional folders, perhaps relative to the folder of the session."""


class Adoption(NamedTuple):
    """How a running agent that was started with other options becomes what an editor wants."""

    changes: Sequence[tuple[str, Change]]
    """What is to be done, each with the option that it is for."""
    kept: Sequence[str]
    """The options that stay as they are."""
    is_guarded: bool
    """Whether the approval of tools is one of them, since the agent asks more than the editor wants."""


class ReportedSettings(NamedTuple):
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

    def adoption(self, wanted: EditorOptions, others: Sequence[str]) -> Adoption:
        """Return what makes a running agent what an editor wants. Its guard may become stricter and never weaker.

        Args:
            wanted: What the editor wants.
            others: The options in which its command line differs from that of the agent.
        """
        changes: list[tuple[str, Change]] = []
        left = dict.fromkeys(name for name in others if name not in _OF_ADAPTER)
        guards = list(MODES)
        is_guarded = False
        if "--tool-approval" in left:
            if guards.index(wanted.approval) >= guards.index(self.mode):
                del left["--tool-approval"]
                if wanted.approval != self.mode:
                    changes.append(("--tool-approval", Change("set_tool_approval", {"mode": wanted.approval})))
            else:
                is_guarded = True
        level = wanted.thinking if "--thinking" in left else None
        if "--model" in left or "--provider" in left:
            if wanted.model is None and wanted.provider is None:
                chosen: _Chosen | None = _Chosen(None, None)
            else:
                chosen = self._chosen(wanted.provider, wanted.model)
            if chosen is not None:
                for name in ("--model", "--provider"):
                    left.pop(name, None)
                level = level or chosen.level
                if chosen.model is not None:
                    fields = {"provider": chosen.model["provider"], "modelId": chosen.model["id"]}
                    changes.append(("--model", Change("set_model", fields)))
        if "--thinking" in left and (wanted.thinking is None or level == wanted.thinking):
            del left["--thinking"]
        if level is not None:
            changes.append(("--thinking", Change("set_thinking_level", {"level": level})))
        return Adoption(changes, list(left), is_guarded)

    def _chosen(self, provider: str | None, model: str | None) -> "_Chosen | None":
        """Return the model that a command line names, if it is not current, and its level; None: there is none."""
        from pinnace_agent.config.models.patterns import find  # with the first agent that has other options

        current = as_object(self.state.get("model")) or {}
        if model is None:  # the provider's default is known to a start alone
            return _Chosen(None, None) if current.get("provider") == provider else None
        known = [each for each in self.models if provider in (None, each.get("provider"))]
        match = find(model, cast("Sequence[Model]", known))
        if match is None:
            return None
        names = [_reference(each) for each in match.models]
        found = None if _reference(current) in names else match.models[0]
        return _Chosen(found, match.level)

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
