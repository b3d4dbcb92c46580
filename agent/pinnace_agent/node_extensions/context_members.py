"""The members of `ctx`, `ctx.sessionManager` and `ctx.modelRegistry`."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, cast

from pinnace_agent.extensions.api.contexts import CommandContext, Context, ReplacedContext, ToolContext
from pinnace_agent.extensions.ports.host_view import DeliverAs, ForkPosition, SessionWriter
from pinnace_agent.node_extensions.bridge import Bridge
from pinnace_agent.node_extensions.errors import RefusedRequest
from pinnace_agent.node_extensions.values import Ask, Now, Values, custom_type

if TYPE_CHECKING:
    from pinnace_agent.extensions.ports.host_view import Content, SessionResult, Setup, WithSession
    from pinnace_spec.records.messages import Message


def _of_context(read: Callable[[Context], object]) -> Now:
    return lambda bridge, number, _values: read(bridge.context(number))


def _command(bridge: Bridge, number: int | None, name: str) -> CommandContext:
    context = bridge.context(number)
    if not isinstance(context, CommandContext):
        raise RefusedRequest(f"ctx.{name}() needs the ctx of a command")
    return context


def _usage(context: Context) -> object:
    usage = context.get_context_usage()
    if usage is None:
        return None
    return {"tokens": usage.tokens, "contextWindow": usage.context_window, "percent": usage.percent}


def _scoped(context: Context) -> object:
    return [{"model": model} for model in context.scoped_models]


def _tools(context: Context) -> object:
    names = context.tools if isinstance(context, ToolContext) else ()
    return [{"name": name} for name in names]


async def _compact(bridge: Bridge, number: int | None, values: Values) -> object:
    import trio

    done, outcome = trio.Event(), list[object]()

    def end(value: object) -> None:
        outcome.append(value)
        done.set()

    bridge.context(number).compact(values.text_or_none(0, "customInstructions"), end, end)
    await done.wait()
    if isinstance(outcome[0], Exception):
        raise RefusedRequest(str(outcome[0]))
    return outcome[0]


def _cancelled(result: "SessionResult") -> Mapping[str, object]:
    return {"cancelled": result.cancelled}


def _with_session(bridge: Bridge, number: int | None) -> "WithSession | None":
    if number is None:
        return None

    async def run(context: ReplacedContext) -> None:
        await bridge.kept(number, context=bridge.add_context(context))

    return run


def _setup(bridge: Bridge, number: int | None) -> "Setup | None":
    if number is None:
        return None

    async def fill(writer: SessionWriter) -> None:
        steps = await bridge.kept(number)
        for step in Values("setup", (steps,)).records(0, "steps"):
            if step.get("step") == "message":
                writer.append_message(cast("Message", step.get("message")))  # cast: the method checks it
            elif step.get("step") == "custom":
                writer.append_custom(str(step.get("customType")), step.get("data"))
            else:
                writer.set_name(str(step.get("name")))

    return fill


async def _new_session(bridge: Bridge, number: int | None, values: Values) -> object:
    setup = _setup(bridge, values.number_or_none(1, "setup"))
    then = _with_session(bridge, values.number_or_none(2, "withSession"))
    context = _command(bridge, number, "newSession")
    return _cancelled(await context.new_session(values.text_or_none(0, "parentSession"), setup, then))


async def _fork(bridge: Bridge, number: int | None, values: Values) -> object:
    position = cast("ForkPosition", values.text(1, "position"))  # cast: the method checks it
    then = _with_session(bridge, values.number_or_none(2, "withSession"))
    return _cancelled(await _command(bridge, number, "fork").fork(values.text(0, "entryId"), position, then))


async def _switch(bridge: Bridge, number: int | None, values: Values) -> object:
    then = _with_session(bridge, values.number_or_none(1, "withSession"))
    return _cancelled(await _command(bridge, number, "switchSession").switch_session(values.text(0, "path"), then))


async def _navigate(bridge: Bridge, number: int | None, values: Values) -> object:
    options = values.record(1, "options")
    moved = await _command(bridge, number, "navigateTree").navigate_tree(
        values.text_or_none(0, "targetId"),
        summarize=options.get("summarize") is True,
        custom_instructions=cast("str | None", options.get("customInstructions")),  # casts: the method checks them
        replace_instructions=options.get("replaceInstructions") is True,
        label=cast("str | None", options.get("label")),
    )
    return _cancelled(moved)


async def _idle(bridge: Bridge, number: int | None, _values: Values) -> None:
    await _command(bridge, number, "waitForIdle").wait_for_idle()


async def _reload(bridge: Bridge, number: int | None, _values: Values) -> None:
    await _command(bridge, number, "reload").reload()


def _replaced(bridge: Bridge, number: int | None, name: str) -> ReplacedContext:
    context = bridge.context(number)
    if not isinstance(context, ReplacedContext):
        raise RefusedRequest(f"ctx.{name}() needs the ctx of withSession")
    return context


async def _say(bridge: Bridge, number: int | None, values: Values) -> None:
    message, options = values.record(0, "message"), values.record(1, "options")
    triggers = options.get("triggerTurn")
    await _replaced(bridge, number, "sendMessage").send_message(
        custom_type(message),
        cast("Content", message.get("content")),  # casts: the method checks its arguments
        display=message.get("display") is not False,
        details=message.get("details"),
        deliver_as=cast("DeliverAs | None", options.get("deliverAs")),
        trigger_turn=triggers if isinstance(triggers, bool) else None,
    )


async def _say_as_user(bridge: Bridge, number: int | None, values: Values) -> None:
    options = values.record(1, "options")
    expands = options.get("expandPromptTemplates")
    await _replaced(bridge, number, "sendUserMessage").send_user_message(
        cast("Content", values.any(0)),  # casts: the method checks them
        deliver_as=cast("DeliverAs | None", options.get("deliverAs")),
        expand=expands if isinstance(expands, bool) else None,
    )


def _entries(bridge: Bridge, number: int | None, values: Values) -> object:
    """Return the session's id and leaf, and the entries that the process lacks."""
    reader = bridge.context(number).session_manager
    session_id, entries = reader.get_session_id(), reader.get_entries()
    known = values.number(1, "count")
    begin = known if values.text_or_none(0, "session") == session_id and known <= len(entries) else 0
    return {"id": session_id, "from": begin, "leafId": reader.get_leaf_id(), "entries": entries[begin:]}


