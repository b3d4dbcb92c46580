"""Conversations that end with kill -9: made from a number, played with any agent, cut at a random moment.

The conversation is the same for the same number; the moment is too, as far as records and milliseconds go, but what
the agent was doing in it is up to the machine. What must be left on the disk is `session_verdict`'s to say.
Rules R-SES-05, R-SES-07.
"""

import random
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from pinnace_fuzz.harness.agent_process import AgentGone, DriverTimeout
from pinnace_fuzz.harness.driver import Agent
from pinnace_fuzz.records import Record
from pinnace_fuzz.script import Scripted

Wait = Literal["nothing", "response", "settled"]
"""How long a client waits before it goes on."""
_WAITS: Final[Sequence[Wait]] = ("nothing", "response", "settled")

# A tool's command takes a few of these, so that the kill finds it at work.
_TOOL_S: Final = 0.02
# Lines of this size take several pages, and a write of them some time.
_LONG_TEXT_CHARACTERS: Final = 100_000
# Each message of a run is some ten records; beyond two turns the next command counts.
_MAX_RECORDS: Final = 24
# A prompt is appended, brought to the disk and answered within this.
_MAX_DELAY_S: Final = 0.006
# 1 × 1 pixel.
_IMAGE: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class Move(NamedTuple):
    """One command of the client, and what it waits for afterwards."""

    command: Mapping[str, object]
    """With its id. A `fork` has no entry yet, a `switch_session` no path."""
    wait: Wait
    pick: int = 0
    """Which of the entries or sessions that there are when it is sent."""


class Moment(NamedTuple):
    """When the agent is killed."""

    move: int
    """As this one is about to be sent,"""
    records: int
    """and so many records later,"""
    delay_s: float
    """and so much time."""


class CrashScenario(NamedTuple):
    """One conversation and its end."""

    script: Sequence[Scripted]
    """What the model answers."""
    moves: Sequence[Move]
    moment: Moment

    @property
    def texts(self) -> dict[str, str]:
        """Ids of the commands with a text -> their texts, each of its own."""
        commands = (move.command for move in self.moves)
        return {str(command["id"]): str(command["message"]) for command in commands if "message" in command}


def make_scenario(number: int) -> CrashScenario:
    """Make the conversation with this number."""
    chance = random.Random(number)
    moves = [_prompt(chance, f"m{number}-0"), *(_move(chance, f"m{number}-{at}") for at in range(1, 9))]
    script = [_answer(chance, at) for at in range(12)]
    moment = Moment(chance.randrange(len(moves)), chance.randrange(_MAX_RECORDS), chance.uniform(0, _MAX_DELAY_S))
    return CrashScenario([*script, {"text": "no more", "repeat": -1}], moves, moment)


def _move(chance: random.Random, name: str) -> Move:
    kind = chance.choices(
        ["prompt", "steer", "bash", "name", "new", "fork", "clone", "switch", "abort", "level"],
        [8, 3, 3, 2, 1, 2, 1, 2, 1, 1],
    )[0]
    wait: Wait = chance.choice(_WAITS)
    match kind:
        case "prompt":
            return _prompt(chance, name)
        case "steer":
            queue = chance.choice(["steer", "follow_up"])
            return Move({"id": name, "type": queue, "message": f"also {name}"}, wait)
        case "bash":
            return Move({"id": name, "type": "bash", "command": f"sleep {_TOOL_S / 2}; echo {name}"}, wait)
        case "name":
            return Move({"id": name, "type": "set_session_name", "name": f"the name {name}"}, "response")
        case "new":
            return Move({"id": name, "type": "new_session"}, "response")
        case "fork":
            return Move({"id": name, "type": "fork"}, "response", chance.randrange(8))
        case "clone":
            return Move({"id": name, "type": "clone"}, "response")
        case "switch":
            return Move({"id": name, "type": "switch_session"}, "response", chance.randrange(8))
        case "abort":
            return Move({"id": name, "type": "abort"}, wait)
        case _:
            return Move({"id": name, "type": "set_thinking_level", "level": chance.choice(["off", "high"])}, wait)


def _prompt(chance: random.Random, name: str) -> Move:
    text = f"do {name} "
    command: dict[str, object] = {"id": name, "type": "prompt", "message": text}
    if chance.random() < 0.2:
        command["message"] = text + chance.choice("abc\u00e9") * chance.randrange(_LONG_TEXT_CHARACTERS)
    if chance.random() < 0.1:
        command["images"] = [{"type": "image", "data": _IMAGE, "mimeType": "image/png"}]
    if chance.random() < 0.3:
        command["streamingBehavior"] = chance.choice(["steer", "followUp"])
    wait: Wait = chance.choices(_WAITS, [1, 1, 4])[0]
    return Move(command, wait)


