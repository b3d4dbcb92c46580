"""Every command in every busy state between two runs: the retry delay and the compactions, over real pipes.

What is expected is the table "command × state" of the chart, written down once more and not derived from its rows. A
state is held at a gate of the LLM, or in a delay that nobody outwaits. A command comes in a write of its own, or in
one write with a command that ends the state: before that one, and behind it. One agent has all cells, each in a
session of its own and with answers of its own.
"""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

import pytest

from pinnace_fuzz.records import Record, encode_record
from pinnace_fuzz.trials.reading import kinds, user_texts
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent
from pinnace_spec.records.command_table import CLIENT_ANSWERS, READS
from pinnace_spec.rules import errors
from pinnace_spec.session_format import validate_session
from pinnace_spec.statechart.transitions import COMMANDS

Timing = Literal["apart", "before_abort", "after_abort", "before_new_session", "after_new_session"]
TIMINGS: Final[tuple[Timing, ...]] = (
    "apart",
    "before_abort",
    "after_abort",
    "before_new_session",
    "after_new_session",
)
# Nobody waits for it: a cell that does fails, since that is longer than its patience.
ENDLESS_DELAY_MS: Final = 600_000
SETTINGS: Final = {
    "retry": {"baseDelayMs": ENDLESS_DELAY_MS, "maxAgentDelayMs": ENDLESS_DELAY_MS},
    # The last prompt stays, and everything before it is summarised.
    "compaction": {"keepRecentTokens": 2},
}
# Over the threshold of m1, and within its window.
NEARLY_FULL: Final = {"input": 120_000, "output": 5}
OVERFLOW: Final = {"error": {"status": 400, "body": {"error": {"message": "prompt is too long"}}}}
TRANSIENT: Final = {"error": {"status": 500}}
# What a run tells inside its brackets, and what settings tell, is for other tests. The place of an announcement is
# judged of every trace (I-SES-1).
WITHIN_RUNS: Final = {"message_start", "message_update", "message_end", "turn_start", "turn_end"}
OF_SETTINGS: Final = {"thinking_level_changed", "session_info_changed", "session_changed"}
PATIENCE_S: Final = 45.0

WITH_PROMPT: Final = "compacting.threshold with a prompt"
RUN: Final = ["agent_start", "agent_end", "agent_settled"]
DELIVERING_RUN: Final = ["agent_start", "queue_update", "agent_end", "agent_settled"]
COMPACTED: Final = ["compaction_start", "compaction_end", "compact:ok"]


class State(NamedTuple):
    """A busy state, and what is written when it ends."""

    name: str
    natural: Sequence[str]
    """When it ends as it would by itself; the retry delay ends by `abort_retry`."""
    owing: Sequence[str]
    """The same with a text in the queue, to the end of the run that delivers it."""
    closing: Sequence[str]
    """When it is cancelled, to what is answered with it."""
    is_streaming: bool = True

    @property
    def settled(self) -> list[str]:
        """What is written when it is cancelled and nothing is queued."""
        return [*self.closing, *(["agent_settled"] if self.is_streaming else [])]


STATES: Final = {
    state.name: state
    for state in (
        State(
            "retrying",
            ["auto_retry_end", "agent_settled", "abort_retry:ok"],
            ["auto_retry_end", "abort_retry:ok", *DELIVERING_RUN],
            ["auto_retry_end"],
        ),
        State(
            "compacting.manual",
            ["compaction_end", "compact:ok"],
            ["compaction_end", "compact:ok", *DELIVERING_RUN],
            ["compaction_end", "compact:error"],
            is_streaming=False,
        ),
        State(
            "compacting.threshold",
            ["compaction_end", "agent_settled"],
            ["compaction_end", *DELIVERING_RUN],
            ["compaction_end"],
        ),
        State(
            WITH_PROMPT,
            ["compaction_end", "prompt:ok", *RUN],
            ["compaction_end", "prompt:ok", *DELIVERING_RUN],
            ["compaction_end", "prompt:error"],
        ),
        State(
            "compacting.overflow",
            ["compaction_end", *RUN],
            ["compaction_end", *DELIVERING_RUN],
            ["compaction_end"],
        ),
    )
}

