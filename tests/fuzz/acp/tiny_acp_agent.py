"""A tiny agent of the Agent Client Protocol, which is wrong in the ways that its arguments name.

The faults are the words that `is_wrong` is called with; `tiny_acp_base` has what it shares with that of the other
version.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parents[3]))  # the judge starts it without the project's modules

from tests.fuzz.acp.tiny_acp_base import (  # see above
    ABILITIES,
    BEGUN,
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

METHODS = {"initialize", "session/new", "session/prompt", "session/load", "session/resume", "session/list"}
METHODS |= {"session/close", "session/delete", "session/set_config_option", "session/archive", "session/unarchive"}
BASH = tool("bash")
DELEGATE = tool("subagent")


class Session:
    def __init__(self, identity: str, cwd: str, parent: "Session | None" = None) -> None:
        self.id = identity
        self.parent = parent
        self.cwd = cwd
        self.messages: list[dict[str, Any]] = []
        self.shown: list[dict[str, Any]] = []
        self.tools: dict[str, tuple[str, str]] = {}
        """Those of servers of the client."""
        self.queue: list[asyncio.Task[None]] = []
        self.lock = asyncio.Lock()
        self.is_cancelled_early = False
        self.children: dict[str, asyncio.Task[str]] = {}
        self.given: dict[str, list[dict[str, Any]]] = {}
        """The messages that each of them has not had."""

    def show(self, what: str, /, **fields: Any) -> None:
        update = {"sessionUpdate": what, **fields}
        (self.parent or self).shown.append({"of": self.id, **update})
        publish(self.id, self.parent is not None or what == "subagent_update", update)


def publish(identity: str, is_of_child: bool, update: dict[str, Any]) -> None:
    if not is_of_child or "subagents" in ABILITIES or is_wrong("shows-all-sub-agents"):
        write(method="session/update", params={"sessionId": identity, "update": update})


SESSIONS: dict[str, Session] = {}
THE_LOCK = asyncio.Lock()


def opened(identity: Any) -> Session:
    if identity not in SESSIONS:
        raise Refused(-32602 if is_wrong("another-code") else -32002, f"no session {identity}")
    return SESSIONS[identity]


def options(current: str = "m1") -> list[dict[str, Any]]:
    choice = {"value": "m1", "name": "m1"}
    return [{"id": "model", "name": "Model", "type": "select", "currentValue": current, "options": [choice]}]


# The model.


async def run_bash(command: str) -> str:
    process = await asyncio.create_subprocess_shell(
        command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    try:
        output, _ = await process.communicate()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return output.decode()


async def turn(session: Session) -> str:
    tools = [BASH, DELEGATE, *map(tool, session.tools)]
    while True:
        identity = "m" if is_wrong("one-message-id") else f"m{next(numbers)}-{session.id}"

        def show(kind: str, text: str, identity: str = identity) -> None:
            session.show(f"agent_{kind}_chunk", content={"type": "text", "text": text}, messageId=identity)

        calls, finish = await answer_of_model(session.messages, tools, show)
        if finish == "length" and not is_wrong("hides-the-limit"):
            return "max_tokens"
        if finish == "content_filter":
            return "refusal"
        given = session.parent.given[session.id] if session.parent else []
        if not calls and not given:
            return "end_turn"
        for text in given:
            name = f"m{next(numbers)}-{session.id}"
            session.messages.append({"role": "user", "content": text["text"]})
            session.show("session_message", messageId=name, recipientSessionId=session.id, content=[text])
        given.clear()
        for call in calls:
            await carry_out(session, call)


async def use_file(session: Session, name: str, arguments: dict[str, Any]) -> str:
    path: Path = Path(session.cwd) / arguments["path"]
    shown = arguments["path"] if is_wrong("relative-paths") else str(path)
    offered = ABILITIES.get("fs", {})
    if name == "read":
        if offered.get("readTextFile") and not is_wrong("reads-the-disk"):
            response = await ask("fs/read_text_file", sessionId=session.id, path=shown)
            content: str = response["result"]["content"]
            return content
        return path.read_text()
    if offered.get("writeTextFile"):
        response = await ask("fs/write_text_file", sessionId=session.id, path=shown, content=arguments["content"])
        if "error" not in response:
            return "written"
        if not is_wrong("writes-anyway"):
            raise OSError(response["error"]["message"])
    path.write_text(arguments["content"])
    return "written"


async def delegate(session: Session, task: str) -> str:
    """Have a sub-agent do a task, in a session of its own."""
    child = Session(f"c{next(numbers)}-{session.id}", session.cwd, session)
    child.messages.append({"role": "user", "content": f"Task: {task}"})
    offered = {"cancel": {}, "_meta": {"steering": {"supported": True}}}
    named = {"sessionId": child.id, "description": task, "capabilities": offered, "state": {"state": "running"}}
    if not is_wrong("names-late"):
        session.show("subagent_update", **named)
    session.given[child.id] = []
    work = session.children[child.id] = asyncio.create_task(turn(child))
    reason = "cancelled"
    try:
        reason = await work
    except asyncio.CancelledError:
        if not work.cancelled():  # the prompt is, and not the sub-agent alone
            work.cancel()
            raise
    finally:
        if is_wrong("names-late"):
            session.show("subagent_update", **named)
        if not is_wrong("works-on"):
            session.show("subagent_update", sessionId=child.id, state={"state": "idle", "stopReason": reason})
        del session.children[child.id]
    return str(child.messages[-1]["content"])


async def carry_out(session: Session, call: dict[str, Any]) -> None:
    identity = f"t{next(numbers)}-{session.id}"
    name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
    command = arguments.get("command", name)
    if not is_wrong("unannounced"):
        session.show("tool_call", toolCallId=identity, title=command, kind="execute", status="pending")
    session.show("tool_call_update", toolCallId=identity, status="in_progress")
    if is_wrong("asks-for-files"):
        params = {"sessionId": session.id, "path": "/tmp/there"}
        write(id=next(numbers), method="fs/read_text_file", params=params)
    status = "failed"
    try:
        try:
            if name in session.tools:
                output = await call_server(session.tools[name], arguments)
            elif name == "subagent":
                output = await delegate(session, arguments["task"])
            else:
                output = await (run_bash(command) if name == "bash" else use_file(session, name, arguments))
            status = "completed"
        except OSError as error:
            output = str(error)
        session.messages.append({"role": "tool", "tool_call_id": call["id"], "content": output})
    finally:
        if not is_wrong("open-calls"):
            session.show("tool_call_update", toolCallId=identity, status=status)
        if is_wrong("goes-back"):
            session.show("tool_call_update", toolCallId=identity, status="in_progress")


# Prompts.


async def consent(session: Session) -> bool:
    choices = [{"const": "yes", "title": "Yes"}, {"const": "no", "title": "No"}]
    schema = {"type": "object", "properties": {"choice": {"type": "string", "oneOf": choices}}}
    response = await ask(
        "elicitation/create", sessionId=session.id, mode="form", message="Sure?", requestedSchema=schema
    )
    result = response.get("result", {})
    if result.get("action") != "accept":
        return is_wrong("assumes-consent")
    return bool(result["content"]["choice"] == "yes")


async def prompt(session: Session, identity: Any, blocks: list[dict[str, Any]]) -> None:
    kept = len(session.messages)
    try:
        async with THE_LOCK if is_wrong("one-session-at-a-time") else session.lock:
            kept = len(session.messages)
            texts = [each.get("text") or each.get("uri", "") for each in blocks]
            said = "".join(texts[:1] if is_wrong("drops-links") else texts)
            if said == "/ask":
                said = f"answer: {await consent(session)}"
            session.messages.append({"role": "user", "content": said})
            spoken = {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": said}}
            session.shown.append({"of": session.id, **spoken})
            LOCK.touch()
            reason = await turn(session)
            LOCK.unlink(missing_ok=True)
            if reason == "refusal" and not is_wrong("keeps-the-refused"):
                del session.messages[kept:]
            save(session)
    except asyncio.CancelledError:
        if is_wrong("slow-to-cancel"):
            await asyncio.sleep(0.6)
        reason = "end_turn" if is_wrong("cancelled-as-ended") else "cancelled"
    except Refused as error:
        del session.messages[kept:]
        if not is_wrong("hides-errors"):
            return write(id=identity, error={"code": error.code, "message": str(error)})
        reason = "end_turn"
    write(id=identity, result={"stopReason": reason})
    if is_wrong("answers-twice"):
        write(id=identity, result={"stopReason": reason})
    if is_wrong("late-text"):
        session.show("agent_message_chunk", content={"type": "text", "text": "by the way"})
    return None


def begin(session: Session, identity: Any, blocks: list[dict[str, Any]]) -> None:
    session.queue = [task for task in session.queue if not task.done()]
    if session.queue and is_wrong("one-prompt-alone"):
        raise Refused(-32600, "busy")
    if session.is_cancelled_early:
        session.is_cancelled_early = False
        return write(id=identity, result={"stopReason": "cancelled"})
    session.queue.append(asyncio.create_task(prompt(session, identity, blocks)))
    return None


async def cancel(session: Session) -> None:
    session.queue = [task for task in session.queue if not task.done()]
    session.is_cancelled_early = not session.queue and is_wrong("keeps-a-cancel")
    tasks, session.queue = session.queue, []
    await asyncio.sleep(0)  # each has begun, so that it answers
    for task in tasks:
        task.cancel()


async def cancel_named(identity: str) -> None:
    """Cancel the work of a session, or a sub-agent alone."""
    if identity in SESSIONS:
        await cancel(SESSIONS[identity])
    for session in () if is_wrong("cancels-no-sub-agent") else SESSIONS.values():
        if identity in session.children:
            session.children[identity].cancel()


# Requests.


def initialize(params: dict[str, Any]) -> dict[str, Any]:
    version = params["protocolVersion"]
    ABILITIES.update(params.get("clientCapabilities") or {})
    if not isinstance(version, int):
        raise Refused(-32602, "protocolVersion: no number")
    sessions: dict[str, Any] = {"list": {}, "resume": {}, "close": {}, "delete": {}}
    sessions |= {"fork": {}, "title": {}, "status": {}, "archive": {}, "systemPrompt": {}}
    return {
        "protocolVersion": version if is_wrong("any-version") else 1,
        "agentCapabilities": {
            "loadSession": True,
            "sessionCapabilities": sessions,
            "mcpCapabilities": {"acp": True},
            "auth": {"status": {}, "logout": {}},
            "providers": {},
        },
        "authMethods": [{"id": LOGIN, "name": "Log in"}] if can_show_code() or is_wrong("offers-all-logins") else [],
        "agentInfo": {"name": "tiny", "version": "1"},
    }


def reopened(params: dict[str, Any], *, is_replayed: bool) -> dict[str, Any]:
    identity = params["sessionId"]
    found = stored_sessions().get(identity)
    if found is None:
        raise Refused(-32002, f"no session {identity}")
    if LOCK.exists() and is_wrong("stays-locked"):
        raise Refused(-32603, "another process has it")
    session = SESSIONS[identity] = Session(identity, found["cwd"])
    session.messages = found["messages"]
    session.shown = found["shown"]
    for kept in found["shown"] if is_replayed else ():
        update = {name: value for name, value in kept.items() if name != "of"}
        if "messageId" in update and is_wrong("other-ids"):
            update = {**update, "messageId": update["messageId"] + "x"}
        publish(kept["of"], kept["of"] != identity or update["sessionUpdate"] == "subagent_update", update)
    return {}


def kept(stored: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: stored[name] for name in names if name in stored}


def listed(params: dict[str, Any]) -> dict[str, Any]:
    archived = params.get("archived") or "exclude"
    if archived not in ("exclude", "include", "only") and not is_wrong("knows-every-filter"):
        raise Refused(-32602, "archived: unknown")
    found = {} if is_wrong("lists-nothing") else stored_sessions()
    rows = []
    for identity, stored in found.items():
        is_archived = stored.get("archived", False)
        if archived == "include" or is_wrong("lists-the-archived") or is_archived == (archived == "only"):
            rows.append({"sessionId": identity, "archived": is_archived, **kept(stored, "cwd", "title")})
    return {"sessions": [row for row in rows if params.get("cwd") in (None, row["cwd"])]}


async def archive(identity: str, *, archived: bool) -> dict[str, Any]:
    if archived and identity in SESSIONS:
        await cancel(SESSIONS[identity])
        del SESSIONS[identity]
    await asyncio.sleep(0.05)  # its prompts end
    sessions = stored_sessions()
    if identity not in sessions:
        raise Refused(-32002, "no such session")
    sessions[identity]["archived"] = archived
    STORE.write_text(json.dumps(sessions))
    return {}


def fork(params: dict[str, Any]) -> dict[str, Any]:
    source = SESSIONS.get(params["sessionId"])
    if source is None:
        raise Refused(-32002, "no such session")
    session = Session(f"s{next(numbers)}-{os.getpid()}", params["cwd"])
    session.messages = source.messages if is_wrong("forks-into-itself") else [*source.messages]
    session.shown = [*source.shown]
    SESSIONS[session.id] = session
    return {"sessionId": session.id}


def set_title(params: dict[str, Any]) -> dict[str, Any]:
    sessions = stored_sessions()
    if params["sessionId"] not in sessions:
        raise Refused(-32002, "no such session")
    if not is_wrong("keeps-its-title"):
        sessions[params["sessionId"]]["title"] = params["title"]
        STORE.write_text(json.dumps(sessions))
    return {"title": params["title"]}


def status(params: dict[str, Any]) -> dict[str, Any]:
    is_open = params["sessionId"] in SESSIONS
    if not (is_open or params["sessionId"] in stored_sessions()):
        raise Refused(-32002, "no such session")
    return {"status": "open" if is_open or is_wrong("always-open") else "saved"}


def auth_status(_: dict[str, Any]) -> dict[str, Any]:
    if is_wrong("asks-for-a-login"):
        raise Refused(-32000, "log in first")
    status = {"state": "authenticated" if is_logged_in[0] or is_wrong("keeps-its-status") else "unauthenticated"}
    if is_wrong("repeats-its-status"):
        write(method="auth/status_update", params=status)
        write(method="auth/status_update", params=status)
    return status


# Logins.

MODELS = Path(os.environ["HOME"]).parent / "agent" / "models.json"
HAS_KEY = not MODELS.exists()
"""Whether there is one without a login, as far as the scenario lets this agent have it."""
is_logged_in = [HAS_KEY]
LOGINS: dict[Any, "asyncio.Task[None]"] = {}
LOGIN = "login-xai"


async def post(path: str) -> tuple[int, dict[str, Any]]:
    """Ask the server of logins."""
    address = urlsplit(os.environ["CONFORM_LOGIN_URL"])
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        head = f"POST {path} HTTP/1.1\r\nHost: {address.netloc}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        writer.write(head.encode())
        head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
        return int(head.split()[1]), json.loads(body)
    finally:
        writer.close()


async def show_code(identity: Any, code: dict[str, Any]) -> bool:
    schema = {"type": "object", "properties": {}}
    text = f"{code['verification_uri']} {code['user_code']}"
    response = await ask("elicitation/create", requestId=identity, mode="form", message=text, requestedSchema=schema)
    return bool(response.get("result", {}).get("action") == "accept")


async def log_in(identity: Any) -> None:
    """Log in with a code: shown, and asked about until the user has decided."""
    shown: asyncio.Task[bool] | None = None
    try:
        _, code = await post("/device")
        shown = asyncio.create_task(show_code(identity, code))
        while True:
            if shown.done() and not shown.result():
                raise Refused(-32000, "declined")
            status, answer = await post("/token")
            if status == 200:
                break
            if answer["error"] != "authorization_pending":
                raise Refused(-32000, answer["error"])
            await asyncio.wait([shown], timeout=0.05)
        is_logged_in[0] = True
    except asyncio.CancelledError:
        if shown is not None:
            if is_wrong("leaves-its-code-open"):
                write(id=identity, error={"code": -32800, "message": "cancelled"})
                return
            shown.cancel()
            await asyncio.wait([shown])
        return write(id=identity, error={"code": -32800, "message": "cancelled"})
    except (OSError, Refused) as error:
        if not is_wrong("hides-failed-logins"):
            return write(id=identity, error={"code": -32000, "message": str(error)})
    if shown is not None and not shown.done():
        shown.cancel()
        await asyncio.wait([shown])
    return write(id=identity, result={})


def can_show_code() -> bool:
    return "form" in (ABILITIES.get("elicitation") or {})


def authenticate(params: dict[str, Any], identity: Any) -> None:
    if (params["methodId"] != LOGIN or not can_show_code()) and not is_wrong("logs-in-anyhow"):
        raise Refused(-32602, "methodId: no such method")
    if not can_show_code():
        return write(id=identity, result={})
    LOGINS[identity] = asyncio.create_task(log_in(identity))
    return None


def log_out(_: dict[str, Any]) -> dict[str, Any]:
    is_logged_in[0] = is_wrong("needs-one-login")
    return {}


def steer(params: dict[str, Any]) -> dict[str, Any]:
    """Give a sub-agent that works a message."""
    for session in SESSIONS.values():
        if params["sessionId"] in session.children:
            session.given[params["sessionId"]] += [] if is_wrong("forgets-messages") else params["prompt"]
            return {"outcome": "injected", "messageId": f"g{next(numbers)}"}
    raise Refused(-32002, f"no sub-agent {params['sessionId']}")


async def new(params: dict[str, Any]) -> dict[str, Any]:
    cwd = params["cwd"]
    if not is_logged_in[0] and not is_wrong("needs-no-login"):
        raise Refused(-32000, "log in first")
    check_provider()
    if not isinstance(cwd, str) or not (is_wrong("any-folder") or (Path(cwd).is_absolute() and Path(cwd).is_dir())):
        raise Refused(-32602, "cwd: no folder")
    session = Session(f"s{next(numbers)}-{os.getpid()}", cwd)
    session.tools = await mcp_tools(params.get("mcpServers", []))
    if (prompt := params.get("systemPrompt")) and not is_wrong("ignores-system-prompts"):
        if prompt["mode"] != "append" or any(each["type"] != "text" for each in prompt["content"]):
            raise Refused(-32602, "systemPrompt: not supported")
        session.messages += [{"role": "system", "content": each["text"]} for each in prompt["content"]]
    SESSIONS[session.id] = session
    if is_wrong("updates-first"):
        session.show("available_commands_update", availableCommands=[])
    return {"sessionId": session.id, "configOptions": options()}


OTHERS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "session/list": listed,
    "session/fork": fork,
    "session/set_title": set_title,
    "session/status": status,
    "_session/steering": steer,
    "auth/status": auth_status,
    "logout": log_out,
    **PROVIDER_METHODS,
}
METHODS |= {*OTHERS, "authenticate"}


async def requested(method: str, params: dict[str, Any], identity: Any) -> Any:
    match method:
        case "initialize":
            return initialize(params)
        case "authenticate":
            return authenticate(params, identity)
        case "session/load":
            return reopened(params, is_replayed=not is_wrong("no-replay"))
        case "session/resume":
            return reopened(params, is_replayed=is_wrong("resumes-with-history"))
        case "session/archive" | "session/unarchive":
            return await archive(params["sessionId"], archived=method == "session/archive")
        case "session/close":
            session = opened(params["sessionId"])
            if not is_wrong("closes-nothing"):
                await cancel(session)
                del SESSIONS[session.id]
            return {}
        case "session/delete":
            rest = {name: each for name, each in stored_sessions().items() if name != params["sessionId"]}
            if not is_wrong("deletes-nothing"):
                STORE.write_text(json.dumps(rest))
            return {}
        case "session/set_config_option":
            opened(params["sessionId"])
            if params["configId"] != "model":
                raise Refused(-32602, "configId: no option")
            return {"configOptions": [] if is_wrong("no-options") else options(params["value"])}
        case _ if is_wrong("any-session") or (is_wrong("opens-sub-agents") and params["sessionId"].startswith("c")):
            return {"stopReason": "end_turn"}
        case _:
            begin(opened(params["sessionId"]), identity, params["prompt"])
            return None


async def carried_out(method: str, params: dict[str, Any], identity: Any) -> dict[str, Any] | None:
    if method == "session/new":
        return await new(params)
    later = OTHERS.get(method)
    return later(params) if later is not None else await requested(method, params, identity)


async def take(message: Any) -> None:
    if not isinstance(message, dict) or not ("method" in message or "result" in message or "error" in message):
        code = -32603 if is_wrong("another-code-for-no-request") else -32600
        return write(id=None, error={"code": code, "message": "no request"})
    if "method" not in message:
        if (reply := REPLIES.pop(message.get("id", 0), None)) is not None and not reply.done():
            reply.set_result(message)
        return None
    method, params, identity = message["method"], message.get("params", {}), message.get("id")
    if identity is None:
        if method == "session/cancel":
            await cancel_named(params["sessionId"])
        if method == "$/cancel_request" and (login := LOGINS.get(params["requestId"])) is not None:
            login.cancel()
        return None
    try:
        if method not in METHODS:
            if is_wrong("knows-everything"):
                return write(id=identity, result={})
            raise Refused(-32601, f"no method {method}")
        if not is_greeted[0] and method != "initialize" and not is_wrong("begins-early"):
            raise Refused(-32600, "not initialized")
        result = await carried_out(method, params, identity)
        is_greeted[0] = True
    except Refused as error:
        return write(id=identity, error={"code": error.code, "message": str(error)})
    except (KeyError, TypeError) as error:
        code = -32603 if is_wrong("another-code-for-parameters") else -32602
        return write(id=identity, error={"code": code, "message": f"parameters: {error}"})
    if result is not None:
        write(id=identity, result=result)
    if method == "initialize" and is_wrong("chatty"):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
    if method == "session/new" and result is not None:
        session = SESSIONS[result["sessionId"]]
        session.show("available_commands_update", **({} if is_wrong("no-schema") else {"availableCommands": []}))
        if is_wrong("greets"):
            session.show("agent_message_chunk", content={"type": "text", "text": "Welcome"})
    return None


is_greeted = [False]


async def main() -> None:
    reader = asyncio.StreamReader(limit=2**26)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async for line in reader:
        if not line.strip():
            continue
        try:
            message = json.loads(line.decode())
        except ValueError:
            if not is_wrong("silent-about-no-json"):
                write(id=None, error={"code": -32700, "message": "no JSON"})
            continue
        if names_servers(message):  # which answer by lines of the client
            BEGUN.append(asyncio.create_task(take(message)))
            continue
        await take(message)
    if is_wrong("stays"):
        await asyncio.sleep(600)
    save_all(SESSIONS)
    tasks = [task for session in SESSIONS.values() for task in session.queue]
    for session in SESSIONS.values():
        await cancel(session)
    await asyncio.gather(*tasks)


asyncio.run(main())
