"""Questions of one agent: asked of the client as permissions or forms, and answered exactly once.

A question about a call that names how each option is meant becomes a permission, and one that has an address is asked
with it; others become forms, where the client has them, and are declined where it has not. What is no answer of the
user declines as well. Must not know turns.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias, cast

from pinnace_agent.core.json_access import as_object
from pinnace_rpc.acp.outbox import Outbox
from pinnace_rpc.acp.translation.jsonrpc import METHOD_NOT_FOUND, Reply
from pinnace_rpc.acp.translation.shown import Call, Json, Update
from pinnace_rpc.acp.translation.tool_calls import text_content
from pinnace_rpc.acp.translation.version import Client, Option, Question

_CONFIRM_KINDS: Final = (Option("allow_once", "Yes", "allow_once"), Option("reject_once", "No", "reject_once"))

Emit: TypeAlias = Callable[[Update], None]


class OpenDialogs:
    """The open questions of one session."""

    def __init__(
        self,
        session_id: str,
        cwd: str,
        outbox: Outbox,
        answer: Callable[[Json], None],
        emit: Emit,
        changed: Callable[[], None],
        announcing: Callable[[], None],
        client: Client,
    ) -> None:
        """Begin without any.

        Args:
            session_id: Of the session.
            cwd: Its folder.
            outbox: Takes requests to the client.
            answer: Takes answers for the agent.
            emit: Takes updates of the session.
            changed: Called when a question has been asked, or is over.
            announcing: Called before a call is announced for a question alone.
            client: Of the connection.
        """
        self._translation, self._abilities = client
        self._session_id = session_id
        self._cwd = cwd
        self._outbox = outbox
        self._answer = answer
        self._emit = emit
        self._changed = changed
        self._announcing = announcing
        self._open: dict[str, int] = {}
        """The request for each dialog, by the dialog's id."""
        self._calls: dict[str, str] = {}
        """The dialog of each call that is asked for, by the agent's id of the call."""
        self._announced: dict[str, str] = {}
        """The call that was announced for a dialog alone, by the dialog's id."""
        self._refuses_permissions = False

    @property
    def calls(self) -> frozenset[str]:
        """The agent's ids of the calls that open questions are about."""
        return frozenset(self._calls)

    def __len__(self) -> int:
        """Return the number of open questions."""
        return len(self._open)

    def ask(self, record: Json, call: Call | None) -> None:
        """Ask the client's user.

        Args:
            record: The dialog.
            call: What the client knows of the call that it is about; None: it is about none.
        """
        kinds = record.get("optionKinds")
        method = record["method"]
        if method == "select" and call is not None and isinstance(kinds, list):
            self._ask_permission(record, call, _given_options(record, cast("Sequence[object]", kinds)))
        elif method == "confirm" and call is not None:
            self._ask_permission(record, call, _CONFIRM_KINDS)
        elif self._abilities.addresses and method == "select" and isinstance(record.get("url"), str):
            self._ask_address(record, call)
        elif self._abilities.forms:
            self._ask_form(record, call)
        elif method == "confirm":
            self._ask_alone(record, _CONFIRM_KINDS)
        elif method == "select" and isinstance(kinds, list):  # of a sub-agent that a client has started, for example
            self._ask_alone(record, _given_options(record, cast("Sequence[object]", kinds)))
        else:
            self._decline(record)

    def end_call(self, call_id: str) -> None:
        """Withdraw the question about a call that has ended.

        Args:
            call_id: The agent's id of the call.
        """
        if (dialog := self._calls.pop(call_id, None)) is not None:
            self._withdraw(dialog)

    def resolve(self, dialog: str) -> None:
        """Withdraw a question that is over: someone else has answered it, its time is over, or it was given up."""
        self._withdraw(dialog)

    def withdraw_all(self) -> None:
        """Withdraw every question: the agent does not wait for answers any more."""
        for dialog in list(self._open):
            self._withdraw(dialog)

    # Permissions.

    def _ask_permission(
        self, record: Json, call: Call | None, options: Sequence[Option], announced: str | None = None
    ) -> None:
        if self._refuses_permissions:
            self._forget(str(record["id"]))
            self._refuse(record, options)
            return
        if isinstance(call_id := record.get("toolCallId"), str):
            self._calls[call_id] = str(record["id"])
        question = Question(str(record.get("title", "")), str(record.get("message", "")), call, announced, options)
        params = {"sessionId": self._session_id, **self._translation.permission(question, self._cwd)}

        def take(reply: Reply) -> None:
            if _code(reply) == METHOD_NOT_FOUND:
                self._refuses_permissions = True
            chosen = _chosen(reply)
            index = next((place for place, option in enumerate(options) if option.id == chosen), None)
            if index is None:
                self._refuse(record, options)
            else:
                self._give(record, options, index)

        self._request(record, "session/request_permission", params, take)

    def _ask_alone(self, record: Json, options: Sequence[Option]) -> None:
        """Ask for a permission that is about no call; some versions need one that exists for the question alone."""
        if not self._translation.announces_questions:
            self._ask_permission(record, None, options)
            return
        title = str(record.get("title", "")) or "Question"
        announced = f"dialog:{record['id']}"  # no other one of the connection, also of a session that is opened again
        call: Update = {"toolCallId": announced, "title": title, "kind": "other", "status": "pending"}
        if said := str(record.get("message", "")):
            call["content"] = text_content(said)
        self._announcing()
        self._emit({"sessionUpdate": "tool_call", **call})
        self._announced[str(record["id"])] = announced
        self._ask_permission({**record, "title": title}, None, options, announced)

    def _give(self, record: Json, options: Sequence[Option], index: int) -> None:
        if record["method"] == "confirm":
            self._post(record, confirmed=options[index].kind.startswith("allow"))
        else:
            self._post(record, value=cast("Sequence[object]", record["options"])[index])

    def _refuse(self, record: Json, options: Sequence[Option]) -> None:
        index = next((place for place, option in enumerate(options) if option.kind == "reject_once"), None)
        if index is None:
            self._decline(record)
        else:
            self._give(record, options, index)

    # Forms.

    def _ask_form(self, record: Json, call: Call | None) -> None:
        title = str(record.get("title", ""))
        properties, read = form_of(record)
        params: dict[str, object] = {
            "sessionId": self._session_id,
            "mode": "form",
            "message": "\n\n".join(text for text in (title, str(record.get("message", ""))) if text) or "Question",
            "requestedSchema": {"type": "object", "properties": properties, "required": list(properties)},
        }
        if call is not None:
            params["toolCallId"] = call.id

        def take(reply: Reply) -> None:
            result = as_object(reply.result) or {}
            is_accepted = result.get("action") == "accept"
            given = read(as_object(result.get("content")) or {}) if is_accepted else None
            if given is None:
                self._decline(record)
            else:
                self._post(record, **given)

        self._request(record, "elicitation/create", params, take)

    # Addresses.

    def _ask_address(self, record: Json, call: Call | None) -> None:
        options = cast("Sequence[object]", record["options"])
        params: dict[str, object] = {
            "sessionId": self._session_id,
            "mode": "url",
            "elicitationId": str(record["id"]),
            "url": record["url"],
            "message": str(record.get("title", "")),
        }
        if call is not None:
            params["toolCallId"] = call.id

        def take(reply: Reply) -> None:
            action = (as_object(reply.result) or {}).get("action")
            if action == "accept":
                self._post(record, value=options[0])
            elif action == "decline" and len(options) > 1:
                self._post(record, value=options[1])
            else:
                self._decline(record)

        self._request(record, "elicitation/create", params, take)

    # All.

    def _request(self, record: Json, method: str, params: Json, take: Callable[[Reply], None]) -> None:
        dialog = str(record["id"])

        def once(reply: Reply) -> None:
            self._forget(dialog)
            take(reply)

        self._open[dialog] = self._outbox.ask(method, params, once)
        self._changed()

    def _withdraw(self, dialog: str) -> None:
        request = self._open.get(dialog)
        self._forget(dialog)
        if request is not None:
            self._outbox.withdraw(request)

    def _forget(self, dialog: str) -> None:
        self._open.pop(dialog, None)
        if (announced := self._announced.pop(dialog, None)) is not None:
            self._emit({"sessionUpdate": "tool_call_update", "toolCallId": announced, "status": "completed"})
        for call_id in [key for key, value in self._calls.items() if value == dialog]:
            del self._calls[call_id]
        self._changed()

    def _decline(self, record: Json) -> None:
        self._post(record, cancelled=True)

    def _post(self, record: Json, **answer: object) -> None:
        self._answer({"type": "extension_ui_response", "id": record["id"], **answer})