QUEUED: Final = ("steer", "follow_up", "prompt to steer", "prompt to follow up")
SESSION_COMMANDS: Final = ("new_session", "switch_session", "fork", "clone", "branch")
CELLS: Final = ("prompt", *QUEUED, "abort", "abort_retry", "compact", *SESSION_COMMANDS)
# Reads that take longer have tests of their own: test_export_command, test_session_lists.
AT_ONCE: Final = tuple(name for name in READS if name not in {"export_html", "list_sessions"})
_SAMPLES: Final[Mapping[str, Record]] = {"get_completions": {"name": "none", "prefix": ""}}
# Answered at once in every busy state, and nothing comes of it. They leave everything as it is, so that cells do not
# depend on each other.
NEUTRAL: Final[tuple[Record, ...]] = (
    *({"type": name, **_SAMPLES.get(name, {})} for name in AT_ONCE),
    {"type": "set_active_tools", "names": ["read", "bash", "edit", "write"]},
    {"type": "set_tool_approval", "mode": "never"},
    {"type": "set_model", "provider": "fake", "modelId": "m1"},
    {"type": "cycle_model"},
    {"type": "set_thinking_level", "level": "off"},
    {"type": "cycle_thinking_level"},
    {"type": "set_session_name", "name": "named"},
    {"type": "set_auto_compaction", "enabled": True},
    {"type": "set_auto_retry", "enabled": True},
    {"type": "set_steering_mode", "mode": "one-at-a-time"},
    {"type": "set_follow_up_mode", "mode": "one-at-a-time"},
    {"type": "set_queue_mode", "mode": "one-at-a-time"},
    {"type": "clear_queue"},
    {"type": "hello"},
    {"type": "ui_surface_input", "surface": "none", "data": "a"},
    {"type": "run_shortcut", "key": "f5"},
    {"type": "abort_bash"},
    {"type": "bash", "command": "true"},
    {"type": "extension_ui_response", "id": "nobody"},
    {"type": "client_response", "id": "nobody"},
    {"type": "malformed"},
    {"type": "unknown"},
)
# Those among them that overtake a session command; the last ones even while the session is being replaced.
ALWAYS_AT_ONCE: Final = ("hello", "ui_surface_input", "run_shortcut", "abort_bash", "parse", "unknown")


