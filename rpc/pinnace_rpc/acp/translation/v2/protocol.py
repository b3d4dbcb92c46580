"""Version 2: its methods, what it announces, and how it describes sessions and asks for permissions."""

from collections.abc import Mapping, Sequence
from typing import Final

from pinnace_rpc.acp.translation.abilities import Abilities
from pinnace_rpc.acp.translation.jsonrpc import INVALID_REQUEST, RequestError, RequestId
from pinnace_rpc.acp.translation.params import Params
from pinnace_rpc.acp.translation.parts import login_methods, offered_details, permission_options
from pinnace_rpc.acp.translation.shown import Json
from pinnace_rpc.acp.translation.system_prompts import CAPABILITY
from pinnace_rpc.acp.translation.tool_calls import kind
from pinnace_rpc.acp.translation.v2.lifecycle import States
from pinnace_rpc.acp.translation.v2.options import check_option_value, commands, options
from pinnace_rpc.acp.translation.v2.updates import Updates
from pinnace_rpc.acp.translation.version import (
    Emit,
    Lifecycle,
    Offer,
    OpenedSession,
    Operation,
    Question,
    Replies,
    UpdatesOf,
)

_COMMAND: Final = "bash"


class Version2:
    """The translation of version 2."""

    version: int = 2
    operations: Mapping[str, Operation] = {
        "auth/login": "log_in",
        "auth/logout": "log_out",
        "session/new": "new",
        "session/resume": "open",
        "session/list": "list",
        "session/delete": "delete",
        "session/close": "close",
        "session/fork": "fork",
        "session/set_title": "set_title",
        "session/status": "status",
        "session/archive": "archive",
        "session/unarchive": "unarchive",
        "auth/status": "auth_status",
        "providers/list": "list_providers",
        "providers/set": "set_provider",
        "providers/disable": "disable_provider",
        "session/set_config_option": "set_option",
        "session/prompt": "prompt",
        "tool_call/cancel": "cancel_call",
        "terminal/cancel": "cancel_terminal",
        "_session/steering": "steer",
    }
    server_fields: Sequence[str] = ("type",)
    opens_in_step: bool = True
    announces_questions: bool = False
    closes_unknown: bool = True
    may_begin_again: bool = True
    lists_always: bool = True

    def check_request(self, identity: RequestId, params: Params, *, is_newer: bool) -> None:
        """Require an id, and what the client says of itself, unless it asks for a newer version."""
        if identity is None:
            raise RequestError(INVALID_REQUEST, "id: must be a string or an integer")
        if not is_newer:
            info = Params(params.fields.get("info"), "params.info")
            info.text("name")
            info.text("version")

    def abilities(self, params: Params) -> Abilities:
        """Read the capabilities of a client; what is malformed counts as absent."""
        given = Params(params.fields.get("capabilities") if params.has("capabilities") else {}, "params.capabilities")
        return Abilities(
            notices=True,
            compactions=True,
            switches=True,
            plans=True,
            children=True,
            forms=given.has("elicitation", "form"),
            addresses=given.has("elicitation", "url"),
            terminals=given.has("auth", "terminal"),
        )

    def description(self, offer: Offer) -> Json:
        """Return what this agent offers. Methods to log in bring `auth/login` and `auth/logout`."""
        session: dict[str, object] = {
            "prompt": {"image": {}, "embeddedContext": {}},
            "mcp": {"stdio": {}, "http": {}, "acp": {}},
            "additionalDirectories": {},
            "systemPrompt": CAPABILITY,
        }
        if offer.is_persistent:
            session |= {"delete": {}, "fork": {}, "title": {}, "status": {}, "archive": {}}
        return {
            "protocolVersion": self.version,
            "info": {"name": "pinnace", "title": "pinnace", "version": offer.release},
            "capabilities": {"session": session, "auth": {"status": {}}, "providers": {}},
            "authMethods": _methods(offer),
            "_meta": offered_details(),
        }

    def shows_history(self, method: str, params: Params) -> bool:
        """Return whether a session is shown from its start."""
        if params.fields.get("replayFrom") is None:
            return False
        cursor = Params(params.fields["replayFrom"], "params.replayFrom")
        if cursor.text("type") != "start":
            raise cursor.invalid("type", 'must be "start"')
        return True

    def opened(self, session: OpenedSession) -> Json:
        """Return the options and the commands of a session."""
        found: dict[str, object] = {
            "configOptions": options(session.options),
            "availableCommands": commands(session.commands),
        }
        return {**found, "_meta": {"pinnace": session.details}} if session.details else found

    def options(self, reported: Sequence[Json]) -> Sequence[Json]:
        """Return the options by their `configId`."""
        return options(reported)

    def check_option(self, params: Params) -> None:
        """Check the type of a value."""
        check_option_value(params)

    def updates(self, cwd: str, abilities: Abilities) -> UpdatesOf:
        """Return the updates of a session."""
        return Updates(cwd)

    def lifecycle(self, replies: Replies, emit: Emit, abilities: Abilities) -> Lifecycle:
        """Return the lifecycle of a session."""
        return States(replies, emit)

    def permission(self, question: Question, cwd: str) -> Json:
        """Return a question with its own title, about a command, a call, or neither."""
        title, _, more = question.title.partition("\n")
        asked: dict[str, object] = {"title": title or "Question", "options": permission_options(question)}
        if description := "\n\n".join(text for text in (more.strip(), question.text) if text):
            asked["description"] = description
        if (call := question.call) is not None:
            command = call.arguments.get("command")
            if call.tool == _COMMAND and isinstance(command, str):
                asked["subject"] = {"type": "command", "command": command, "cwd": cwd, "toolCallId": call.id}
            else:
                described = Updates(cwd).described(call)
                shown = {"toolCallId": call.id, "kind": kind(call.tool), "status": "pending", **described}
                asked["subject"] = {"type": "tool_call", "toolCall": shown}
        return asked


def _methods(offer: Offer) -> list[Json]:
    login: list[Json] = []
    for method in login_methods(offer):
        described = {"methodId": method.id, "name": method.name, "description": method.description}
        ways: Json = {"type": "terminal", "args": method.args} if method.args else {"type": "agent"}
        login.append({**ways, **described})
    return login
