"""The members of `pi`: registrations and actions."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, cast

from pinnace_agent.extensions.ports.host_view import CommandInfo, ToolInfo
from pinnace_agent.node_extensions.bridge import Bridge
from pinnace_agent.node_extensions.errors import RefusedRequest
from pinnace_agent.node_extensions.values import Ask, Now, Values, custom_type

if TYPE_CHECKING:
    from pinnace_agent.extensions.ports.host_view import Content
    from pinnace_spec.records.messages import ThinkingLevel


def _send_message(bridge: Bridge, _number: int | None, values: Values) -> None:
    message, options = values.record(0, "message"), values.record(1, "options")
    bridge.api.send_message(
        custom_type(message),
        cast("Content", message.get("content")),  # casts: the method checks its arguments
        message.get("display") is not False,
        message.get("details"),
        deliver_as=cast("str | None", options.get("deliverAs")),
        **({} if (triggers := options.get("triggerTurn")) is None else {"trigger_turn": triggers is True}),
    )


def _send_user_message(bridge: Bridge, _number: int | None, values: Values) -> None:
    options = values.record(1, "options")
    expands = options.get("expandPromptTemplates")
    bridge.api.send_user_message(
        cast("Content", values.any(0)),  # casts: as above
        deliver_as=cast("str | None", options.get("deliverAs")),
        expand=expands if isinstance(expands, bool) else None,
    )


def _register_provider(bridge: Bridge, _number: int | None, values: Values) -> None:
    name, config = values.text(0, "name"), dict(values.record(1, "config"))
    if isinstance(number := config.get("streamSimple"), int):
        config["streamSimple"] = bridge.stream_simple(number)
    if isinstance(number := config.get("refreshModels"), int):
        config["refreshModels"] = _refresh(bridge, number)
    if (oauth := config.pop("oauth", None)) is not None:
        from pinnace_agent.node_extensions.logins import login_of  # with the first login

        config["oauth"] = login_of(bridge, name, oauth)
    bridge.api.register_provider(name, config)


def _refresh(bridge: Bridge, number: int) -> Callable[[object], Awaitable[object]]:
    async def refresh(context: object) -> object:
        fields = {"apiKey": "api_key", "baseUrl": "base_url", "headers": "headers", "models": "models"}
        return await bridge.kept(number, {wire: getattr(context, own) for wire, own in fields.items()})

    return refresh


def _tool(info: ToolInfo) -> Mapping[str, object]:
    return {
        "name": info.name,
        "description": info.description,
        "parameters": info.parameters,
        "promptGuidelines": list(info.prompt_guidelines),
        "exposure": "direct",
        "annotations": info.annotations,
        "sourceInfo": info.source_info,
    }


def _command_info(info: CommandInfo) -> Mapping[str, object]:
    made = {"name": info.name, "source": info.source, "sourceInfo": info.source_info, "description": info.description}
    return {name: value for name, value in made.items() if value is not None}


def _set_level(bridge: Bridge, _number: int | None, values: Values) -> None:
    bridge.api.set_thinking_level(cast("ThinkingLevel", values.text(0, "level")))  # cast: the method checks it


def _on(bridge: Bridge, _number: int | None, values: Values) -> None:
    bridge.on(values.text(0, "event"), values.number(1, "handler"))


def _flag(bridge: Bridge, _number: int | None, values: Values) -> None:
    kind, default = values.text(1, "type"), values.any(2)
    if kind != "boolean" and kind != "string":  # noqa: PLR1714  # so that a type checker knows it
        raise RefusedRequest(f"registerFlag: type must be boolean or string, not {kind}")
    bridge.api.flag(
        values.text(0, "name"),
        type="boolean" if kind == "boolean" else "string",
        default=default if isinstance(default, bool | str) else None,
        description=values.text_or_none(3, "description"),
    )


def _register_command(bridge: Bridge, _number: int | None, values: Values) -> None:
    bridge.register_command(
        values.text(0, "name"), values.text_or_none(1, "description"), completes=values.flag(2, "completes")
    )


def _register_shortcut(bridge: Bridge, _number: int | None, values: Values) -> None:
    bridge.register_shortcut(values.text(0, "shortcut"), values.text_or_none(1, "description"))


def _register_renderer(bridge: Bridge, _number: int | None, values: Values) -> None:
    bridge.register_renderer(values.text(0, "kind"), values.text(1, "customType"), is_framed=False)


def _set_name(bridge: Bridge, _number: int | None, values: Values) -> None:
    bridge.api.set_session_name(values.text_or_none(0, "name"))


async def _exec(bridge: Bridge, _number: int | None, values: Values) -> object:
    timeout_ms = values.seconds_or_none(3, "timeout")
    done = await bridge.api.exec(
        values.text(0, "command"),
        values.texts(1, "args"),
        cwd=values.text_or_none(2, "cwd"),
        timeout=None if not timeout_ms else timeout_ms / 1000,
    )
    return {"stdout": done.stdout, "stderr": done.stderr, "code": done.code, "killed": done.killed}


NOW: Final[Mapping[str, Now]] = {
    "on": _on,
    "off": lambda bridge, _number, values: bridge.off(values.number(0, "handler")),
    "register_tool": lambda bridge, _number, values: bridge.register_tool(values.record(0, "tool")),
    "register_command": _register_command,
    "register_flag": _flag,
    "register_shortcut": _register_shortcut,
    "get_flag": lambda bridge, _number, values: bridge.api.get_flag(values.text(0, "name")),
    "register_renderer": _register_renderer,
    "render.again": lambda bridge, _number, values: bridge.render_again(values.text(0, "id")),
    "send_message": _send_message,
    "send_user_message": _send_user_message,
    "append_entry": lambda bridge, _number, values: bridge.api.append_entry(
        values.text(0, "customType"), values.any(1)
    ),
    "set_session_name": _set_name,
    "get_session_name": lambda bridge, _number, _values: bridge.api.get_session_name(),
    "set_label": lambda bridge, _number, values: bridge.api.set_label(
        values.text(0, "entryId"), values.text_or_none(1, "label")
    ),
    "get_active_tools": lambda bridge, _number, _values: bridge.api.get_active_tools(),
    "get_all_tools": lambda bridge, _number, _values: [_tool(each) for each in bridge.api.get_all_tools()],
    "set_active_tools": lambda bridge, _number, values: bridge.api.set_active_tools(values.texts(0, "toolNames")),
    "get_commands": lambda bridge, _number, _values: [_command_info(each) for each in bridge.api.get_commands()],
    "get_settings": lambda bridge, _number, _values: bridge.api.get_settings(),
    "get_thinking_level": lambda bridge, _number, _values: bridge.api.get_thinking_level(),
    "set_thinking_level": _set_level,
    "register_provider": _register_provider,
    "unregister_provider": lambda bridge, _number, values: bridge.api.unregister_provider(values.text(0, "name")),
    "register_mcp_server": lambda bridge, _number, values: bridge.api.register_mcp_server(
        values.text(0, "name"), values.record(1, "config")
    ),
    "unregister_mcp_server": lambda bridge, _number, values: bridge.api.unregister_mcp_server(values.text(0, "name")),
    "get_mcp_servers": lambda bridge, _number, _values: bridge.api.get_mcp_servers(),
    "emit": lambda bridge, _number, values: bridge.emit(values.text(0, "channel"), values.any(1)),
}

ASK: Final[Mapping[str, Ask]] = {
    "exec": _exec,
    "set_model": lambda bridge, _number, values: bridge.api.set_model(values.model(0)),
}