class Cell:
    """One agent in one busy state, in a session of its own; every answer of the LLM is for this cell alone."""

    def __init__(self, pi: HomedAgent, state: State, number: int) -> None:
        self.pi = pi
        self.state = state
        self.tag = f"cell{number:04}"
        self.gate = f"gate{number:04}"
        self.first_entry = ""
        self.first_index = 0
        self.path = self.other = pi.home.sessions / f"{self.tag}.jsonl"
        self.mark = 0
        self._enter()

    def _enter(self) -> None:
        pi = self.pi
        self._ask({"type": "new_session"})
        self._ask({"type": "set_model", "provider": "fake", "modelId": "m1"})
        self._answer({"text": "first answer"})
        self._prompt("one")
        entries = self._ask({"type": "get_entries"})["entries"]
        self.first_entry = next(entry["id"] for entry in entries if entry["type"] == "message")
        self.first_index = self._ask({"type": "get_branch_messages"})["messages"][0]["entryIndex"]
        self.path = Path(self._ask({"type": "get_state"})["sessionFile"])
        self.other.write_bytes(self.path.read_bytes().splitlines(keepends=True)[0])
        self.other.chmod(0o600)  # as a session of ours: no warning
        since = pi.mark()
        match self.state.name:
            case "retrying":
                self._answer(TRANSIENT)
                self._prompt("two")
                pi.wait({"type": "auto_retry_start", "delayMs": ENDLESS_DELAY_MS}, since=since)
            case "compacting.manual":
                self._answer({"text": "second answer"})
                self._prompt("two")
                self._hold_summary()
                pi.send({"id": f"held-{self.tag}", "type": "compact"})
            case "compacting.threshold":
                self._answer({"text": "second answer", "usage": NEARLY_FULL})
                self._hold_summary()
                self._prompt("two")
            case _ if self.state.name == WITH_PROMPT:
                self._answer({"text": "second answer", "usage": NEARLY_FULL})
                self._ask({"type": "set_auto_compaction", "enabled": False})
                self._prompt("two")
                self._ask({"type": "set_auto_compaction", "enabled": True})
                self._hold_summary()
                pi.send({"id": f"held-{self.tag}", "type": "prompt", "message": self.text("three")})
            case _:
                self._answer(OVERFLOW)
                self._hold_summary()
                self._prompt("two")
        if self.state.name != "retrying":
            pi.llm.wait_reached(self.gate)
            pi.wait({"type": "compaction_start"}, since=since)
        self._answer({"text": "more", "repeat": -1})
        self.mark = pi.mark()

    def _answer(self, response: Record) -> None:
        self.pi.llm.add({**response, "match": self.tag})

    def _hold_summary(self) -> None:
        self._answer({"text": "summary", "hold": self.gate})

    def _ask(self, command: Record) -> Record:
        response = self.pi.request(command)
        assert response["success"], response
        return response.get("data") or {}

    def _prompt(self, text: str) -> None:
        """Send a prompt and wait for the end of its run, whatever comes behind that."""
        since = self.pi.mark()
        self._ask({"type": "prompt", "message": self.text(text)})
        self.pi.wait({"type": "agent_end"}, since=since)
        if text == "one" or (text == "two" and self.state.name in {"compacting.manual", WITH_PROMPT}):
            self.pi.wait({"type": "agent_settled"}, since=since)

    def text(self, text: str) -> str:
        """Return a text of this cell, long enough to be all that a compaction keeps."""
        return f"{self.tag} {text}"

    def command(self, name: str) -> Record:
        """Return the command of a cell, by the name that the cell has."""
        fields: dict[str, Record] = {
            "prompt to steer": {"type": "prompt", "streamingBehavior": "steer"},
            "prompt to follow up": {"type": "prompt", "streamingBehavior": "followUp"},
            "switch_session": {"sessionPath": str(self.other)},
            "fork": {"entryId": self.first_entry},
            "branch": {"entryIndex": self.first_index},
        }
        text = {"message": self.text("X")} if name == "prompt" or name in QUEUED else {}
        return {"id": f"X-{self.tag}", "type": name, **text, **fields.get(name, {})}

    def end(self, name: str) -> Record:
        """Return a command that ends the state."""
        return {"id": f"E-{self.tag}", "type": name}

    def finish(self) -> None:
        """Let the state end as it would by itself."""
        if self.state.name == "retrying":
            self.pi.send(self.end("abort_retry"))
        else:
            self.pi.llm.release(self.gate)

    def seen(self) -> list[str]:
        """Return what was written since the command, without the inside of runs."""
        words = kinds(self.pi.records[self.mark :])
        return [word for word in words if word not in WITHIN_RUNS | OF_SETTINGS and not word.startswith("bash:")]

    def wait_seen(self, expected: Sequence[str], beside: Sequence[str] = ()) -> None:
        """Wait for so many records as are expected; hold them to it, and to be all there is.

        `beside` come together at any place: a message is saved while a state ends.
        """
        self.pi.journal.wait_until(lambda: len(self.seen()) >= len(expected) + len(beside), PATIENCE_S)
        seen = self.seen()
        place = next(n for n in range(len(seen)) if seen[n : n + len(beside)] == list(beside))
        del seen[place : place + len(beside)]
        assert seen == list(expected)
        mark = len(self.pi.records)
        state = self._ask({"type": "get_state"})
        assert (state["isStreaming"], state["isCompacting"]) == (False, False)
        assert kinds(self.pi.records[mark:]) == ["get_state:ok"]
        assert validate_session(self.path.read_bytes()) == []

    def response(self) -> Record:
        """Return the answer to the cell's command."""
        return self.pi.wait_response(f"X-{self.tag}", PATIENCE_S)

    def delivered(self) -> int:
        """Count how often the command's text has entered the conversation."""
        return user_texts(self.pi.records[self.mark :]).count(self.text("X"))

    def pending(self) -> int:
        """Count what is queued."""
        return int(self._ask({"type": "get_state"})["pendingMessageCount"])


