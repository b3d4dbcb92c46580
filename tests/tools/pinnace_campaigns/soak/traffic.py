"""The traffic of a soak: a conversation of twenty prompts as a client has it, with everything that happens in one.

Every prompt has its answer scripted, three tool calls and two requests; among them an abort in the middle of an answer,
overloads that are tried again, texts that are queued, shell commands, compactions on request and by themselves, a
session that is switched away from. Each conversation ends with a new session, so that what is alive does not grow.
"""

import itertools
from collections import Counter
from typing import Any, Final

from pinnace_fuzz.harness.driver import Agent
from pinnace_fuzz.harness.journal import Journal
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.records import Record
from pinnace_fuzz.script import Scripted

PROMPTS: Final = 20
"""In one conversation."""
_LONG_OUTPUT_EVERY: Final = 10
"""Conversations, of which one has a command whose output is kept in a file."""
# Of the 128,000 that the model has, so that the agent compacts by itself.
_NEARLY_FULL: Final = 120_000
_SETTLED: Final = {"type": "agent_settled"}
_FINE: Final[Scripted] = {"text": "fine", "repeat": -1}


class ForgettingJournal(Journal):
    """A journal that can be emptied between two conversations, and counts what went to stderr."""

    def __init__(self) -> None:
        super().__init__()
        self.stderr_bytes = 0
        self.total_records = 0

    def take_stderr(self, data: bytes, time_s: float) -> None:
        """Count it, too."""
        self.stderr_bytes += len(data)
        super().take_stderr(data, time_s)

    def forget(self) -> None:
        """Forget every record; nothing may be open."""
        with self._condition:
            self.total_records += len(self.records)
            self.records.clear()
            self.responses.clear()
            self.expected.clear()


class Traffic:
    """Conversations with one agent, one after the other."""

    def __init__(self, agent: Agent, journal: ForgettingJournal, llm: FakeLlm) -> None:
        self.done: Counter[str] = Counter()
        """What was really done: prompts, tool calls, requests and so on."""
        self._agent = agent
        self._journal = journal
        self._llm = llm
        self._numbers = itertools.count(1)
        self._former: str | None = None

    def converse(self) -> None:
        """Hold one conversation, and begin a new session.

        Raises:
            AssertionError: The agent said no, or said nothing.
        """
        number = self.done["conversations"]
        for at in range(PROMPTS):
            self._prompt(at, has_long_output=at == PROMPTS - 1 and number % _LONG_OUTPUT_EVERY == 0)
        state = self._ask("get_state")
        self._ask("get_messages")
        self._ask("get_session_stats")
        if self._former is not None:
            self._ask("switch_session", sessionPath=self._former)
            self.done["switches"] += 1
        self._former = state["sessionFile"]
        self._ask("new_session")
        self.done["conversations"] += 1
        self.done["requests"] += len(self._llm.requests)
        assert not self._journal.flaws
        assert not self._journal.unanswered()
        self._llm.clear()
        self._journal.forget()
        self._agent.cursor = 0

    def _prompt(self, at: int, *, has_long_output: bool) -> None:
        number = next(self._numbers)
        answers: list[Scripted] = [_calls(number, has_long_output=has_long_output), _text(number)]
        match at:
            case 4:
                self._abort(number)
            case 7:
                answers.insert(1, {"error": {"status": 503}})
                self.done["retries"] += 1
            case 10:
                answers[1] = {**_text(number), "usage": {"input": _NEARLY_FULL, "output": 10}}
                self.done["compactions by themselves"] += 1
            case 13:
                self._ask("bash", command=f"echo said {number}; seq 20")
                self.done["shell commands"] += 1
            case 16:
                self._queue(number)
            case 18:
                self._script([])
                compacted = self._agent.request({"type": "compact"})
                self.done["compactions" if compacted["success"] else "refused compactions"] += 1
            case _:
                pass
        self._say(f"do {number}", answers)
        self.done["tool calls"] += 3
        self.done["long outputs"] += has_long_output

    def _say(self, text: str, answers: list[Scripted]) -> None:
        self._script(answers)
        mark = self._agent.mark()
        self._ask("prompt", message=text)
        self._agent.wait(_SETTLED, since=mark)
        self.done["prompts"] += 1

    def _abort(self, number: int) -> None:
        gate = f"abort-{number}"
        self._script([{"text": ["begun ", {"gate": gate}, "never"]}])
        mark = self._agent.mark()
        self._ask("prompt", message=f"to be aborted {number}")
        self._llm.wait_reached(gate)
        self._ask("abort")
        self._agent.wait(_SETTLED, since=mark)
        self.done["prompts"] += 1
        self.done["aborts"] += 1

    def _queue(self, number: int) -> None:
        gate = f"queue-{number}"
        self._script([{"text": ["begun ", {"gate": gate}, "ended"]}, _text(number), _text(number)])
        mark = self._agent.mark()
        self._ask("prompt", message=f"with more behind it {number}")
        self._llm.wait_reached(gate)
        self._ask("steer", message=f"also {number}")
        self._ask("follow_up", message=f"and then {number}")
        self._llm.release(gate)
        self._agent.wait(_SETTLED, since=mark)
        self.done["prompts"] += 3

    def _script(self, answers: list[Scripted]) -> None:
        self._llm.forget()
        for each in [*answers, _FINE]:
            self._llm.add(each)

    def _ask(self, command: str, /, **fields: Any) -> Record:
        self.done["commands"] += 1
        response = self._agent.request({"type": command, **fields})
        assert response["success"], response
        return response.get("data") or {}


def _calls(number: int, *, has_long_output: bool) -> dict[str, object]:
    path = f"file-{number % 50}.txt"
    command = "seq 20000" if has_long_output else f"echo {number}; seq 30"
    calls = [
        {"name": "write", "args": {"path": path, "content": f"line of {number}\n" * 40}},
        {"name": "bash", "args": {"command": command}},
        {"name": "read", "args": {"path": path}},
    ]
    return {"text": [f"word {at} of {number} " for at in range(20)], "tool_calls": calls}


def _text(number: int) -> dict[str, object]:
    return {"text": [f"part {at} of the answer {number}. " for at in range(40)]}
