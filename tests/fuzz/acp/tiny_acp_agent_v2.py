"""A tiny agent of version 2 of the Agent Client Protocol, wrong in the ways that its arguments name.

The faults are the words that `is_wrong` is called with; `tiny_acp_base` has what it shares with that of the other
version. It speaks no other version.
"""

import asyncio
import base64
import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))  # the judge starts it without the project's modules

from tests.fuzz.acp.tiny_acp_base import (  # see above
    ABILITIES,
    BEGUN,
    FAULTS,
    LOCK,
    PROVIDER_METHODS,
    REPLIES,
    STORE,
    Refused,
    answer_of_model,
    ask,
    call_server,
    check_provider,
    is_wrong,
    mcp_tools,
    names_servers,
    numbers,
    save,
    save_all,
    stored_sessions,
    tool,
    write,
)

ASKS = "--tool-approval" in FAULTS
BASH = tool("bash")
LOGIN = {"type": "agent", "methodId": "key", "name": "A key"}
greeted: list[int] = []


class Session:
    def __init__(self, identity: str, cwd: str) -> None:
        self.id = identity
        self.cwd = cwd
        self.messages: list[dict[str, Any]] = []
        self.shown: list[dict[str, Any]] = []
        self.tools: dict[str, tuple[str, str]] = {}
        """Those of servers of the client."""
        self.queue: list[tuple[asyncio.Task[None], list[bool]]] = []
        """Each prompt, and whether its message is in the conversation."""
        self.lock = asyncio.Lock()
        self.commands: dict[str, asyncio.Task[str]] = {}
        self.is_cancelled_early = False

    def show(self, what: str, /, **fields: Any) -> None:
        update = {"sessionUpdate": what, **fields}
        self.shown.append(update)
        publish(self.id, update)

    def go(self, state: str, **fields: Any) -> None:
        background: dict[str, Any] = (
            {"background": []} if is_wrong("forgets-the-background") and state == "running" else {}
        )
        update = {"sessionUpdate": "state_update", "state": state, **background, **fields}
        for _ in range(2 if is_wrong("says-it-twice") else 1):
            publish(self.id, update)


def publish(identity: str, update: dict[str, Any]) -> None:
    write(method="session/update", params={"sessionId": identity, "update": update})


SESSIONS: dict[str, Session] = {}


def opened(params: dict[str, Any]) -> Session:
    if params["sessionId"] not in SESSIONS:
        data = {} if is_wrong("names-no-session") else {"sessionId": params["sessionId"]}
        raise Refused(-32002, "no such session", **data)
    return SESSIONS[params["sessionId"]]


# The model.


async def turn(session: Session) -> str:
    tools = [BASH, *map(tool, session.tools)]
    while True:
        identity = f"m{next(numbers)}-{session.id}"

        def show(kind: str, text: str, identity: str = identity) -> None:
            session.show(f"agent_{kind}_chunk", content={"type": "text", "text": text}, messageId=identity)

        calls, finish = await answer_of_model(session.messages, tools, show)
        if finish == "length" and not is_wrong("hides-the-limit"):
            return "max_tokens"
        if not calls:
            return "end_turn"
        for call in calls:
            session.messages.append(
                {"role": "tool", "tool_call_id": call["id"], "content": await carry_out(session, call)}
            )


# Calls of tools.


async def run_bash(session: Session, terminal: str, command: str) -> str:
    status: dict[str, Any] = {}
    try:
        # A command may run before its start is known here.
        start = asyncio.create_subprocess_shell(
            command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, start_new_session=True
        )
        process = await asyncio.shield(starting := asyncio.ensure_future(start))
        output, _ = await process.communicate()
        session.show("terminal_output_chunk", terminalId=terminal, data=base64.b64encode(output).decode())
        status = {"exitCode": process.returncode}
        return output.decode()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg((await starting).pid, signal.SIGKILL)
        is_cancelled_alone = not status and is_wrong("open-terminals-of-one")
        if not (is_wrong("open-terminals") or is_cancelled_alone):
            session.show("terminal_update", terminalId=terminal, exitStatus=status, capabilities=None)