_numbers = itertools.count()


@pytest.fixture(scope="module")
def pi(module_agent: AgentStarter) -> HomedAgent:
    """The agent of all cells; held to the contract when the last is done."""
    return module_agent([], settings=SETTINGS, has_session=True)


def answered(name: str, outcome: str) -> str:
    """Return the kind of the answer to a cell's command."""
    return f"{'prompt' if name.startswith('prompt') else name}:{outcome}"


def expected(state: State, name: str, timing: Timing) -> list[str]:
    """Return what a cell has to write, to its very end."""
    is_idle = (state.name == "retrying" and timing == "after_abort") or timing == "after_new_session"
    if name == "prompt" or (name.startswith("prompt") and is_idle):
        return _of_prompt(state, timing)
    if name in QUEUED:
        return _of_text(state, timing, ["queue_update", answered(name, "ok")])
    match name:
        case "abort":
            return _of_abort(state, timing)
        case "abort_retry":
            return _of_abort_retry(state, timing)
        case "compact":
            return _of_compact(state, timing)
        case _:
            return _of_session_command(state, name, timing)


def _end(state: State, timing: Timing) -> list[str]:
    """Return what the other command of a write makes of a state in which nothing is queued."""
    if timing == "apart":
        return []
    return [*state.settled, "abort:ok" if timing.endswith("abort") else "new_session:ok"]


def _of_prompt(state: State, timing: Timing) -> list[str]:
    end = _end(state, timing)
    if timing == "apart":
        return ["prompt:error", *state.natural]
    if timing.startswith("before"):
        return ["prompt:error", *end]
    # What was not compacted is still due, but for in a new session.
    is_due = timing == "after_abort" and state.name.startswith("compacting.threshold")
    return [*end, *(["compaction_start", "compaction_end"] if is_due else []), "prompt:ok", *RUN]


def _of_text(state: State, timing: Timing, queued: Sequence[str]) -> list[str]:
    match timing:
        case "apart":
            return [*queued, *state.owing]
        case "before_abort":
            # Saved before the abort is answered.
            return [*state.settled, "abort:ok"]
        case "after_abort" if state.name != "retrying":
            # Accepted after the abort, so that it runs by itself: the period goes on.
            return [*state.closing, "abort:ok", *DELIVERING_RUN]
        case "before_new_session":
            return [*queued, *state.closing, "queue_update", "agent_settled", "new_session:ok"]
        case _:
            return [*_end(state, timing), *queued, *DELIVERING_RUN]


def _of_abort(state: State, timing: Timing) -> list[str]:
    match timing:
        case "apart":
            return [*state.settled, "abort:ok"]
        case "before_new_session":
            return [*state.settled, "abort:ok", "new_session:ok"]
        case "after_new_session" if state.name != "retrying":
            # The session command is withdrawn. Behind a retry delay it is not: that ends at once.
            return ["new_session:ok", *state.settled, "abort:ok"]
        case _:
            return [*_end(state, timing), "abort:ok"]


