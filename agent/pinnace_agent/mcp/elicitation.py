"""Questions of servers to the user, as dialogs: first whether to answer at all, then one for each field.

A server may ask at any time and as often as it likes: one question is open at a time, and their number per call is
limited. Declining, and not answering in time, are answers. A form that is not flat is declined, as is an address that
can't be shown whole or is none of the web.

Each dialog begins with the name of its server, so that no field passes for a question of this program, and every text
of the server is shown with what can't be seen in it escaped.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import trio

from pinnace_agent.core.visible_text import visible_line
from pinnace_agent.files.relaxed_json import is_list, is_object
from pinnace_agent.mcp import limits

ANSWER_S: Final = 300.0
"""For the whole form."""
_MOST_QUESTIONS: Final = 10
"""Of one server within a minute."""
_WINDOW_S: Final = 60.0
_MOST_TRIES: Final = 3
_MOST_CHARS: Final = 2_000

ANSWER: Final = "Answer"
DECLINE: Final = "Decline"
CANCEL: Final = "Cancel"
OPENED: Final = "Opened"
DONE: Final = "Done"
_YES_NO: Final = ("Yes", "No")

Result = Mapping[str, object]


class Asking(Protocol):
    """The dialogs that a form needs. Each returns None if the user cancels."""

    async def select(self, title: str, options: Sequence[str], url: str | None = None) -> str | None:
        """Let the user choose; `url` is an address that the user is asked to open."""
        ...

    async def input(self, title: str, placeholder: str | None) -> str | None:
        """Let the user enter a line."""
        ...


class _Cancelled(Exception):
    """The user has cancelled a dialog."""


class Elicitation:
    """The questions of one server."""

    def __init__(self, server: str) -> None:
        """Have asked nothing."""
        self._server = f"MCP server {visible_line(server)}"
        self._lock = trio.Lock()
        self._asked_s: list[float] = []

    async def ask(self, params: Mapping[str, object], asking: Asking) -> Result:
        """Ask the user, and return the result of `elicitation/create`."""
        now_s = trio.current_time()
        self._asked_s = [each for each in self._asked_s if now_s - each < _WINDOW_S]
        if len(self._asked_s) >= _MOST_QUESTIONS:
            return {"action": "decline"}
        self._asked_s.append(now_s)
        async with self._lock:
            with trio.move_on_after(ANSWER_S):
                try:
                    return await self._asked(params, asking)
                except _Cancelled:
                    pass
        return {"action": "cancel"}

    async def _asked(self, params: Mapping[str, object], asking: Asking) -> Result:
        text = _shown(params.get("message"))
        if params.get("mode") == "url":
            return await self._address(text, params.get("url"), asking)
        schema = params.get("requestedSchema")
        fields = _fields(schema if is_object(schema) else {}, self._server)
        if fields is None:
            return {"action": "decline"}
        chosen = await asking.select(f"{self._server} asks: {text}", (ANSWER, DECLINE, CANCEL))
        if chosen == DECLINE:
            return {"action": "decline"}
        if chosen != ANSWER:
            raise _Cancelled
        content: dict[str, object] = {}
        for field in fields:
            await field.ask(asking, content)
        return {"action": "accept", "content": content}

    async def _address(self, text: str, url: object, asking: Asking) -> Result:
        from urllib.parse import urlsplit

        shown = visible_line(url) if isinstance(url, str) else ""
        try:
            parts = urlsplit(shown)
        except ValueError:
            return {"action": "decline"}
        if shown != url or len(shown) > _MOST_CHARS or parts.scheme not in ("http", "https") or not parts.hostname:
            return {"action": "decline"}
        title = f"{self._server} asks you to open an address of {parts.netloc}: {text}\n{shown}"
        match await asking.select(title, (OPENED, DECLINE, CANCEL), shown):
            case "Opened":
                return {"action": "accept"}
            case "Decline":
                return {"action": "decline"}
            case _:
                raise _Cancelled


class _Field:
    """One field of a form."""

    def __init__(self, name: str, schema: Mapping[str, object], server: str, *, is_required: bool) -> None:
        self._name = name
        self._schema = schema
        self._is_required = is_required
        title = _shown(schema.get("title")) or _shown(name)
        about = _shown(schema.get("description"))
        self._question = f"{server} asks for {title}: {about}" if about else f"{server} asks for {title}"

    @property
    def is_flat(self) -> bool:
        """Whether it can be asked."""
        kind = self._schema.get("type")
        return kind in ("string", "number", "integer", "boolean") or (kind == "array" and bool(self._choices("items")))

    async def ask(self, asking: Asking, content: dict[str, object]) -> None:
        match self._schema.get("type"):
            case "boolean":
                content[self._name] = await self._chosen(asking, _YES_NO) == _YES_NO[0]
            case "array":
                await self._several(asking, content)
            case _ if choices := self._choices():
                content[self._name] = choices[await self._chosen(asking, tuple(choices))]
            case _:
                await self._line(asking, content)

    async def _chosen(self, asking: Asking, options: Sequence[str]) -> str:
        chosen = await asking.select(self._question, options)
        if chosen is None:
            raise _Cancelled
        return chosen

    async def _several(self, asking: Asking, content: dict[str, object]) -> None:
        choices = self._choices("items")
        taken: list[str] = []
        while len(taken) < len(choices):
            chosen = await self._chosen(asking, (*(each for each in choices if each not in taken), DONE))
            if chosen == DONE:
                break
            taken.append(chosen)
        content[self._name] = [choices[each] for each in taken]

    async def _line(self, asking: Asking, content: dict[str, object]) -> None:
        default = self._schema.get("default")
        placeholder = "" if default is None else _shown(str(default))
        problem = ""
        for _ in range(_MOST_TRIES):
            said = await asking.input(f"{self._question}{problem}", placeholder or None)
            if said is None:
                raise _Cancelled
            if not said:
                if default is not None:
                    content[self._name] = default
                    return
                if not self._is_required:
                    return
                problem = " (an answer is required)"
                continue
            value = self._read(said)
            if value is not None:
                content[self._name] = value
                return
            problem = f" (not {self._wanted()})"
        raise _Cancelled

    def _read(self, said: str) -> object:
        """Return the value that a line is; None: it is none that the server takes."""
        if self._schema.get("type") == "string":
            least, most = self._schema.get("minLength"), self._schema.get("maxLength")
            is_short = isinstance(least, int) and len(said) < least
            return None if is_short or (isinstance(most, int) and len(said) > most) else said
        try:
            value = int(said) if self._schema.get("type") == "integer" else float(said)
        except ValueError:
            return None
        if not math.isfinite(value):
            return None
        least, most = self._schema.get("minimum"), self._schema.get("maximum")
        if (isinstance(least, int | float) and value < least) or (isinstance(most, int | float) and value > most):
            return None
        return value

    def _wanted(self) -> str:
        bounds = {
            key: self._schema[key] for key in ("minLength", "maxLength", "minimum", "maximum") if key in self._schema
        }
        kind = _shown(self._schema.get("type"))
        return " ".join([kind, *(f"{key} {value}" for key, value in bounds.items())])

    def _choices(self, within: str | None = None) -> dict[str, object]:
        """Return the values to choose from, by what is shown for them; empty: it is no choice."""
        inner = self._schema.get(within) if within is not None else self._schema
        if not is_object(inner):
            return {}
        for key in ("oneOf", "anyOf"):
            if is_list(titled := inner.get(key)):
                pairs = [each for each in titled if is_object(each) and "const" in each]
                return {_shown(each.get("title")) or _shown(str(each["const"])): each["const"] for each in pairs}
        values, names = inner.get("enum"), inner.get("enumNames")
        if not is_list(values):
            return {}
        shown = names if is_list(names) and len(names) == len(values) else values
        return {_shown(str(name)): value for name, value in zip(shown, values, strict=True)}


def _fields(schema: Mapping[str, object], server: str) -> list[_Field] | None:
    """Return the fields of a form of a server; None: it is not flat, or too long."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not is_object(properties) or not is_list(required) or len(properties) > limits.FORM_FIELDS:
        return None
    fields: list[_Field] = []
    for name, each in properties.items():
        if not is_object(each):
            return None
        field = _Field(name, each, server, is_required=name in required)
        if not field.is_flat:
            return None
        fields.append(field)
    return fields


def _shown(value: object) -> str:
    """Return a text of a server as it is shown, and how much of it is not shown."""
    if not isinstance(value, str):
        return ""
    shown = visible_line(value)
    left = len(shown) - _MOST_CHARS
    return shown if left <= 0 else f"{shown[:_MOST_CHARS]}… ({left} characters more)"