def _given_options(record: Json, kinds: Sequence[object]) -> list[Option]:
    """Return the id, the name and the kind of each option. Ids are kinds where no kind comes twice."""
    names = [str(name) for name in cast("Sequence[object]", record["options"])]
    is_unique = len(set(map(str, kinds))) == len(kinds)
    return [
        Option(str(kind) if is_unique else f"{kind}:{index}", name, str(kind))
        for index, (name, kind) in enumerate(zip(names, kinds, strict=False))
    ]


def form_of(record: Json) -> tuple[Json, Callable[[Json], Mapping[str, object] | None]]:
    """Return the fields of a form, and what reads what was entered; None: it does not fit."""
    match record["method"]:
        case "select":
            options = [str(option) for option in cast("Sequence[object]", record["options"])]
            return _choice([(str(index), option, {"value": option}) for index, option in enumerate(options)])
        case "confirm":
            return _choice([("yes", "Yes", {"confirmed": True}), ("no", "No", {"confirmed": False})])
        case _:
            field: dict[str, object] = {"type": "string", "title": "Answer"}
            if isinstance(placeholder := record.get("placeholder"), str) and placeholder:
                field["description"] = placeholder
            if isinstance(prefill := record.get("prefill"), str) and prefill:
                field["default"] = prefill

            def entered(content: Json) -> Mapping[str, object] | None:
                value = content.get("value")
                return {"value": value} if isinstance(value, str) else None

            return {"value": field}, entered


def _choice(options: Sequence[tuple[str, str, Json]]) -> tuple[Json, Callable[[Json], Json | None]]:
    """Return the field of one choice, and what reads it; of each option its value, its title and its answer."""
    answers = {value: answer for value, _, answer in options}
    field = {"type": "string", "title": "Choice", "oneOf": [{"const": each[0], "title": each[1]} for each in options]}
    return {"choice": field}, lambda content: answers.get(str(content.get("choice")))


def _chosen(reply: Reply) -> str | None:
    chosen = as_object((as_object(reply.result) or {}).get("outcome")) or {}
    identity = chosen.get("optionId")
    return identity if chosen.get("outcome") == "selected" and isinstance(identity, str) else None


def _code(reply: Reply) -> object:
    return (as_object(reply.error) or {}).get("code")
