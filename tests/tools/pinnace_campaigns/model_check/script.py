"""Turns a path of the model into a script for a client, its model and its gates.

Pure. A real agent goes on by itself where the model only says that something may happen, so a path is played like this:
commands that came where an agent stays are sent when it is there, others in one write with the one before; what the
model's job reports is what the fake LLM answers, held at a gate until then. Paths that no client can bring about are
refused (`NotPlayable`).
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from pinnace_campaigns.model_check.paths import STOPS, ModelPath, ModelStep

# What the wire shows of the output of a step.
_SHOWN = {
    "ok",
    "queued",
    "started",
    "handled",
    "refuse",
    "queues",
    "agent_start",
    "turn_start",
    "deliver",
    "end_message",
    "turn_end",
    "agent_end",
    "settled",
    "compaction_start",
    "compaction_end",
    "retry_start",
    "retry_end",
}
ANSWERS = {
    "llm_stop": "stop",
    "llm_tool_calls": "tools",
    "llm_transient": "transient",
    "llm_overflow": "overflow",
    "llm_fatal": "fatal",
    "compaction_ok": "stop",
    "compaction_failed": "fatal",
}
_COMMANDS = {
    "prompt",
    "steer",
    "follow_up",
    "abort",
    "abort_retry",
    "compact",
    "new_session",
    "clear_queue",
    "get_state",
    "set_queue_mode",
    "set_auto_retry",
    "set_auto_compaction",
    "hello",
}
# Only where shells are played; what stands for the settings is played as another of them.
_SHELL_COMMANDS = {"bash", "abort_bash", "set_model"}
_OWN = (
    "preflight_ok",
    "synced",
    "save_ok",
    "switch_ok",
    "job_ended",
    "ask_yes",
    "ask_invalid",
    "delay_over",
    "tools_done",
)
# Fewer texts than these leave nothing to summarise.
_COMPACTABLE_TEXTS = 2


MODES: Final = ("one-at-a-time", "all")
_BEHAVIOR: Final = (None, "steer", "followUp")
_QUEUE: Final = ("hold", "clear", "continue")


def command_record(
    step: ModelStep, following: Sequence[ModelStep], *, id: str, message: str, shell: str
) -> dict[str, Any]:
    """Write a command of the model as a record.

    Args:
        step: The command.
        following: What the path does behind it; what is asked about it there decides which session command it is.
        id: Of the record.
        message: If it is a text.
        shell: The command of a `bash`.
    """
    record: dict[str, Any] = {"id": id, "type": step.trigger}
    match step.trigger:
        case "prompt" | "steer" | "follow_up":
            record["message"] = message
            if step.trigger == "prompt" and step.option:
                record["streamingBehavior"] = _BEHAVIOR[step.option]
        case "abort" if step.option:
            record["queue"] = _QUEUE[step.option]
        case "new_session" if _is_invalid(step, following):
            record |= {"type": "switch_session", "sessionPath": "nowhere/session.jsonl"}
        case "bash":
            record["command"] = shell
        case "set_queue_mode":
            record["mode"] = MODES[bool(step.option)]
        case "set_auto_retry" | "set_auto_compaction":
            record["enabled"] = bool(step.option)
        case _:
            pass
    return record


def _is_invalid(step: ModelStep, following: Sequence[ModelStep]) -> bool:
    return any(each.trigger == "ask_invalid" and f"refuse {step.number}" in each.outputs for each in following)


class NotPlayable(Exception):
    """No client can bring this path about; the text says why."""


class Request(NamedTuple):
    """A request to the LLM: what answers it, or `cut`: it is never answered."""

    answer: str
    delay_s: int = 0
    """Of a transient failure: what the server asks for."""
    is_summary: bool = False
    """It asks for a summary."""


class Action(NamedTuple):
    """One thing that the client or the world does, and the records that follow."""

    kind: str
    """`send` (records in one write), `answer` (a request), `tools` (the running tool ends), `shell` (a shell command
    ends), `end` (stdin)."""
    steps: tuple[ModelStep, ...]
    expected: tuple[str, ...]
    requests: int
    """How many requests have come when the agent stays again."""
    has_tool: bool = False
    """Whether it then waits for a tool."""


class Script(NamedTuple):
    """What to play."""

    path: ModelPath
    actions: tuple[Action, ...]
    requests: tuple[Request, ...]
    is_drain: bool
    needs_history: bool
    """Whether something is compacted: there must be something to summarise."""

    def __str__(self) -> str:
        lines = [f"stdin ends with {'drain' if self.is_drain else 'abort'}; history: {self.needs_history}"]
        for action in self.actions:
            what = ", ".join(str(step).split(":")[0] for step in action.steps)
            lines.append(f"{action.kind:7} {what}")
            lines += [f"        <- {word}" for word in action.expected]
        return "\n".join(lines)


class _Brackets:
    """Spells out what `close_run` closes, and knows which request is on its way."""

    def __init__(self) -> None:
        self.message = self.turn = False

    def shown(self, outputs: Sequence[str]) -> list[str]:
        words: list[str] = []
        for word in outputs:
            name = word.split()[0]
            if name == "close_run":
                words += [
                    *(["end_message"] if self.message else []),
                    *(["turn_end"] if self.turn else []),
                    "agent_end 0",
                ]
                self.message = self.turn = False
            elif name in _SHOWN:
                words.append(word)
            self.message = name == "call_model" or (self.message and name != "end_message")
            self.turn = name == "turn_start" or (self.turn and name != "turn_end")
        return words


def script_of(path: ModelPath, *, has_shells: bool = False) -> Script:
    """Plan how to play a path.

    Args:
        path: What happens.
        has_shells: Whether who plays it can let shell commands of the client wait.

    Raises:
        NotPlayable: No client can bring it about.
    """
    steps = _finished(path.steps, has_shells=has_shells)
    _check_races(steps)
    requests = _requests(steps)
    actions: list[Action] = []
    brackets = _Brackets()
    come = 0  # requests that have reached the LLM
    is_new = has_tool = False  # a request that was begun since the agent stayed last; a tool that waits
    needs_history, texts = False, _COMPACTABLE_TEXTS
    killed = killed_shells(steps)
    for step in steps:
        kind = _kind(step)
        if kind == "shell" and step.number in killed:
            kind = "own"
        elif kind == "shell" and not step.is_calm:
            raise NotPlayable("a shell ends while the agent moves by itself")
        if kind != "own" and not (kind == "send" and not step.is_calm):
            come, is_new = come + is_new, False
            if actions:
                actions[-1] = actions[-1]._replace(requests=come, has_tool=has_tool)
            actions.append(Action(kind, (), (), come))
        if not actions:
            raise NotPlayable(f"{step.trigger} before anything was sent")
        for word in step.outputs:
            if word in {"call_model", "job j_compaction"}:
                is_new = True
            elif word == "cancel_job":
                is_new = False
            elif word == "job j_switch":
                texts = 0
            texts += word.startswith("deliver")
            if word == "job j_compaction":
                needs_history = True
                if texts < _COMPACTABLE_TEXTS:
                    raise NotPlayable("there is nothing to compact")
            if word == "compaction_end 1":
                texts = 1
            has_tool = word == "call_tools" or (has_tool and word not in {"end_tools", "close_run"})
        last = actions[-1]
        actions[-1] = last._replace(steps=(*last.steps, step), expected=(*last.expected, *brackets.shown(step.outputs)))
    come += is_new
    actions[-1] = actions[-1]._replace(requests=come)
    is_drain = any(step.trigger == "stop_drain" for step in steps)
    return Script(path, tuple(actions), requests, is_drain, needs_history)


def killed_shells(steps: Sequence[ModelStep]) -> frozenset[int]:
    """Return the shell commands that do not end by themselves.

    Raises:
        NotPlayable: Several at once: their order is not decided.
    """
    running: set[int] = set()
    killed: set[int] = set()
    for step in steps:
        if step.trigger == "shell_ended":
            running.discard(step.number)
        if "kill_shells" in step.outputs or step.trigger == "abort_bash":
            if len(running) > 1:
                raise NotPlayable("two shells are ended at once")
            killed |= running
        running |= {int(word.split()[1]) for word in step.outputs if word.startswith("start_shell")}
    return frozenset(killed)


def _finished(steps: tuple[ModelStep, ...], *, has_shells: bool) -> tuple[ModelStep, ...]:
    """Give a path that stops in the middle an end that needs none: stdin ends."""
    if not steps:
        raise NotPlayable("the path is empty")
    playable = {*_COMMANDS, *ANSWERS, *_OWN, *STOPS, *((*_SHELL_COMMANDS, "shell_ended") if has_shells else ())}
    for step in steps:
        if step.is_due or step.trigger not in playable:
            raise NotPlayable(f"{step.trigger} can't be brought about")
        if any(word.startswith("broken") for word in step.outputs):
            raise NotPlayable("the path breaks a property: its end is not to be expected")
    return steps


def _check_races(steps: Sequence[ModelStep]) -> None:
    """Refuse what happens in another order in an agent, or in one that is not decided.

    Raises:
        NotPlayable: There are such steps.
    """
    is_asking = is_saving = is_prompting = is_unwinding = False
    for step in steps:
        name = step.trigger
        if is_asking and name in _OWN and not name.startswith("ask_"):
            raise NotPlayable(f"{name} while a session command is asked about: without extensions that is over at once")
        if is_saving and name in _OWN and (is_prompting or is_unwinding):
            raise NotPlayable("a text is saved while a prompt is checked or a job unwinds: which ends first is open")
        is_asking = "job ask" in step.outputs or (is_asking and not name.startswith("ask_"))
        is_saving = "job save" in step.outputs or (is_saving and name != "save_ok")
        is_prompting = "job j_preflight" in step.outputs or (is_prompting and name not in {"synced", "job_ended"})
        is_unwinding = "cancel_job" in step.outputs or (is_unwinding and name != "job_ended")


def _kind(step: ModelStep) -> str:
    if step.is_command:
        return "send"
    if step.trigger in STOPS:
        return "end"
    if step.trigger in ANSWERS:
        return "answer"
    return {"tools_done": "tools", "shell_ended": "shell"}.get(step.trigger, "own")


def _requests(steps: Sequence[ModelStep]) -> tuple[Request, ...]:
    """Find every request that reaches the LLM, with what answers it."""
    requests: list[Request] = []
    is_new = is_open = is_summary = False
    for index, step in enumerate(steps):
        kind = _kind(step)
        if is_new and not (kind == "send" and not step.is_calm):
            requests.append(Request("cut", is_summary=is_summary))
            is_new, is_open = False, True
        if kind == "answer":
            if not is_open:
                raise NotPlayable(f"{step.trigger} without a request")
            delay_s = _delay_s(steps[index + 1 :]) if step.trigger == "llm_transient" else 0
            requests[-1] = requests[-1]._replace(answer=ANSWERS[step.trigger], delay_s=delay_s)
            is_open = False
        for word in step.outputs:
            if word in {"call_model", "job j_compaction"}:
                is_new, is_summary = True, word != "call_model"
            elif word == "cancel_job":
                is_new = is_open = False
    return (*requests, *([Request("cut", is_summary=is_summary)] if is_new else []))


def _delay_s(rest: Sequence[ModelStep]) -> int:
    """Say how long a retry has to wait: not at all, a moment, or longer than the script takes."""
    for index, step in enumerate(rest):
        if step.trigger == "delay_over":
            return 2 if index else 0
        if any(word.startswith(("retry_end", "cancel_timer")) for word in step.outputs):
            return 60
    return 60