def _of_abort_retry(state: State, timing: Timing) -> list[str]:
    end = _end(state, timing)
    if state.name != "retrying":
        return ["abort_retry:ok", *(end or state.natural)]
    if timing == "after_abort":
        return [*end, "abort_retry:ok"]
    if timing == "after_new_session":
        # It overtakes what waits, and is too late.
        return [*end[:-1], "abort_retry:ok", "new_session:ok"]
    return [*state.natural, *end[-1:]]


def _of_compact(state: State, timing: Timing) -> list[str]:
    end = _end(state, timing)
    failed = ["compaction_start", "compaction_end", "compact:error"]
    match timing:
        case "apart":
            return [*state.settled, *COMPACTED] if state.name == "retrying" else ["compact:error", *state.natural]
        case "after_abort":
            return [*end, *COMPACTED]
        case "after_new_session":
            return [*end, *failed]
        case _ if state.name == "retrying":
            return [*end[:-1], *failed, end[-1]]
        case _:
            return ["compact:error", *end]


def _of_session_command(state: State, name: str, timing: Timing) -> list[str]:
    ok, end = answered(name, "ok"), _end(state, timing)
    match timing:
        case "apart":
            return [*state.settled, ok]
        case "before_abort" if not _is_replaced(state, name, timing):
            return [ok, *end]
        case "before_abort" | "before_new_session":
            # The second waits behind the first, and both are carried out.
            return [*end[:-1], ok, end[-1]]
        case "after_new_session" if name in {"fork", "clone", "branch"}:
            # There is nothing yet to copy from.
            return [*end, answered(name, "error")]
        case _:
            return [*end, ok]


def _is_replaced(state: State, name: str, timing: Timing) -> bool:
    """Whether a session command is beyond being withdrawn by what comes with it: nothing has to end, nor be read."""
    return timing != "before_abort" or (state.name == "retrying" and name != "switch_session")


def _ends(state: State, name: str) -> bool:
    """Whether a command ends a state."""
    return name in {"abort", *SESSION_COMMANDS} or (state.name == "retrying" and name in {"abort_retry", "compact"})


def test_every_command_has_its_cell() -> None:
    # What a client sends as a prompt: tests/rpc/extensions has its cells.
    known = {name for names in COMMANDS.values() for name in names} - {"extension_command"}
    in_cells = {"prompt" if name.startswith("prompt") else name for name in CELLS}

    beside = set(READS) - set(AT_ONCE)
    # Needs an entry; its rows are those of set_session_name (test_session_lists).
    beside |= {"set_label"}
    # Needs a call that is carried out; refused without one at once (the scenarios CEL/tools-and-lists and TLS).
    beside |= {"abort_tool"}
    # Likewise a sub-agent that works, or a model that one asks (the scenarios SUB).
    beside |= {"cancel_agent", "message_agent", "start_agent", "wait_agent"}
    # Likewise a provider that is known; its rows are those of hello.
    beside |= {"login", "logout", "abort_login"}
    # Refused in every busy state (test_tree_moves, and the scenarios CEL/navigate-tree).
    beside |= {"navigate_tree"}
    # Likewise (test_reload, and the scenarios CEL/reload).
    beside |= {"reload"}
    assert in_cells | {command["type"] for command in NEUTRAL} | beside == known