async def consent_to(session: Session, call: str, command: str) -> bool:
    """Ask whether a command may run."""
    if not is_wrong("waits-in-silence"):
        session.go("requires_action")
    options = [{"optionId": kind, "name": kind, "kind": kind} for kind in ("allow_once", "reject_once")]
    subject = {"type": "command", "command": command, "cwd": session.cwd, "toolCallId": call}
    asked = {"title": "Run it?", "subject": subject, "options": options}
    answer = await ask("session/request_permission", sessionId=session.id, **asked)
    if not (is_wrong("waits-in-silence") or is_wrong("waits-for-ever")):
        session.go("running")
    outcome = answer.get("result", {}).get("outcome", {})
    return bool(outcome.get("optionId") == "allow_once")


async def call_tool(session: Session, name: str, arguments: dict[str, Any]) -> str:
    """Call a tool of a server of the client."""
    identity = f"t{next(numbers)}-{session.id}"
    session.show("tool_call_update", toolCallId=identity, title=name, kind="other", status="in_progress")
    status = "cancelled"
    try:
        output = await call_server(session.tools[name], arguments)
        status = "completed"
        return output
    finally:
        session.show("tool_call_update", toolCallId=identity, status=status)


async def carry_out(session: Session, call: dict[str, Any]) -> str:
    name = call["function"]["name"]
    if name in session.tools:
        return await call_tool(session, name, json.loads(call["function"]["arguments"]))
    identity = f"t{next(numbers)}-{session.id}"
    command = json.loads(call["function"]["arguments"]).get("command", "")
    title = {} if is_wrong("untitled") else {"title": command}
    session.show("tool_call_update", toolCallId=identity, kind="execute", status="pending", **title)
    status, output = "cancelled", "cancelled"
    try:
        if ASKS and not await consent_to(session, identity, command):
            status, output = "failed", "rejected"
            return output
        cancel: dict[str, Any] = {"cancel": {}}
        session.show("terminal_update", terminalId=identity, command=command, cwd=session.cwd, capabilities=cancel)
        content = [{"type": "terminal", "terminalId": identity}]
        begun = {"status": "in_progress", "content": content, "capabilities": cancel}
        session.show("tool_call_update", toolCallId=identity, **begun)
        work = session.commands[identity] = asyncio.create_task(run_bash(session, identity, command))
        try:
            output, status = await work, "completed"
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None and task.cancelling():  # the prompt is, not the call alone
                raise
        finally:
            del session.commands[identity]
        return output
    finally:
        if not is_wrong("open-calls"):
            session.show("tool_call_update", toolCallId=identity, status=status, capabilities=None)
        if is_wrong("goes-back"):
            session.show("tool_call_update", toolCallId=identity, status="in_progress")


def cancel_one(params: dict[str, Any], key: str) -> dict[str, Any]:
    """Cancel a call, or its terminal, which has the same id."""
    session = opened(params)
    if params[key] not in session.commands:
        if is_wrong("cancels-anything"):
            return {}
        raise Refused(-32602, f"{key}: does not run")
    if not is_wrong("cancels-nothing"):
        session.commands[params[key]].cancel()
    return {}


# Prompts.


async def form(session: Session) -> bool:
    choices = [{"const": "yes", "title": "Yes"}, {"const": "no", "title": "No"}]
    schema = {"type": "object", "properties": {"choice": {"type": "string", "oneOf": choices}}}
    asked = {"mode": "form", "message": "Sure?", "requestedSchema": schema}
    result = (await ask("elicitation/create", sessionId=session.id, **asked)).get("result", {})
    if result.get("action") != "accept":
        return is_wrong("assumes-consent")
    return bool(result["content"]["choice"] == "yes")


