"""Logins to providers that one client asks for: by the command `login` of an agent, which serves this question alone.

A method to log in is offered where this program makes the login itself, and to clients that can show its address and
its code: as an address to open, else as a form without fields. A login in a browser also asks by a form with a field
for what the browser was sent to, where the client has forms; without them it waits for the browser alone. The login
ends when its user declines, when the client cancels the request or sends no more, with a later login of the provider,
with a logout, and with the connection; its agent is ended then, which stores nothing (R-KEY-04). No key is asked for.
Must not know sessions, nor the methods of a version.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import trio

from pinnace_agent.core.json_access import as_object
from pinnace_agent.core.surroundings import random_uuid, wall_time_ns
from pinnace_rpc.acp.core import EditorAgent, Record
from pinnace_rpc.acp.dialogs import form_of
from pinnace_rpc.acp.figures import data_of
from pinnace_rpc.acp.outbox import Outbox
from pinnace_rpc.acp.translation.abilities import Abilities
from pinnace_rpc.acp.translation.jsonrpc import AUTH_REQUIRED, CANCELLED, INVALID_PARAMS, Reply, RequestError, RequestId
from pinnace_rpc.acp.translation.shown import Json
from pinnace_spec.records.messages import LoginKind
from pinnace_spec.rules.errors import LOGIN_ABORTED, LOGIN_REPLACED, SHUTTING_DOWN

_OPTIONS: Final[Mapping[LoginKind, str]] = {
    "device-code": "--device-code",
    "browser": "--browser",
    "extension": "-e FILE",
}
_MINUTE_S: Final = 60.0

StartAgent = Callable[[str], Awaitable[EditorAgent]]
"""Starts an agent that serves a question about a provider, and no session."""


class Logins:
    """The logins of one connection that wait for their users: at most one for each provider."""

    def __init__(self, start: StartAgent, outbox: Outbox, abilities: Abilities) -> None:
        """Begin without one.

        Args:
            start: Starts the agent of a login.
            outbox: Takes what the user is shown.
            abilities: Of the client.
        """
        self._start = start
        self._outbox = outbox
        self._abilities = abilities
        self._waiting: dict[str, _Login] = {}
        self._is_over = False
        self._made: dict[str, None] = {}

    @property
    def made(self) -> Sequence[str]:
        """The providers that the client has logged in to, and that no logout has forgotten."""
        return tuple(self._made)

    async def log_in(self, provider: str, method: LoginKind, request: RequestId) -> Json:
        """Let the user log in to a provider; return what the agent says of its credentials then. Cancelling gives up.

        Args:
            provider: Its id.
            method: With a code or in a browser.
            request: Of the client, which what is shown belongs to.

        Raises:
            RequestError: The client can't show a code, the user has declined, the login was ended, or has failed.
            CoreEnded: The agent has ended.
            AgentStartError: It could not be started.
        """
        if not can_show_code(self._abilities):
            text = f"the client can't show a login; run: pinnace auth login {provider} {_OPTIONS[method]}"
            raise RequestError(INVALID_PARAMS, f"params.methodId: {text}", {"errorCode": "invalid_field"})
        if self._is_over:
            raise _ended(SHUTTING_DOWN, "shutting_down")
        if (former := self._waiting.get(provider)) is not None:
            former.stop(_ended(LOGIN_REPLACED))
        login = self._waiting[provider] = _Login(provider, method, request, self._outbox, self._abilities)
        try:
            shown = await login.run(self._start)
        finally:
            if self._waiting.get(provider) is login:
                del self._waiting[provider]
        self._made[provider] = None
        return shown

    async def log_out(self, providers: Sequence[str]) -> None:
        """Remove what is stored for providers that this program logs in to. Errors as of `log_in`."""
        core = await self._start(providers[0])
        try:
            for provider in providers:
                data_of(await core.ask("logout", provider=provider, force=True))  # it can be made again
                self._made.pop(provider, None)
        finally:
            core.close()

    def abort(self) -> None:
        """End all logins: the client logs out."""
        self._stop_all(_ended(LOGIN_ABORTED))

    def end(self) -> None:
        """End all logins, and refuse further ones: the client sends no more, so that it answers nothing."""
        self._is_over = True
        self._stop_all(_ended(SHUTTING_DOWN, "shutting_down"))

    def _stop_all(self, why: RequestError) -> None:
        for login in self._waiting.values():
            login.stop(why)


class _Login:
    """One login that waits for its user."""

    def __init__(
        self, provider: str, method: LoginKind, request: RequestId, outbox: Outbox, abilities: Abilities
    ) -> None:
        self._provider = provider
        self._method: LoginKind = method
        self._request = request
        self._outbox = outbox
        self._has_addresses = abilities.addresses
        self._has_forms = abilities.forms
        self._scope = trio.CancelScope()
        self._why: RequestError | None = None
        self._answer: Record | None = None
        self._answered = trio.Event()
        self._asked: int | None = None
        """What the client was asked to show, while it has not answered."""
        self._questions: dict[str, int] = {}
        """The forms that are open, by the dialogs of the agent."""
        self._core: EditorAgent | None = None
        self._elicitation = ""
        """The id of the address that the client was asked to open; empty: of none."""

    def stop(self, why: RequestError) -> None:
        """End it for this reason, unless it has ended or has another one."""
        if self._why is None:
            self._why = why
        self._scope.cancel()

    async def run(self, start: StartAgent) -> Json:
        core: EditorAgent | None = None
        try:
            with self._scope:
                core = self._core = await start(self._provider)
                core.listen(self._take)
                core.send("login", {"provider": self._provider, "method": self._method}, self._take_answer)
                await core.until(self._answered)
            if self._answer is None:
                assert self._why is not None  # nothing else cancels the scope
                raise self._why
            shown = data_of(self._answer)
            if self._elicitation:
                self._outbox.notify("elicitation/complete", {"elicitationId": self._elicitation})
            return shown
        finally:
            for asked in (self._asked, *self._questions.values()):
                if asked is not None:
                    self._outbox.withdraw(asked)
            if core is not None:
                core.listen(_ignore)
                core.close()

    def _take_answer(self, answer: Record) -> None:
        self._answer = answer
        self._answered.set()

    def _take(self, record: Record) -> None:
        """Show the user what to do."""
        match record["type"]:
            case "login_start" if self._method != "browser" or self._has_addresses:
                self._show(record)
            case "extension_ui_request" if record.get("loginProvider") == self._provider:
                self._ask_user(str(record.get("id")), record)
            case "extension_ui_resolved" if (asked := self._questions.pop(str(record.get("id")), None)) is not None:
                self._outbox.withdraw(asked)
            case _:
                pass

    def _show(self, record: Record) -> None:
        address, code = str(record.get("url")), record.get("userCode")
        task = "open the address" if code is None else f"open the address and enter the code {code}"
        expires_ms = record.get("expiresAt")
        minutes = 0
        if isinstance(expires_ms, int | float):
            minutes = max(1, round((expires_ms / 1000 - wall_time_ns() / 1e9) / _MINUTE_S))
        within = f" within {minutes} min" if minutes else ""
        params: dict[str, object] = {"requestId": self._request}
        if self._has_addresses:
            self._elicitation = random_uuid()
            said = f"To log in to {self._provider}, {task}{within}."
            params |= {"mode": "url", "elicitationId": self._elicitation, "url": address, "message": said}
        else:
            task = f"open {address}" if code is None else f"open {address} and enter the code {code}"
            said = f"To log in to {self._provider}, {task}{within}."
            params |= {"mode": "form", "message": said, "requestedSchema": {"type": "object", "properties": {}}}
        self._asked = self._outbox.ask("elicitation/create", params, self._take_reply)

    def _ask_user(self, dialog: str, record: Record) -> None:
        """Ask by a form: what a browser was sent to, beside the address that the client opens; what an extension asks.

        Without forms it is answered with nothing: the browser may come, and an extension gives up.
        """
        if not self._has_forms:
            self._answer_dialog(dialog, None)
            return
        properties, read = form_of(record)
        schema = {"type": "object", "properties": properties, "required": list(properties)}
        message = str(record.get("title"))
        params = {"requestId": self._request, "mode": "form", "message": message, "requestedSchema": schema}

        def take(reply: Reply) -> None:
            del self._questions[dialog]
            result = as_object(reply.result) or {}
            if result.get("action") == "accept":
                self._answer_dialog(dialog, read(as_object(result.get("content")) or {}))
            elif self._method == "browser" and self._has_addresses:
                self._answer_dialog(dialog, None)  # the browser may come
            else:
                self._take_reply(reply)

        self._questions[dialog] = self._outbox.ask("elicitation/create", params, take)

    def _answer_dialog(self, dialog: str, given: Json | None) -> None:
        assert self._core is not None  # it has asked
        answer: Json = {"cancelled": True} if given is None else given
        self._core.post({"type": "extension_ui_response", "id": dialog, **answer})

    def _take_reply(self, reply: Reply) -> None:
        """Go on waiting if the user agrees, which is not the end of the login; else end it."""
        self._asked = None
        action = (as_object(reply.result) or {}).get("action")
        if action == "accept":
            return
        said = "the user has declined" if action == "decline" else "the client has not shown it"
        data = {"errorCode": "aborted", "provider": self._provider}
        text = f"no login to {self._provider}: {said}; to log in without the client, run: "
        text += f"pinnace auth login {self._provider} {_OPTIONS[self._method]}"
        self.stop(RequestError(AUTH_REQUIRED, text, data))


def can_show_code(abilities: Abilities) -> bool:
    """Return whether a client can show the address of a login, and its code."""
    return abilities.addresses or abilities.forms


def _ignore(_record: Record) -> None:
    """Take a record of an agent that is ending."""


def _ended(text: str, code: str = "aborted") -> RequestError:
    return RequestError(CANCELLED, text, {"errorCode": code})