@pytest.mark.parametrize("timing", TIMINGS)
@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("state", STATES)
def test_a_command_does_what_the_chart_says(pi: HomedAgent, state: str, name: str, timing: Timing) -> None:
    """C-1 to C-12, R-PRM-03, R-PRM-04, R-RTY-03, R-QUE-01, R-QUE-09."""
    cell = Cell(pi, STATES[state], next(_numbers))
    command = cell.command(name)
    if name.startswith("prompt"):
        command["type"] = "prompt"
    wanted = expected(cell.state, name, timing)
    ending = "abort" if timing.endswith("abort") else "new_session"
    match timing:
        case "apart":
            pi.send(command)
            if not _ends(cell.state, name):
                cell.response()
                cell.finish()
        case "before_abort" | "before_new_session":
            pi.send_many([command, cell.end(ending)])
        case _:
            pi.send_many([cell.end(ending), command])

    is_beside = name in QUEUED and (
        timing == "before_abort" or (timing == "after_abort" and cell.state.name != "retrying")
    )
    cell.wait_seen(wanted, ["queue_update", answered(name, "ok")] if is_beside else ())

    _check_answer(cell, name, timing)
    is_parked = name in QUEUED and timing == "before_abort"
    assert cell.pending() == (1 if is_parked else 0)
    is_accepted = name in QUEUED or (name == "prompt" and timing.startswith("after"))
    assert cell.delivered() == (1 if is_accepted and not timing.startswith("before") else 0)


def _check_answer(cell: Cell, name: str, timing: Timing) -> None:
    response = cell.response()
    if not response["success"]:
        assert response["error"] in _refusals(cell, name, timing)
    elif name in SESSION_COMMANDS:
        assert response["data"].get("cancelled", False) != _is_replaced(cell.state, name, timing)
    if cell.state.name == "compacting.manual" and "compact:error" in cell.state.closing:
        held = cell.pi.wait_response(f"held-{cell.tag}")
        if not held["success"]:
            assert held["error"] == errors.COMPACTION_CANCELLED
    if cell.state.name == WITH_PROMPT:
        held = cell.pi.wait_response(f"held-{cell.tag}")
        if not held["success"]:
            assert held["error"] == errors.ABORTED_BEFORE_START


def _refusals(cell: Cell, name: str, timing: Timing) -> Sequence[str]:
    match name:
        case "prompt":
            return [errors.COMPACTING if cell.state.name == "compacting.manual" else errors.BUSY]
        case "compact" if timing == "after_new_session":
            return [errors.NOTHING_TO_COMPACT]
        case "compact" if cell.state.name == "retrying":
            return [errors.COMPACTION_CANCELLED]
        case "compact":
            return [errors.COMPACTION_IN_PROGRESS]
        case "clone":
            return [errors.CLONE_NO_ENTRY]
        case _:
            return [errors.FORK_INVALID_ENTRY, errors.entry_not_found(cell.first_entry)]


def _neutral(cell: Cell) -> list[Record]:
    """Return the neutral commands, with ids of this cell."""
    return [{"id": f"{cell.tag}-{command['type']}", **command} for command in NEUTRAL]


def _line(command: Record) -> bytes:
    return b"{malformed\n" if command["type"] == "malformed" else encode_record(command)


def _answers() -> list[str]:
    """Return the answers to the neutral commands in order, of which only a dialog's and a shell's are not there.

    What a command says of a session does not matter here: the answer is as while idle.
    """
    known = {"malformed": "parse:error", "unknown": "unknown:error"}
    names = [command["type"] for command in NEUTRAL if command["type"] not in {*CLIENT_ANSWERS, "bash"}]
    return [known.get(name, f"{name}:ok") for name in names]


