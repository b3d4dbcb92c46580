"""Plays scripts made of model paths against a real agent, and compares the order of its output with the model's.

Answers, brackets, deliveries, queues and agent_settled come in exactly the model's order; then the observers judge the
whole conversation, as for every agent of the workbench.
"""

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pinnace_campaigns.model_check.paths import STOPS, ModelPath, ModelStep
from pinnace_campaigns.model_check.script import ANSWERS, Action, Request, Script, command_record
from pinnace_fuzz.harness.journal import ReceivedRecord
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.harness.shell_gate import ShellGate
from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

# Each text is longer than what a compaction keeps, and everything else together is shorter: it cuts at a text.
PADDING = "word " * 300
KEPT_TOKENS = 200
HISTORY = (f"{PADDING}one", f"{PADDING}two")
# Far more than a step takes on a busy machine; only a disagreement waits so long.
STEP_TIMEOUT_S = 30.0
_RESPONSES = ("queued", "started", "handled")
_TYPES = {
    "agent_start": "agent_start",
    "turn_start": "turn_start",
    "turn_end": "turn_end",
    "compaction_start": "compaction_start",
    "auto_retry_start": "retry_start",
}


class Disagreement(AssertionError):
    """The agent's output differs from the model's."""


def words_of(records: Sequence[ReceivedRecord]) -> list[str]:
    """Translate records into the model's words; what the model has no word for is left out."""
    return [word for each in records if (word := _word(each.record)) is not None]


def _word(record: Record) -> str | None:  # one a kind of record
    kind = record.get("type")
    match kind:
        case "response":
            return _response_word(record)
        case "queue_update":
            return f"queues {len(record['steering'])} {len(record['followUp'])}"
        case "message_start" if record["message"]["role"] == "user":
            return f"deliver {_text(record['message']).rpartition(' ')[2]}"
        case "message_end" if record["message"]["role"] == "assistant":
            return "end_message"
        case "agent_end":
            return f"agent_end {int(record['willRetry'])}"
        case "agent_settled":
            return f"settled {int(record['aborted'])}"
        case "auto_retry_end":
            return f"retry_end {int(record['success'])}"
        case "compaction_end":
            return f"compaction_end {int(record.get('result') is not None)}"
        case _:
            return _TYPES.get(str(kind))


def _response_word(record: Record) -> str | None:
    number = record.get("id", "")
    if not str(number).isdigit():
        return None
    if not record["success"]:
        return f"refuse {number}"
    data: Record = record.get("data") or {}
    disposition = data.get("disposition")
    return f"{disposition if disposition in _RESPONSES else 'ok'} {number}"