def _answer(chance: random.Random, number: int) -> Scripted:
    match chance.choices(["text", "tools", "long", "cut", "refused"], [5, 8, 2, 1, 1])[0]:
        case "text":
            deltas = [f"part {part} of answer {number}. " for part in range(chance.randrange(1, 6))]
            return {"text": deltas, "chunk_delay_ms": chance.choice([0, 0, 2])}
        case "tools":
            calls = [_call(chance, number) for _ in range(chance.randrange(1, 4))]
            return {"text": f"now for {number}. ", "tool_calls": calls}
        case "long":
            return {"gen": {"n": chance.randrange(1, 40), "size": _LONG_TEXT_CHARACTERS // 40}}
        case "cut":
            return {"chunks": [{"text": f"never more than half of {number}"}, {"disconnect": "rst"}]}
        case _:
            return {"error": {"status": 400}}


def _call(chance: random.Random, number: int) -> dict[str, object]:
    path = f"file-{chance.randrange(3)}"
    commands = [f"echo {number}", f"sleep {_TOOL_S}; echo {number}", f"seq {chance.randrange(3000)}", "exit 3"]
    return chance.choice(
        [
            {"name": "bash", "args": {"command": chance.choice(commands)}},
            {"name": "write", "args": {"path": path, "content": f"line {number}\n" * chance.randrange(1, 500)}},
            {"name": "read", "args": {"path": path}},
            {"name": "edit", "args": {"path": path, "edits": [{"oldText": "line", "newText": f"row {number}"}]}},
        ]
    )


def play_until_killed(agent: Agent, scenario: CrashScenario) -> None:
    """Be the client of this conversation until the agent is killed: at the moment, or else after the last move.

    When it returns, the agent and all that it started are gone, and everything that it wrote has been read.

    Raises:
        DriverTimeout: The agent left something unanswered while it lived.
        AgentGone: It ended otherwise than by the kill.
    """
    killer = _Killer(agent, scenario.moment)
    sessions: list[str] = []
    try:
        for number, move in enumerate(scenario.moves):
            if number == scenario.moment.move:
                killer.start()
            _make(agent, move, sessions)
    except (AgentGone, DriverTimeout):
        if not killer.has_killed.is_set():
            raise
    finally:
        killer.end()
    agent.wait_exit()
    agent.kill()


class _Killer:
    """Kills in a thread of its own, so that what the client does has no part in when."""

    def __init__(self, agent: Agent, moment: Moment) -> None:
        self.has_killed = threading.Event()
        self._agent = agent
        self._moment = moment
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="crash", daemon=True)

    def start(self) -> None:
        """Begin to count records."""
        self._thread.start()

    def end(self) -> None:
        """Kill at once if that has not happened."""
        self._is_over.set()
        self._agent.journal.note("the conversation is over")
        if self._thread.ident is not None:
            self._thread.join()
        self._kill()

    def _run(self) -> None:
        journal = self._agent.journal
        wanted = len(journal.records) + self._moment.records
        journal.wait_until(
            lambda: len(journal.records) >= wanted or journal.has_ended or self._is_over.is_set(), float("1e6")
        )
        if not self._is_over.is_set():
            time.sleep(self._moment.delay_s)
            self._kill()

    def _kill(self) -> None:
        if not self.has_killed.is_set():
            self.has_killed.set()
            self._agent.signal(signal.SIGKILL)


def _make(agent: Agent, move: Move, sessions: list[str]) -> None:
    """Send a command, with what it needs from the agent, and wait as it says."""
    command = dict(move.command)
    match command["type"]:
        case "fork":
            found = agent.request({"type": "get_fork_messages"})["data"]["messages"]
            if not found:
                return
            command["entryId"] = found[move.pick % len(found)]["entryId"]
        case "switch_session":
            sessions.append(str(agent.request({"type": "get_state"})["data"]["sessionFile"]))
            command["sessionPath"] = sessions[move.pick % len(sessions)]
        case _:
            pass
    mark = agent.mark()
    agent.send(command)
    if move.wait != "nothing":
        response = agent.wait_response(command["id"])
        if move.wait == "settled" and response["success"] and _starts(response):
            agent.wait({"type": "agent_settled"}, since=mark)


def _starts(response: Record) -> bool:
    return bool(response.get("data", {}).get("disposition") == "started")