def accept(session: Session, identity: Any, blocks: list[dict[str, Any]], said: str) -> None:
    """Put the message of a prompt into the conversation, and answer the prompt."""
    save(session)
    name = "u" if is_wrong("one-message-id") else f"u{next(numbers)}-{session.id}"
    session.messages.append({"role": "user", "content": said})
    shown = {"messageId": name, "content": blocks}
    if not is_wrong("echoes-nothing"):
        session.show("user_message", **shown)
    if not is_wrong("accepts-before-it-saves"):
        save(session)
    write(id=identity, result={"messageId": name})


async def prompt(session: Session, identity: Any, blocks: list[dict[str, Any]], state: list[bool]) -> None:
    reason: dict[str, Any] = {"stopReason": "cancelled"}
    try:
        async with session.lock if not is_wrong("one-session-at-a-time") else THE_LOCK:
            if not is_wrong("never-runs"):
                session.go("running")
            state[0] = True
            if is_wrong("asks-for-forms"):
                write(id=next(numbers), method="elicitation/create", params=FORM | {"sessionId": session.id})
            texts = [each.get("text") or each.get("uri", "") for each in blocks]
            said = "".join(texts[:1] if is_wrong("drops-links") else texts)
            accept(session, identity, blocks, said)
            if said == "/ask":
                session.messages[-1]["content"] = f"answer: {await form(session)}"
            LOCK.touch()
            reason = {"stopReason": await turn(session)}
            LOCK.unlink(missing_ok=True)
    except asyncio.CancelledError:
        if is_wrong("slow-to-cancel"):
            await asyncio.sleep(0.6)
        if is_wrong("cancelled-as-ended"):
            reason = {"stopReason": "end_turn"}
        if not state[0]:
            if is_wrong("accepts-what-is-cancelled"):
                return write(id=identity, result={"messageId": f"u{next(numbers)}"})
            return write(id=identity, error={"code": -32800, "message": "cancelled"})
    except Refused as error:
        failure = {"stopReason": "error", "error": {"code": error.code, "message": str(error)}}
        reason = {"stopReason": "end_turn"} if is_wrong("hides-errors") else failure
    save(session)
    session.go("idle", **({} if is_wrong("gives-no-reason") else reason))
    if is_wrong("late-text"):
        session.show("agent_message_chunk", messageId="late", content={"type": "text", "text": "by the way"})
    return None


THE_LOCK = asyncio.Lock()
FORM = {"mode": "form", "message": "?", "requestedSchema": {"type": "object", "properties": {}}}


def begin(params: dict[str, Any], identity: Any) -> None:
    session = opened(params)
    blocks = params["prompt"]
    running = [each for each in session.queue if not each[0].done()]
    if running and is_wrong("one-prompt-alone"):
        raise Refused(-32600, "busy")
    if session.is_cancelled_early:
        session.is_cancelled_early = False
        return write(id=identity, error={"code": -32800, "message": "cancelled"})
    state = [False]
    session.queue = [*running, (asyncio.create_task(prompt(session, identity, blocks, state)), state)]
    return None


async def cancel(session: Session) -> None:
    tasks = [task for task, _ in session.queue if not task.done()]
    session.is_cancelled_early = not tasks and is_wrong("keeps-a-cancel")
    session.queue = []
    await asyncio.sleep(0)  # each has begun, so that it answers
    for task in reversed(tasks):
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


# Requests.


def initialize(params: dict[str, Any]) -> dict[str, Any]:
    version = params["protocolVersion"]
    if version < 2:
        if is_wrong("takes-old-versions"):
            raise Refused(-32602, "protocolVersion: too old")
        raise Refused(-32022, "no such version", requested=version, supported=[2])
    ABILITIES.update(params.get("capabilities") or {})
    methods = [LOGIN, {"type": "terminal", "methodId": "shell", "name": "A shell", "args": []}]
    has_terminal = "terminal" in (ABILITIES.get("auth") or {}) or is_wrong("offers-terminals")
    return {
        "protocolVersion": version if is_wrong("any-version") else 2,
        "info": {"name": "tiny", "version": "2"},
        "capabilities": {"session": {"delete": {}, "archive": {}, "mcp": {"acp": {}}}, "auth": {}, "providers": {}},
        "authMethods": methods if has_terminal else methods[:1],
    }