def _session(method: str) -> Now:
    return lambda bridge, number, _values: getattr(bridge.context(number).session_manager, method)()


def _label(bridge: Bridge, number: int | None, values: Values) -> object:
    return bridge.context(number).session_manager.get_label(values.text(0, "entryId"))


def _find_model(bridge: Bridge, number: int | None, values: Values) -> object:
    return bridge.context(number).model_registry.find(values.text(0, "provider"), values.text(1, "id"))


async def _key(bridge: Bridge, number: int | None, values: Values) -> object:
    key, headers = await bridge.context(number).model_registry.api_key_and_headers(values.model(0))
    return {"apiKey": key, "headers": headers}


NOW: Final[Mapping[str, Now]] = {
    "ctx.mode": _of_context(lambda ctx: ctx.mode),
    "ctx.hasUI": _of_context(lambda ctx: ctx.has_ui),
    "ctx.cwd": _of_context(lambda ctx: str(ctx.cwd)),
    "ctx.model": _of_context(lambda ctx: ctx.model),
    "ctx.scopedModels": _of_context(_scoped),
    "ctx.thinkingLevel": _of_context(lambda ctx: ctx.thinking_level),
    "ctx.isIdle": _of_context(lambda ctx: ctx.is_idle()),
    "ctx.isProjectTrusted": _of_context(lambda ctx: ctx.is_project_trusted()),
    "ctx.hasPendingMessages": _of_context(lambda ctx: ctx.has_pending_messages()),
    "ctx.contextUsage": _of_context(_usage),
    "ctx.systemPrompt": _of_context(lambda ctx: ctx.get_system_prompt()),
    "ctx.tools": _of_context(_tools),
    "ctx.abort": _of_context(lambda ctx: ctx.abort()),
    "ctx.shutdown": _of_context(lambda ctx: ctx.shutdown()),
    "ctx.systemPromptOptions": lambda bridge, number, _values: _command(
        bridge, number, "getSystemPromptOptions"
    ).get_system_prompt_options(),
    "session.entries": _entries,
    "session.cwd": _session("get_cwd"),
    "session.dir": _session("get_session_dir"),
    "session.id": _session("get_session_id"),
    "session.file": _session("get_session_file"),
    "session.name": _session("get_session_name"),
    "session.header": _session("get_header"),
    "session.leafId": _session("get_leaf_id"),
    "session.tree": _session("get_tree"),
    "session.context": _session("build_session_context"),
    "session.label": _label,
    "models.all": _of_context(lambda ctx: ctx.model_registry.all()),
    "models.available": _of_context(lambda ctx: ctx.model_registry.available()),
    "models.find": _find_model,
}

ASK: Final[Mapping[str, Ask]] = {
    "ctx.compact": _compact,
    "ctx.waitForIdle": _idle,
    "ctx.newSession": _new_session,
    "ctx.fork": _fork,
    "ctx.navigateTree": _navigate,
    "ctx.switchSession": _switch,
    "ctx.reload": _reload,
    "ctx.sendMessage": _say,
    "ctx.sendUserMessage": _say_as_user,
    "models.key": _key,
}