@pytest.mark.parametrize("timing", TIMINGS)
@pytest.mark.parametrize("state", STATES)
def test_a_command_that_concerns_no_run_is_answered_at_once(pi: HomedAgent, state: str, timing: Timing) -> None:
    """C-9, C-11, R-SET-03, R-BSH-01: in order, and nothing of what goes on is touched."""
    answers = _answers()
    cell = Cell(pi, STATES[state], next(_numbers))
    commands = _neutral(cell)
    lines = b"".join(map(_line, commands))
    settled = cell.state.settled
    match timing:
        case "apart":
            for command in commands:
                pi.send_bytes(_line(command))
                if command["type"] not in {*CLIENT_ANSWERS, "malformed"}:
                    pi.wait_response(command["id"], PATIENCE_S)
            cell.finish()
            wanted = [*answers, *cell.state.natural]
        case "before_abort" | "before_new_session":
            ending = "abort" if timing == "before_abort" else "new_session"
            pi.send_bytes(lines + encode_record(cell.end(ending)))
            wanted = [*answers, *settled, f"{ending}:ok"]
        case "after_abort":
            pi.send_bytes(encode_record(cell.end("abort")) + lines)
            first = [*settled, "abort:ok"]
            wanted = [*first, *answers] if state == "retrying" else [*answers, *first]
        case "after_new_session":
            pi.send_bytes(encode_record(cell.end("new_session")) + lines)
            # Nothing has to end before the delay does: the session is being replaced when the rest is read.
            at_once = ALWAYS_AT_ONCE if state == "retrying" else (*AT_ONCE, *ALWAYS_AT_ONCE)
            # A command that is not there yet is refused before it can wait.
            overtaking = [answer for answer in answers if answer.startswith(at_once) or answer.endswith(":error")]
            waiting = [answer for answer in answers if answer not in overtaking]
            first = [*settled, *overtaking] if state == "retrying" else [*overtaking, *settled]
            wanted = [*first, "new_session:ok", *waiting]

    shell = pi.wait_response(f"{cell.tag}-bash", PATIENCE_S)

    cell.wait_seen(wanted)
    assert (shell["success"], shell["data"]["cancelled"]) == (True, False)


@pytest.mark.parametrize("state", STATES)
def test_texts_sent_while_a_state_ends_are_delivered_once(pi: HomedAgent, state: str) -> None:
    """I-QUE-2: whichever side of the end they fall on."""
    cell = Cell(pi, STATES[state], next(_numbers))
    texts = [cell.text(f"text {number}") for number in range(4)]
    commands: list[Record] = [
        {"id": f"{cell.tag}-0", "type": "steer", "message": texts[0]},
        {"id": f"{cell.tag}-1", "type": "follow_up", "message": texts[1]},
        {"id": f"{cell.tag}-2", "type": "prompt", "message": texts[2], "streamingBehavior": "steer"},
        {"id": f"{cell.tag}-3", "type": "prompt", "message": texts[3], "streamingBehavior": "followUp"},
    ]
    cell.finish()
    for command in commands:
        pi.send(command)
        assert pi.wait_response(command["id"], PATIENCE_S)["success"]
    pi.journal.wait_until(
        lambda: set(texts) <= set(user_texts(pi.records[cell.mark :])) and cell.seen()[-1] == "agent_settled",
        PATIENCE_S,
    )

    delivered = [text for text in user_texts(pi.records[cell.mark :]) if text in texts]
    assert sorted(delivered) == texts
    assert cell.pending() == 0


@pytest.mark.parametrize("state", [name for name in STATES if name != "retrying"])
def test_an_abort_answers_everything_that_waits(pi: HomedAgent, state: str) -> None:
    """C-9: nothing of it starts afterwards; only what concerns no run is still carried out."""
    cell = Cell(pi, STATES[state], next(_numbers))
    names = ["new_session", "compact", "prompt", "steer", "clone", "clear_queue"]
    commands = [{**cell.command(name), "id": f"{cell.tag}-{name}"} for name in names]
    commands = [{**each, "message": cell.text("X")} for each in commands]
    pi.send_many([*commands, cell.end("abort")])

    answers = ["compact:error", "prompt:error", "steer:error", "clone:ok", "new_session:ok"]
    cell.wait_seen([*answers, *cell.state.settled, "abort:ok", "clear_queue:ok"])
    responses = {name: pi.wait_response(f"{cell.tag}-{name}") for name in names}
    assert responses["compact"]["error"] == errors.COMPACTION_CANCELLED
    assert {responses[name]["error"] for name in ("prompt", "steer")} == {errors.ABORTED_BEFORE_START}
    assert responses["new_session"]["data"]["cancelled"]
    assert responses["clone"]["data"]["cancelled"]
    assert (cell.delivered(), cell.pending()) == (0, 0)
