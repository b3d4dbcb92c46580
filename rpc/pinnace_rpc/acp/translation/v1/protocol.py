"""Version 1: its methods, what it announces, and how it describes sessions and asks for permissions."""

from collections.abc import Mapping, Sequence
from typing import Final

from pinnace_agent.core.json_access import as_array, as_object
from pinnace_rpc.acp.translation.abilities import Abilities
from pinnace_rpc.acp.translation.jsonrpc import RequestId
from pinnace_rpc.acp.translation.params import Params
from pinnace_rpc.acp.translation.parts import login_methods, offered_details, permission_options
from pinnace_rpc.acp.translation.shown import Json
from pinnace_rpc.acp.translation.system_prompts import CAPABILITY
from pinnace_rpc.acp.translation.tool_calls import fenced, kind, text_content
from pinnace_rpc.acp.translation.v1.lifecycle import Turns
from pinnace_rpc.acp.translation.v1.updates import Updates
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

_FILES: Final = (("readTextFile", "read_text_file"), ("writeTextFile", "write_text_file"))


class Version1:
    """The translation of version 1."""

    version: int = 1
    operations: Mapping[str, Operation] = {
        "authenticate": "log_in",
        "logout": "log_out",
        "session/new": "new",
        "session/load": "open",
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
        "session/set_mode": "set_mode",
        "session/set_config_option": "set_option",
        "session/prompt": "prompt",
        "_session/steering": "steer",
    }
    server_fields: Sequence[str] = ("args", "env", "headers")
    opens_in_step: bool = False
    announces_questions: bool = True
    closes_unknown: bool = False
    may_begin_again: bool = False
    lists_always: bool = False

    def check_request(self, identity: RequestId, params: Params, *, is_newer: bool) -> None:
        """Require nothing more."""

    def abilities(self, params: Params) -> Abilities:
        """Read the capabilities of a client; what is malformed counts as absent."""
        given = Params(as_object(params.fields.get("clientCapabilities")) or {}, "params.clientCapabilities")
        files = as_object(given.fields.get("fs")) or {}
        return Abilities(
            notices=given.has("session", "notices"),
            compactions=given.has("session", "compaction"),
            switches=given.has("session", "configOptions", "boolean"),
            forms=given.has("elicitation", "form"),
            addresses=given.has("elicitation", "url"),
            terminals=(as_object(given.fields.get("auth")) or {}).get("terminal") is True,
            plans=given.has("plan"),
            children=given.has("subagents"),
            knows_unstable=given.has("plan") or given.has("subagents"),
            files=[method for name, method in _FILES if files.get(name) is True],
        )

    def description(self, offer: Offer) -> Json:
        """Return what this agent offers."""
        sessions: dict[str, object] = {"close": {}, "additionalDirectories": {}, "systemPrompt": CAPABILITY}
        if offer.is_persistent:
            sessions |= {"list": {}, "delete": {}, "resume": {}, "fork": {}, "title": {}, "status": {}, "archive": {}}
        return {
            "protocolVersion": self.version,
            "agentCapabilities": {
                "loadSession": offer.is_persistent,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": True, "sse": False, "acp": True},
                "sessionCapabilities": sessions,
                "auth": {"logout": {}, "status": {}},
                "providers": {},
            },
            "authMethods": _methods(offer) if offer.needs_login else [],
            "agentInfo": {"name": "pinnace", "title": "pinnace", "version": offer.release},
            "_meta": offered_details(),
        }

    def shows_history(self, method: str, params: Params) -> bool:
        """Return whether a session is loaded, and not resumed."""
        return method == "session/load"

    def opened(self, session: OpenedSession) -> Json:
        """Return the modes and the options of a session; its commands follow as an update."""
        found: dict[str, object] = {"modes": session.modes, "configOptions": session.options}
        return {**found, "_meta": {"pinnace": session.details}} if session.details else found

    def options(self, reported: Sequence[Json]) -> Sequence[Json]:
        """Return the options as they are."""
        return reported

    def check_option(self, params: Params) -> None:
        """Require nothing more."""

    def updates(self, cwd: str, abilities: Abilities) -> UpdatesOf:
        """Return the updates of a session."""
        return Updates(cwd, abilities)

    def lifecycle(self, replies: Replies, emit: Emit, abilities: Abilities) -> Lifecycle:
        """Return the lifecycle of a session."""
        return Turns(replies, emit, shows_usage=abilities.knows_unstable)

    def permission(self, question: Question, cwd: str) -> Json:
        """Return a question about a call, which shows the call completely, with what the user has to know of it."""
        if (call := question.call) is None:
            shown: dict[str, object] = {"toolCallId": question.announced, "title": question.title, "kind": "other"}
            content: list[object] = [*text_content(question.text)] if question.text else []
        else:
            described = Updates(cwd, Abilities()).described(call)
            shown = {"toolCallId": call.id, "kind": kind(call.tool), **described}
            said = "\n".join(text for text in (question.title, question.text) if text)
            content = [*as_array(described.get("content")), *text_content(fenced(said))]
        tool_call: Json = {**shown, "status": "pending", "content": content}
        return {"toolCall": tool_call, "options": permission_options(question)}


def _methods(offer: Offer) -> list[Json]:
    login: list[Json] = []
    for method in login_methods(offer):
        described = {"id": method.id, "name": method.name, "description": method.description}
        login.append({"type": "terminal", **described, "args": method.args, "env": {}} if method.args else described)
    return login
