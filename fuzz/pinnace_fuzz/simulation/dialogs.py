"""Dialogs of an extension, of which a seed decides how they are answered: at once, late, or never.

`EXTENSION` is loaded by the agent. Its command `/ask` opens a dialog, and so does each call of `read`; what has come of
a dialog is reported by a notification with the dialog's title. It must be the client's answer, or what stands for none;
without a time limit, and without an abort, it must be the answer. A late answer changes nothing, and has no response.
"""

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from pinnace_fuzz.records import Record

EXTENSION: Final = """
from pinnace.extensions import Block, CommandContext, Context, ExtensionAPI, events as ev


def extension(pi: ExtensionAPI) -> None:
    calls = 0

    @pi.command("ask", description="Open a dialog")
    async def ask(ctx: CommandContext, args: str) -> None:
        number, method, limit = args.split()
        title, limit_s = f"ask {number}", float(limit) or None
        if method == "confirm":
            value = await ctx.ui.confirm(title, timeout=limit_s)
        elif method == "select":
            value = await ctx.ui.select(title, ["a", "b"], timeout=limit_s)
        else:
            value = await ctx.ui.input(title, timeout=limit_s)
        ctx.ui.notify(f"{title}={value}")

    @pi.on(ev.ReadCall)
    async def gate(ctx: Context, event: ev.ReadCall) -> Block | None:
        nonlocal calls
        calls += 1
        title = f"call {calls}"
        value = await ctx.ui.confirm(title, timeout=2)
        ctx.ui.notify(f"{title}={value}")
        return None if value else Block("denied")
"""
EXTENSION_NAME: Final = "dialogs.py"
METHODS: Final = ("confirm", "select", "input")
_LIMITS_S: Final = (0.0, 0.5, 5.0)
_ANSWERS_S: Final = (0.0, 0.0, 0.3, 3.0, 20.0)
"""How long after a request it is answered."""
_NEVER: Final = 0.2
NONE: Final = {"confirm": "False", "select": "None", "input": "None"}


def draw_answer(request: Record, draws: random.Random) -> tuple[float, Record] | None:
    """Draw after how many seconds a client answers a request, and what; None: never."""
    value = draws.choice(("a", "b"))
    response: Record = {"type": "extension_ui_response", "id": request["id"]}
    match request["method"]:
        case "confirm":
            response["confirmed"] = value == "a"
        case _:
            response["value"] = value
    delay_s = draws.choice(_ANSWERS_S)
    return None if draws.random() < _NEVER else (delay_s, response)


@dataclass(slots=True)
class _Dialog:
    request: str
    """Its id."""
    method: str
    has_limit: bool
    answer: str | None = None
    """What was answered, as the extension reports it; None: nothing yet."""
    is_over: bool = False
    is_left: bool = False
    """An abort, or another session, may have ended it without a notification."""


class Dialogs:
    """The dialogs of one life of the agent, as its client knows them."""

    def __init__(self, draws: random.Random, report: Callable[[str, str], None]) -> None:
        """Know none."""
        self._draws = draws
        self._report = report
        self._count = 0
        self._leaving = 0
        """How many of the commands that end dialogs are not answered."""
        self._by_title: dict[str, _Dialog] = {}
        self._behind: dict[str, set[str]] = {}
        """By the title of a dialog, the ids of the unanswered commands that replace the session before it is opened."""

    @property
    def is_open(self) -> bool:
        """Whether a dialog has no outcome that will have one by itself."""
        open_ones = (each for each in self._by_title.values() if not (each.is_over or each.is_left))
        return any(each.has_limit or each.answer is not None for each in open_ones)

    def command(self) -> Record:
        """Draw a command that opens a dialog."""
        self._count += 1
        method, limit_s = self._draws.choice(METHODS), self._draws.choice(_LIMITS_S)
        return {"type": "prompt", "message": f"/ask {self._count} {method} {limit_s}"}

    def follow(self, command: Record, replacing: Collection[str]) -> None:
        """A command that opens a dialog is sent behind others, which replace the session and are not answered."""
        self._behind[f"ask {command['message'].split()[1]}"] = set(replacing)

    def replaced(self, command_id: str) -> None:
        """A command that replaces the session is answered."""
        for ids in self._behind.values():
            ids.discard(command_id)

    def take(self, record: Record) -> tuple[float, Record] | None:
        """Take a request; return after how many seconds which answer is sent, if one is."""
        if record["method"] == "notify":
            self._end(record["message"])
            return None
        if record["method"] not in METHODS:
            return None
        title, method = record["title"], record["method"]
        if self._behind.get(title):
            self._report("dialogs", f"{title!r} is opened, and the session that it belongs to is not announced yet")
        if title in self._by_title and not self._by_title[title].is_left:
            self._report("dialogs", f"the dialog {title!r} was opened twice")
        self._by_title[title] = _Dialog(record["id"], method, "timeout" in record, is_left=self._leaving > 0)
        answer = draw_answer(record, self._draws)
        return None if answer is None else (answer[0], {**answer[1], "_title": title})

    def answered(self, response: Record) -> Record:
        """An answer is sent; return the record of it."""
        title = response.pop("_title")
        if (dialog := self._by_title.get(title)) is not None and dialog.request == response["id"]:
            dialog.answer = str(response.get("confirmed", response.get("value")))
        return response

    def leave(self, *, is_answered: bool = False) -> None:
        """An abort, a command that replaces the session, or the end of stdin is sent, or answered."""
        self._leaving += -1 if is_answered else 1
        for dialog in self._by_title.values():
            dialog.is_left = True

    def _end(self, text: str) -> None:
        title, _, value = text.partition("=")
        dialog = self._by_title.get(title)
        if dialog is None or dialog.is_over:
            self._report("dialogs", f"{text!r} is the outcome of a dialog that was not open")
            return
        dialog.is_over = True
        none = NONE[dialog.method]
        may_be_none = dialog.has_limit or dialog.is_left
        if value != dialog.answer and not (value == none and may_be_none):
            self._report("dialogs", f"the outcome of {title!r} is {value}, and the answer was {dialog.answer}")