def folder(params: dict[str, Any]) -> str:
    cwd = params["cwd"]
    if not isinstance(cwd, str) or not (is_wrong("any-folder") or (Path(cwd).is_absolute() and Path(cwd).is_dir())):
        raise Refused(-32602, "cwd: no folder")
    return cwd


def options(current: str = "m1") -> list[dict[str, Any]]:
    choice = {"value": "m1", "name": "m1"}
    return [{"configId": "model", "name": "Model", "type": "select", "currentValue": current, "options": [choice]}]


async def new(params: dict[str, Any]) -> dict[str, Any]:
    check_provider()
    session = Session(f"s{next(numbers)}-{os.getpid()}", folder(params))
    session.tools = await mcp_tools(params.get("mcpServers", []))
    SESSIONS[session.id] = session
    if is_wrong("updates-first"):
        publish(session.id, {"sessionUpdate": "available_commands_update", "availableCommands": []})
    return {"sessionId": session.id, "configOptions": options()}


def resume(params: dict[str, Any]) -> dict[str, Any]:
    found = stored_sessions().get(params["sessionId"])
    if found is None:
        raise Refused(-32002, "no such session", sessionId=params["sessionId"])
    if LOCK.exists() and is_wrong("stays-locked"):
        raise Refused(-32603, "another process has it")
    start = params.get("replayFrom")
    if start is not None and start["type"] != "start" and not is_wrong("replays-from-anywhere"):
        raise Refused(-32602, "replayFrom: no such cursor")
    session = SESSIONS[params["sessionId"]] = Session(params["sessionId"], found["cwd"])
    session.messages, session.shown = found["messages"], found["shown"]
    if (start is not None and not is_wrong("no-replay")) or is_wrong("resumes-with-history"):
        for update in session.shown:
            name = {"messageId": update["messageId"] + "x"} if "messageId" in update and is_wrong("other-ids") else {}
            publish(session.id, {**update, **name})
    if not is_wrong("resumes-without-a-state"):
        publish(session.id, {"sessionUpdate": "state_update", "state": "idle"})
    return {"configOptions": options()}


async def close(params: dict[str, Any]) -> dict[str, Any]:
    session = SESSIONS.get(params["sessionId"])
    if session is None:
        if is_wrong("closes-no-twice"):
            raise Refused(-32002, "no such session", sessionId=params["sessionId"])
        return {}
    if is_wrong("closes-first"):
        asyncio.get_running_loop().call_later(0.1, lambda: asyncio.ensure_future(cancel(session)))
    else:
        await cancel(session)
    if not is_wrong("closes-nothing"):
        del SESSIONS[session.id]
    if is_wrong("speaks-of-the-closed"):
        info = {"sessionUpdate": "session_info_update", "title": "closed"}
        asyncio.get_running_loop().call_later(0.05, lambda: publish(session.id, info))
    return {}


def listed(params: dict[str, Any]) -> dict[str, Any]:
    archived = params.get("archived") or "exclude"
    if archived not in ("exclude", "include", "only") and not is_wrong("knows-every-filter"):
        raise Refused(-32602, "archived: unknown")
    found = {} if is_wrong("lists-nothing") else stored_sessions()
    rows = []
    for identity, stored in found.items():
        is_archived = stored.get("archived", False)
        if archived == "include" or is_wrong("lists-the-archived") or is_archived == (archived == "only"):
            rows.append({"sessionId": identity, "cwd": stored["cwd"], "archived": is_archived})
    return {"sessions": [row for row in rows if params.get("cwd") in (None, row["cwd"])]}