def _text(message: Mapping[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def command_of(step: ModelStep, following: Sequence[ModelStep]) -> Record:
    """Write a command of the model as a record. There are no extensions: something else stands for what needs them."""
    number = str(step.number)
    match step.trigger:
        case "extension_command":
            return {"id": number, "type": "prompt", "message": "/nothing"}
        case "extension_ui_response":
            return {"type": step.trigger, "id": "no dialog", "cancelled": True}
        case _:
            return command_record(step, following, id=number, message=f"{PADDING}{number}", shell="true")


class Replay:
    """Plays scripts, each against an agent of its own."""

    def __init__(self, starter: AgentStarter, folder: Path) -> None:
        """Use `starter` for agents, and `folder` for gates of tools."""
        self._starter = starter
        self._folder = folder
        self._numbers = itertools.count()

    def play(self, script: Script) -> HomedAgent:
        """Play a script to its end.

        Raises:
            Disagreement: The agent's output differs from the model's, or is missing.
        """
        with ExitStack() as stack:
            gates = [
                stack.enter_context(ShellGate(self._folder / f"tool-{next(self._numbers)}"))
                for request in script.requests
                if request.answer == "tools"
            ]
            llm = stack.enter_context(FakeLlm(_answers(script, gates)))
            agent = self._start(script, llm)
            stack.callback(agent.process.close)
            begun = len(HISTORY) if script.needs_history else 0
            if script.needs_history:
                agent.say(*HISTORY)
            _Playing(agent, llm, script, gates, begun).all()
            agent.wait_exit(STEP_TIMEOUT_S)
            agent.check_end()
            return agent

    def endure(self, path: ModelPath) -> HomedAgent:
        """Play what a client does on a path, whatever the model expects: the observers alone judge.

        For paths that break a property of a model with a fault in it: a sound agent takes them as any others.
        """
        answers = [step.trigger for step in path.steps if step.trigger in ANSWERS]
        with ExitStack() as stack:
            llm = stack.enter_context(FakeLlm([*map(_plain_answer, answers), {"text": "so", "repeat": -1}]))
            agent = self._starter(llm, settings={"retry": {"baseDelayMs": 1, "maxRetries": 1}}, is_checked=False)
            stack.callback(agent.process.close)
            for number, step in enumerate(path.steps):
                if step.is_command:
                    agent.send(command_of(step, path.steps[number:]))
                elif step.trigger not in STOPS:
                    agent.request({"type": "get_state"}, STEP_TIMEOUT_S)
            agent.check_end()
            return agent

    def _start(self, script: Script, llm: FakeLlm) -> HomedAgent:
        modes = ("one-at-a-time", "all")
        settings = {
            "retry": {"baseDelayMs": 1, "maxRetries": 1},
            "compaction": {"keepRecentTokens": KEPT_TOKENS},
            "steeringMode": modes[script.path.is_steering_all],
            "followUpMode": modes[script.path.is_follow_up_all],
        }
        flags = ("--on-eof", "drain") if script.is_drain else ()
        return self._starter(llm, *flags, settings=settings, is_checked=False, has_session=True)


def _answers(script: Script, gates: Sequence[ShellGate]) -> list[Record]:
    answers: list[Record] = [{"text": "so"} for _ in HISTORY] if script.needs_history else []
    waiting = iter(gates)
    for index, request in enumerate(script.requests):
        answers.append({"hold": f"request {index}", **_answer(request, waiting)})
    return answers


def _plain_answer(trigger: str) -> Record:
    if trigger == "llm_tool_calls":
        return {"tool_calls": [{"name": "bash", "args": {"command": "true"}}]}
    return _answer(Request(ANSWERS[trigger]), iter(()))


def _answer(request: Request, gates: Iterator[ShellGate]) -> Record:
    match request.answer:
        case "tools":
            return {"tool_calls": [{"name": "bash", "args": {"command": next(gates).reading}}]}
        case "transient":
            headers = {"retry-after": str(request.delay_s)} if request.delay_s else {}
            return {"error": {"status": 503, "headers": headers, "body": {"error": {"message": "busy"}}}}
        case "overflow":
            return {"error": {"status": 400, "body": {"error": {"message": "prompt is too long"}}}}
        case "fatal":
            return {"error": {"status": 401, "body": {"error": {"message": "who are you"}}}}
        case _:
            return {"text": "so"}


class _Playing:
    """One script at work."""

    def __init__(self, agent: HomedAgent, llm: FakeLlm, script: Script, gates: Sequence[ShellGate], begun: int) -> None:
        self._agent = agent
        self._llm = llm
        self._script = script
        self._gates = list(gates)
        self._begun = begun
        self._mark = agent.mark()
        self._expected: list[str] = []
        self._answered = 0
        self._tool = -1

    def all(self) -> None:
        for number, action in enumerate(self._script.actions):
            following = tuple(step for each in self._script.actions[number:] for step in each.steps)
            self._act(action, following)
            self._expected += action.expected
            self._await_words(action)
            if action.requests:
                self._llm.wait_requests(self._begun + action.requests, STEP_TIMEOUT_S)
            if action.has_tool:
                self._gates[self._tool].wait_reached(STEP_TIMEOUT_S)
        self._agent.close_stdin()
        self._agent.wait_exit(STEP_TIMEOUT_S)
        self._compare(self._words())

    def _act(self, action: Action, following: Sequence[ModelStep]) -> None:
        match action.kind:
            case "send":
                self._agent.send_many(command_of(step, following) for step in action.steps if step.is_command)
            case "answer":
                self._release(action.steps[0])
            case "tools":
                self._gates[self._tool].release()
            case _:
                self._agent.close_stdin()

    def _release(self, step: ModelStep) -> None:
        """Let the request that is open be answered; those before it that were cut stay where they are."""
        requests = self._script.requests
        while requests[self._answered].answer == "cut":
            self._answered += 1
        self._llm.release(f"request {self._answered}")
        self._answered += 1
        self._tool += step.trigger == "llm_tool_calls"

    def _await_words(self, action: Action) -> None:
        deadline = time.monotonic() + STEP_TIMEOUT_S
        while len(self._words()) < len(self._expected) and time.monotonic() < deadline:
            if not self._agent.alive:
                self._agent.wait_exit(STEP_TIMEOUT_S)  # everything that it wrote has been read then
                break
            self._agent.journal.wait_until(lambda: len(self._words()) >= len(self._expected), 0.2)
        self._compare(self._words()[: len(self._expected)])

    def _words(self) -> list[str]:
        return words_of(self._agent.records[self._mark :])

    def _compare(self, words: list[str]) -> None:
        if words != self._expected:
            at = next(
                (i for i, (a, b) in enumerate(zip(words, self._expected, strict=False)) if a != b),
                min(len(words), len(self._expected)),
            )
            raise Disagreement(
                f"record {at + 1}: the model says {self._expected[at : at + 1]}, the agent {words[at : at + 1]}\n"
                f"{self._script}\n{self._agent.journal.tail()}"
            )
