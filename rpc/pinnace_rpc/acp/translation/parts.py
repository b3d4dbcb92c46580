"""What several versions write alike, or have in common: updates, options of questions, methods to log in."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from pinnace_rpc.acp.translation.jsonrpc import INTERNAL_ERROR
from pinnace_rpc.acp.translation.shown import (
    ChildState,
    CompactionEnded,
    InfoChanged,
    Json,
    Noticed,
    Spent,
    Update,
    UsageChanged,
)
from pinnace_rpc.acp.translation.version import Offer, ProviderLogin, Question
from pinnace_spec.records.messages import LoginKind
from pinnace_spec.wire.framing import MAX_RECORD_BYTES

API_KEY: Final = "api-key"
LOGIN: Final = "login"
_PREFIXES: Final[Mapping[LoginKind, str]] = {
    "device-code": "login-",
    "browser": "browser-login-",
    "extension": "extension-login-",
}
_DESCRIBED: Final[Mapping[LoginKind, str]] = {
    "device-code": "With a code, in a browser",
    "browser": "In a browser on the machine of the agent, or by pasting what it was sent to",
    "extension": "As the extension of the provider does",
}

_CHILD_ENDS: Final[Mapping[ChildState, str]] = {"completed": "end_turn", "cancelled": "cancelled"}
"""The reasons for the ends of sub-agents that are no errors."""
RETRYING: Final = "The model's server failed; trying again"


def compaction_end(shown: CompactionEnded) -> Update:
    """Return the end of a compaction: a summary, an error, or neither if it was cancelled."""
    update: Update = {"sessionUpdate": "compaction_update", "compactionId": shown.entry}
    if shown.summary is not None:
        return {**update, "status": "completed", "summary": [{"type": "text", "text": shown.summary}]}
    if shown.error is not None:
        return {**update, "status": "failed", "error": shown.error}
    return {**update, "status": "cancelled"}


def notice(shown: Noticed) -> Update:
    """Return a message for people that belongs to no answer."""
    title = shown.title.strip() or shown.severity
    update: Update = {"sessionUpdate": "notice", "severity": shown.severity, "title": title}
    return {**update, "description": shown.description} if shown.description else update


def spent(shown: Spent) -> Json:
    """Return what a turn has used."""
    return {
        "totalTokens": sum(shown),
        "inputTokens": shown.input,
        "outputTokens": shown.output,
        "cachedReadTokens": shown.cache_read,
        "cachedWriteTokens": shown.cache_write,
    }


def usage(shown: UsageChanged) -> Update:
    """Return how much of the context is used."""
    update: Update = {"sessionUpdate": "usage_update", "used": shown.used, "size": shown.size}
    if shown.cost_usd is not None:
        update["cost"] = {"amount": shown.cost_usd, "currency": "USD"}
    return update


def chunk(kind: str, entry: str, text: str) -> Update:
    """Return a piece of a message."""
    return {"sessionUpdate": kind, "messageId": entry, "content": {"type": "text", "text": text}}


def info(shown: InfoChanged) -> Update:
    """Return the title of a session and when it was changed, as far as they are known."""
    fields = {"title": shown.title, "updatedAt": shown.updated_at}
    given = {name: value for name, value in fields.items() if value is not None}
    return {"sessionUpdate": "session_info_update", **given}


def untitled() -> Update:
    """Return that a session has no title any more."""
    return {"sessionUpdate": "session_info_update", "title": None}


def details(shown: Json) -> Update:
    """Return what no version has a field for."""
    return {"sessionUpdate": "session_info_update", "_meta": {"pinnace": shown}}


def child_state(state: ChildState) -> Update:
    """Return the state of a sub-agent: it works, or has ended for a reason."""
    if state == "running":
        return {"state": "running"}
    found: Update = {"state": "idle", "stopReason": _CHILD_ENDS.get(state, "error")}
    if state not in _CHILD_ENDS:
        text = "the sub-agent has failed" if state == "failed" else "the sub-agent was interrupted"
        found["error"] = {"code": INTERNAL_ERROR, "message": text}
    return found


class LoginMethod(NamedTuple):
    """A way to log in."""

    id: str
    name: str
    description: str
    args: Sequence[str] = ()
    """What the client appends to its command to run it at a terminal; none: the agent itself logs in."""


def login_methods(offer: Offer) -> list[LoginMethod]:
    """Return the ways to log in: to each provider that has a login, with a key, and at a terminal."""
    methods = [
        LoginMethod(f"{_PREFIXES[each.method]}{each.provider}", f"Log in to {each.name}", _DESCRIBED[each.method])
        for each in offer.logins
    ]
    provider = offer.provider or "PROVIDER"
    variable = offer.variable or "the key of a provider"
    description = f"Set {variable} in the environment, or run: pinnace auth login {provider}"
    methods.append(LoginMethod(API_KEY, "API key", description))
    if offer.has_terminals:
        methods.append(
            LoginMethod(
                LOGIN,
                "Log in",
                "Asks for a provider, and for a code in a browser or its key, at a terminal",
                ["--login"],
            )
        )
    return methods


def login_of(method: str) -> ProviderLogin | None:
    """Return what a method logs in to, and how; None: the method is another one."""
    for kind, prefix in _PREFIXES.items():
        if method.startswith(prefix):
            provider = method.removeprefix(prefix)
            return ProviderLogin(provider, provider, kind)
    return None


def offered_details() -> Json:
    """Return what `initialize` announces that no version has a field for."""
    return {"steering": {"supported": True}, "pinnace": {"limits": {"lineBytes": MAX_RECORD_BYTES}}}


def permission_options(question: Question) -> list[Json]:
    """Return the options of a question."""
    return [{"optionId": each.id, "name": each.name, "kind": each.kind} for each in question.options]
