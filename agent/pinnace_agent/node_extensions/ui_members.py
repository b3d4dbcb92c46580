"""The members of `ctx.ui`, and the dialogs of a login."""

from collections.abc import Mapping
from typing import Final

import trio

from pinnace_agent.node_extensions.bridge import Bridge
from pinnace_agent.node_extensions.values import Ask, Now, Values

_MOST_FILES: Final = 20


async def _select(bridge: Bridge, number: int | None, values: Values) -> object:
    ui, timeout_s = bridge.context(number).ui, values.seconds_or_none(2, "timeout")
    return await ui.select(values.text(0, "title"), values.texts(1, "options"), timeout_s)


async def _confirm(bridge: Bridge, number: int | None, values: Values) -> object:
    ui, timeout_s = bridge.context(number).ui, values.seconds_or_none(2, "timeout")
    return await ui.confirm(values.text(0, "title"), values.text(1, "message"), timeout_s)


async def _input(bridge: Bridge, number: int | None, values: Values) -> object:
    ui, timeout_s = bridge.context(number).ui, values.seconds_or_none(2, "timeout")
    return await ui.input(values.text(0, "title"), values.text_or_none(1, "placeholder"), timeout_s)


async def _editor(bridge: Bridge, number: int | None, values: Values) -> object:
    ui = bridge.context(number).ui
    return await ui.editor(values.text(0, "title"), values.text_or_none(1, "prefill"))


def _notify(bridge: Bridge, number: int | None, values: Values) -> None:
    bridge.context(number).ui.notify(values.text(0, "message"), values.text_or_none(1, "type"))


def _status(bridge: Bridge, number: int | None, values: Values) -> None:
    bridge.context(number).ui.set_status(values.text(0, "key"), values.text_or_none(1, "text"))


def _widget(bridge: Bridge, number: int | None, values: Values) -> None:
    lines = None if values.any(1) is None else values.texts(1, "content")
    bridge.context(number).ui.set_widget(values.text(0, "key"), lines, values.text_or_none(2, "placement"))


def _title(bridge: Bridge, number: int | None, values: Values) -> None:
    bridge.context(number).ui.set_title(values.text(0, "title"))


def _editor_text(bridge: Bridge, number: int | None, values: Values) -> None:
    bridge.context(number).ui.set_editor_text(values.text(0, "text"))


def _paste(bridge: Bridge, number: int | None, values: Values) -> None:
    bridge.context(number).ui.paste_to_editor(values.text(0, "text"))


def _set_theme(bridge: Bridge, number: int | None, values: Values) -> object:
    return bridge.context(number).ui.set_theme(values.text(0, "theme"))._asdict()


async def _files(bridge: Bridge, number: int | None, values: Values) -> object:
    """Return the files of the folder that fit what is written after `@`, as completions."""
    from pinnace_agent.search.project_files import fitting, project_files  # with the first completion of a file

    folder, prefix = str(bridge.context(number).cwd), values.text(0, "prefix")
    files = await trio.to_thread.run_sync(project_files, folder, abandon_on_cancel=True)
    return [{"value": f"@{path}", "label": path} for path in fitting(prefix, files, _MOST_FILES)]


def _keys(bridge: Bridge, number: int | None, values: Values) -> None:
    if values.flag(0, "listens"):
        bridge.listen_to_input(number)
    else:
        bridge.stop_listening()


def _working_message(bridge: Bridge, number: int | None, values: Values) -> None:
    bridge.context(number).ui.set_working_message(values.text_or_none(0, "message"))


def _working_visible(bridge: Bridge, number: int | None, values: Values) -> None:
    bridge.context(number).ui.set_working_visible(values.flag(0, "visible"))


def _working_indicator(bridge: Bridge, number: int | None, values: Values) -> None:
    bridge.context(number).ui.set_working_indicator(values.record(0, "options"))


def _thinking_label(bridge: Bridge, number: int | None, values: Values) -> None:
    bridge.context(number).ui.set_hidden_thinking_label(values.text_or_none(0, "label"))


def _tools_expanded(bridge: Bridge, number: int | None, values: Values) -> None:
    bridge.context(number).ui.set_tools_expanded(values.flag(0, "expanded"))


def _auth(bridge: Bridge, number: int | None, values: Values) -> None:
    bridge.login(number).on_auth(values.text(0, "url"), values.text_or_none(1, "instructions"))


def _device(bridge: Bridge, number: int | None, values: Values) -> None:
    code, uri = values.text(0, "userCode"), values.text(1, "verificationUri")
    bridge.login(number).on_device_code(code, uri, values.seconds_or_none(2, "expiresInSeconds"))


async def _prompt(bridge: Bridge, number: int | None, values: Values) -> object:
    message, placeholder = values.text(0, "message"), values.text_or_none(1, "placeholder")
    return await bridge.login(number).on_prompt(message, placeholder, allow_empty=values.flag(2, "allowEmpty"))


async def _choose(bridge: Bridge, number: int | None, values: Values) -> object:
    options = {str(each.get("id")): str(each.get("label")) for each in values.records(1, "options")}
    return await bridge.login(number).on_select(values.text(0, "message"), options)


async def _code(bridge: Bridge, number: int | None, _values: Values) -> object:
    return await bridge.login(number).on_manual_code_input()


NOW: Final[Mapping[str, Now]] = {
    "ui.statuses": lambda bridge, number, _values: bridge.context(number).ui.statuses,
    "ui.notify": _notify,
    "ui.setStatus": _status,
    "ui.setWidget": _widget,
    "ui.setTitle": _title,
    "ui.setEditorText": _editor_text,
    "ui.setTheme": _set_theme,
    "ui.setWorkingMessage": _working_message,
    "ui.setWorkingVisible": _working_visible,
    "ui.setWorkingIndicator": _working_indicator,
    "ui.setHiddenThinkingLabel": _thinking_label,
    "ui.setToolsExpanded": _tools_expanded,
    "ui.toolsExpanded": lambda bridge, number, _values: bridge.context(number).ui.get_tools_expanded(),
    "ui.keys": _keys,
    "ui.completes": lambda bridge, number, _values: bridge.complete_texts(number),
    "ui.themes": lambda bridge, number, _values: bridge.context(number).ui.get_all_themes(),
    "ui.getEditorText": lambda bridge, number, _values: bridge.context(number).ui.get_editor_text(),
    "ui.pasteToEditor": _paste,
    "login.auth": _auth,
    "login.device": _device,
    "login.progress": lambda bridge, number, values: bridge.login(number).on_progress(values.text(0, "message")),
}

ASK: Final[Mapping[str, Ask]] = {
    "ui.select": _select,
    "ui.confirm": _confirm,
    "ui.input": _input,
    "ui.editor": _editor,
    "ui.files": _files,
    "login.prompt": _prompt,
    "login.select": _choose,
    "login.code": _code,
}
