"""Questions of an adapter: how a seed has the user of an editor answer them, and whether agents act on the answers.

Most questions come from the extension of `dialogs`, which notifies of what has come of each. In some histories the user
approves calls: `APPROVED_EXTENSION` has a tool that may change something, the model calls it, and the end of each call
shows whether it has run.

An outcome that no answer has given is what stands for none. It is right where a question has a time limit, where the
user has declined, and where something has ended it: a cancellation, the end of its session, of its connection or of its
agent.
"""

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from pinnace_fuzz.judge.scenarios.shapes import as_list, as_object
from pinnace_fuzz.simulation.dialogs import NONE
from pinnace_fuzz.simulation.model import CALLS, TOOLS

Message: TypeAlias = Mapping[str, Any]  # Any: JSON

_MARKED: Final = "the mark was left"
APPROVED_EXTENSION: Final = f"""
from pinnace.extensions import ExtensionAPI, ToolContext


def extension(pi: ExtensionAPI) -> None:
    @pi.tool
    async def mark(ctx: ToolContext) -> str:
        "Leave a mark."
        return "{_MARKED}"
"""
APPROVED_EXTENSION_NAME: Final = "approved.py"
APPROVED_FLAGS: Final = ("--tools", f"{TOOLS},mark", "--tool-approval", "ask")
APPROVED_CALLS: Final[Sequence[Message]] = ({"name": "mark", "arguments": {}}, *CALLS[1:])
"""Of the model: a call that needs an approval, in place of one that does not."""


class Asks(NamedTuple):
    """The commands of an editor that open dialogs."""

    often: float
    """How many of its prompts are one; a probability."""
    limits_s: Sequence[float]
    """The time limits of the dialogs; 0: none."""


NO_ASKS: Final = Asks(0.0, ())
FEW_ASKS: Final = Asks(0.2, (0.5, 5.0))
MANY_ASKS: Final = Asks(0.4, (0.0, 0.0, 0.5, 5.0))
"""Where the user approves calls, too, which has no limit either."""

_NEVER: Final = 0.2
_TAKES: Final = 0.7
"""How often an answer is none that declines."""
_ANSWERS_S: Final = (0.0, 0.0, 0.3, 3.0, 20.0)
"""How long after a question it is answered."""
_OUTCOME: Final = re.compile(r"((?:ask|call) \d+)=(\w+)")
"""What the extension of dialogs notifies of: the title of a question, and what has come of it."""
_ENDED: Final = frozenset({"completed", "failed"})


def draw_answer(question: Message, draws: random.Random) -> tuple[float, Message] | None:
    """Draw after how many seconds a question is answered, and the response; None: never.

    Args:
        question: A request for a permission or with a form, which the schema allows.
        draws: Decides.
    """
    delay_s, is_never, takes = draws.choice(_ANSWERS_S), draws.random() < _NEVER, draws.random() < _TAKES
    params = question["params"]
    if question["method"] == "session/request_permission":
        option = draws.choice(params["options"])["optionId"]
        outcome = {"outcome": "selected", "optionId": option} if takes else {"outcome": "cancelled"}
        result: Message = {"outcome": outcome}
    else:
        content = {
            name: field["oneOf"][0]["const"] if "oneOf" in field else "a"
            for name, field in params["requestedSchema"]["properties"].items()
        }
        result = {"action": "accept", "content": content} if takes else {"action": "decline"}
    return None if is_never else (delay_s, {"jsonrpc": "2.0", "id": question["id"], "result": result})


class _Question(NamedTuple):
    """A request that is neither answered nor withdrawn."""

    session: str
    subject: str
    """The title of a dialog, or the id of a call."""
    params: Message


@dataclass(slots=True)
class _Matter:
    """What is asked about, perhaps several times: a session that is opened again asks again."""

    is_call: bool
    """The user is asked whether a call may run, not by an extension."""
    answers: set[str] = field(default_factory=set[str])
    """As they are acted on."""
    may_be_none: bool = False
    """Something else than an answer may have ended it."""