async def archive(params: dict[str, Any], *, archived: bool) -> dict[str, Any]:
    if archived and params["sessionId"] in SESSIONS:
        await close(params)
    sessions = stored_sessions()
    if params["sessionId"] not in sessions:
        raise Refused(-32002, "no such session", sessionId=params["sessionId"])
    sessions[params["sessionId"]]["archived"] = archived
    STORE.write_text(json.dumps(sessions))
    return {}


def delete(params: dict[str, Any]) -> dict[str, Any]:
    rest = {name: each for name, each in stored_sessions().items() if name != params["sessionId"]}
    if not is_wrong("deletes-nothing"):
        STORE.write_text(json.dumps(rest))
    return {}


def set_option(params: dict[str, Any]) -> dict[str, Any]:
    opened(params)
    if params["configId"] != "model":
        raise Refused(-32602, "configId: no option")
    return {"configOptions": [] if is_wrong("no-options") else options(params["value"])}


def log_in(params: dict[str, Any]) -> dict[str, Any]:
    if params["methodId"] != LOGIN["methodId"] and not is_wrong("logs-in-anyhow"):
        raise Refused(-32602, "methodId: no such method")
    return {}


METHODS: dict[str, Any] = {
    "initialize": initialize,
    "auth/login": log_in,
    "auth/logout": lambda params: {},
    "session/resume": resume,
    "session/list": listed,
    "session/delete": delete,
    "session/set_config_option": set_option,
    "tool_call/cancel": lambda params: cancel_one(params, "toolCallId"),
    "terminal/cancel": lambda params: cancel_one(params, "terminalId"),
    **PROVIDER_METHODS,
}
if is_wrong("has-no-login"):
    del METHODS["auth/login"]


async def answer(method: str, params: dict[str, Any], identity: Any) -> dict[str, Any] | None:
    if method == "session/prompt":
        begin(params, identity)
        return None
    if method == "session/close":
        return await close(params)
    if method in ("session/archive", "session/unarchive"):
        return await archive(params, archived=method == "session/archive")
    if method not in (*METHODS, "session/new"):
        if is_wrong("knows-everything"):
            return {}
        raise Refused(-32601, f"no method {method}")
    if method == "initialize":
        result: dict[str, Any] = initialize(params)
        greeted.append(2)
        return result
    if not greeted and not is_wrong("begins-early"):
        raise Refused(-32600, "not initialized")
    result = await new(params) if method == "session/new" else METHODS[method](params)
    return result


async def take(message: Any) -> None:
    if not isinstance(message, dict) or not ("method" in message or "result" in message or "error" in message):
        return write(id=None, error={"code": -32600, "message": "no request"})
    if "method" not in message:
        if (reply := REPLIES.pop(message.get("id", 0), None)) is not None and not reply.done():
            reply.set_result(message)
        return None
    method, params, identity = message["method"], message.get("params", {}), message.get("id")
    if identity is None:
        if method == "session/cancel" and params["sessionId"] in SESSIONS:
            await cancel(SESSIONS[params["sessionId"]])
        return None
    try:
        result = await answer(method, params, identity)
    except Refused as error:
        data = {"data": error.data} if error.data else {}
        return write(id=identity, error={"code": error.code, "message": str(error), **data})
    except (KeyError, TypeError) as error:
        return write(id=identity, error={"code": -32602, "message": f"parameters: {error}"})
    if result is not None:
        write(id=identity, result=result)
        if is_wrong("answers-twice"):
            write(id=identity, result=result)
    return None


async def main() -> None:
    reader = asyncio.StreamReader(limit=2**26)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async for line in reader:
        if not line.strip():
            continue
        try:
            message = json.loads(line.decode())
        except ValueError:
            write(id=None, error={"code": -32700, "message": "no JSON"})
            continue
        if names_servers(message):  # which answer by lines of the client
            BEGUN.append(asyncio.create_task(take(message)))
            continue
        await take(message)
    if is_wrong("stays"):
        await asyncio.sleep(600)
    save_all(SESSIONS)
    for session in [*SESSIONS.values()]:
        await cancel(session)


asyncio.run(main())