class Questions:
    """The questions to one editor, over all its connections."""

    def __init__(self, report: Callable[[str, str], None]) -> None:
        """Know none. `report` takes the source and the text of a finding."""
        self._report = report
        self._open: dict[object, _Question] = {}
        """Those of the current connection, by their ids."""
        self._matters: dict[tuple[str, str], _Matter] = {}
        """By session and subject."""
        self._limited: set[tuple[str, str]] = set()
        """Those of commands with a time limit."""
        self._allowed_sessions: set[str] = set()
        """Where the user has allowed all further calls of the tool."""
        self._is_calm = True
        self._ending: set[str] = set()
        """Sessions of which something may end the questions that come now, on the current connection."""

    @property
    def open(self) -> list[str]:
        """Those that are neither answered nor withdrawn, in words."""
        return [f"the answer to the question {identity} about {each.subject}" for identity, each in self._open.items()]

    # What happens.

    def begin(self) -> None:
        """The machine begins."""
        self._is_calm = True

    def lose(self) -> None:
        """An agent or the host has crashed: until the machine begins again, questions may end by that."""
        self._is_calm = False
        self.end_all()

    def leave(self) -> None:
        """The connection has ended."""
        self._open.clear()
        self._ending.clear()
        self.end_all()

    def end_all(self) -> None:
        """Something may end all questions."""
        for matter in self._matters.values():
            matter.may_be_none = True

    def end(self, session: str) -> None:
        """A message is sent that may end the questions of a session: it cancels, or closes it."""
        self._ending.add(session)
        for (of, _), matter in self._matters.items():
            matter.may_be_none = matter.may_be_none or of == session

    def has_ended(self, session: str) -> None:
        """Everything was carried out: it ends no question that comes from now on."""
        self._ending.discard(session)

    def command(self, session: str, title: str, *, has_limit: bool) -> None:
        """A command is sent that opens a dialog."""
        if has_limit:
            self._limited.add((session, title))

    def ask(self, question: Message) -> None:
        """A question has come."""
        params = question["params"]
        session, call = params["sessionId"], _asked_call(params)
        subject = call or _title(params)
        for identity, each in self._open.items():
            if (each.session, each.subject) == (session, subject):
                self._report("questions", f"{subject} is asked as {question['id']}, and is open as {identity}")
        key = session, subject
        matter = self._matters.setdefault(key, _Matter(call is not None))
        # A call of `read` is asked about by the extension, with a limit.
        is_limited = key in self._limited or (call is None and not subject.startswith("ask "))
        may_be_over = is_limited or session in self._ending or not self._is_calm
        matter.may_be_none = matter.may_be_none or may_be_over
        self._open[question["id"]] = _Question(session, subject, params)

    def withdraw(self, identity: object) -> None:
        """A question was taken back: an answer has no effect any more."""
        if (question := self._open.pop(identity, None)) is not None:
            self._matters[question.session, question.subject].may_be_none = True

    def answer(self, response: Message) -> None:
        """An answer is sent."""
        question = self._open.pop(response["id"], None)
        if question is None:
            return  # too late
        matter = self._matters[question.session, question.subject]
        value, is_for_session = _given(question.params, response["result"])
        matter.answers.add(value)
        if is_for_session:
            self._allowed_sessions.add(question.session)

    # What has come of them.

    def take(self, session: str, update: Message) -> None:
        """Take an update of a session, live or in a replay."""
        if found := _OUTCOME.fullmatch(_said(update)):
            self._check_outcome(session, *found.groups())
        call, status = update.get("toolCallId"), update.get("status")
        if isinstance(call, str) and status in _ENDED:
            has_run = any(_MARKED in text for text in _texts(update))
            self._check_call(session, call, has_run=has_run, is_failed=status == "failed")

    def _check_outcome(self, session: str, title: str, value: str) -> None:
        is_none = value in NONE.values()
        matter = self._matters.get((session, title))
        if matter is None:
            if not is_none:
                self._report("questions", f"the outcome of {title!r} is {value}, and the user was not asked")
        elif value not in matter.answers and not (is_none and matter.may_be_none):
            answers = sorted(matter.answers)
            self._report("questions", f"the outcome of {title!r} is {value}, and the answers were {answers}")

    def _check_call(self, session: str, call: str, *, has_run: bool, is_failed: bool) -> None:
        matter = self._matters.get((session, call))
        answers: set[str] = set() if matter is None else matter.answers
        if has_run and "True" not in answers and session not in self._allowed_sessions:
            self._report("questions", f"the call {call} has run, and the answers were {sorted(answers)}")
        if is_failed and answers == {"True"} and matter is not None and not matter.may_be_none:
            self._report("questions", f"the call {call} was allowed, and has failed")


def _given(params: Message, result: Message) -> tuple[str, bool]:
    """Return an answer as an extension notifies of it, or whether a call may run; and whether further ones may, too."""
    if "options" in params:
        chosen = (as_object(result.get("outcome")) or {}).get("optionId")
        kind = next((each["kind"] for each in params["options"] if each["optionId"] == chosen), "")
        return str(kind.startswith("allow")), kind == "allow_always"
    (name, form), *_ = params["requestedSchema"]["properties"].items()
    titles = {each["const"]: each["title"] for each in as_list(form.get("oneOf")) or ()}
    if result["action"] != "accept":
        return str(False) if "yes" in titles else str(None), False
    given: str = result["content"][name]
    return {"yes": str(True), "no": str(False)}.get(given, str(titles.get(given, given))), False


def _asked_call(params: Message) -> str | None:
    """Return the id of the call that a permission is asked for, if it is one that the model has made."""
    call = (
        as_object(params.get("toolCall")) or as_object((as_object(params.get("subject")) or {}).get("toolCall")) or {}
    )
    identity = call.get("toolCallId")
    return identity if isinstance(identity, str) and not identity.startswith("dialog:") else None


def _title(params: Message) -> str:
    call = as_object(params.get("toolCall")) or {}
    return str(params.get("message") or params.get("title") or call.get("title"))


def _said(update: Message) -> str:
    """Return the text of a notification."""
    if update.get("sessionUpdate") == "notice":
        return str(update.get("title"))
    return str((as_object(update.get("content")) or {}).get("text", ""))


def _texts(update: Message) -> Iterator[str]:
    for each in as_list(update.get("content")) or ():
        yield str((as_object((as_object(each) or {}).get("content")) or {}).get("text"))
