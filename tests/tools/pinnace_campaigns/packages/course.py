"""What a client does with a package: it starts it, runs its commands and tools, compacts, forks, reloads and ends.

Each step has an outcome of plain values, in which what differs from start to start (folders, ids, times, numbers of
processes) stands as a word, so that the outcomes of two programs can be compared as they are. Dialogs are cancelled.
Nothing of a package is known here: its commands and tools are those that the agent names.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, cast

from pinnace_fuzz.harness.agent_process import AgentGone, DriverTimeout
from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.workbench import HomedAgent
from pinnace_spec.records.messages import DIALOG_METHODS

BUILT_IN: Final = frozenset({"bash", "edit", "find", "grep", "ls", "read", "write", "powershell"})
_OWN: Final = frozenset({"llama", "login", "mcp"})
"""Commands that the programs have as extensions of their own."""
_QUIET_S: Final = 0.4
"""Without a record for so long, a step has had its effects."""
_STEP_S: Final = 20.0
_START_S: Final = 90.0
"""A package of some size is compiled at its first start."""
_TEXT: Final = 300
"""Characters of a text that are compared."""
_EVERY: Final = 0.05
_DISPLAYS: Final = {
    "notify": ("notifyType", "message"),
    "setStatus": ("statusKey", "statusText"),
    "setWidget": ("widgetKey", "widgetLines"),
    "set_editor_text": ("text",),
}


class Outcome(NamedTuple):
    """What one step has led to."""

    step: str
    seen: Mapping[str, object]


class Course:
    """Plays the steps with one agent that has loaded a package."""

    def __init__(self, agent: HomedAgent) -> None:
        self._agent = agent
        self._answered: set[object] = set()
        folders = sorted(agent.home.folders.items(), key=lambda item: -len(str(item[1])))
        self._folders = [(str(path), f"<{name}>") for name, path in folders]
        self._tools: list[dict[str, Any]] = []

    def play(self) -> Iterator[Outcome]:
        """Play all steps, each with its outcome."""
        yield self._step("start", lambda: "success" if self._answer_of({"type": "get_state"}, _START_S) else "")
        if not self._agent.alive:
            yield Outcome("end", {"code": self._agent.wait_exit(), "stderr": self._text(self._agent.stderr_text)})
            return
        commands = [each for each in self._data("get_commands")["commands"] if each["source"] == "extension"]
        named = sorted(
            [each["name"], self._text(each.get("description") or "")] for each in commands if each["name"] not in _OWN
        )
        yield Outcome("commands", {"commands": named})
        yield self._step("hello", lambda: self._say("hello"))
        yield Outcome("tools", {"tools": self._declared()})
        for tool in self._tools:
            yield self._step(f"tool {tool['name']}", partial(self._call, tool))
        for name, _ in named:
            yield self._step(f"/{name}", partial(self._say, f"/{name}", is_command=True))
        yield self._step("again", lambda: self._say("are you there?"))
        yield self._step("compact", lambda: self._ask("compact"))
        yield self._step("fork", self._fork)
        yield self._step("new_session", lambda: self._ask("new_session"))
        yield self._step("once more", lambda: self._say("once more"))
        yield self._end()

    def _step(self, name: str, act: Callable[[], object]) -> Outcome:
        self._agent.llm.forget()
        for _ in range(8):
            self._agent.llm.add({"text": "Done."})
        mark, requests = self._agent.mark(), len(self._agent.llm.requests)
        try:
            answer = act()
        except DriverTimeout as error:
            answer = str(error) if self._agent.alive else "the agent has ended"
        except AgentGone:
            answer = "the agent has ended"
        self._rest()
        seen = self._seen(mark)
        return Outcome(
            name,
            {
                "answer": answer,
                **seen,
                "requests": len(self._agent.llm.requests) - requests,
                "alive": self._agent.alive,
            },
        )

    def _rest(self) -> None:
        """Wait until nothing has come for a while; cancel the dialogs that come."""
        deadline_s = time.monotonic() + _STEP_S
        last, since_s = self._agent.mark(), time.monotonic()
        while time.monotonic() < deadline_s and time.monotonic() - since_s < _QUIET_S:
            self._cancel_dialogs()
            time.sleep(_EVERY)
            if (now := self._agent.mark()) != last:
                last, since_s = now, time.monotonic()

    def _cancel_dialogs(self) -> None:
        for each in self._agent.found({"type": "extension_ui_request"}):
            if each["method"] in DIALOG_METHODS and each["id"] not in self._answered:
                self._answered.add(each["id"])
                if self._agent.alive:
                    self._agent.send({"type": "extension_ui_response", "id": each["id"], "cancelled": True})

    def _answer_of(self, command: Mapping[str, object], within_s: float = _STEP_S) -> Record:
        command_id = f"step-{self._agent.mark()}-{command['type']}"
        self._agent.send({"id": command_id, **command})
        deadline_s = time.monotonic() + within_s
        while (response := self._agent.response(command_id)) is None:
            self._cancel_dialogs()
            if time.monotonic() > deadline_s or not self._agent.alive:
                raise DriverTimeout(f"no answer to {command['type']}")
            time.sleep(_EVERY)
        return response

    def _ask(self, kind: str, **fields: object) -> object:
        response = self._answer_of({"type": kind, **fields})
        return "success" if response["success"] else self._text(str(response["error"]))

    def _data(self, kind: str) -> Record:
        return self._answer_of({"type": kind}).get("data") or {}

    def _say(self, text: str, *, is_command: bool = False) -> object:
        mark = self._agent.mark()
        answer = self._ask("prompt", message=text)
        if answer == "success" and not is_command:
            self._settle(mark)
        return answer

    def _settle(self, mark: int) -> None:
        deadline_s = time.monotonic() + _STEP_S
        while not self._agent.found({"type": "agent_settled"}, mark):
            self._cancel_dialogs()
            if time.monotonic() > deadline_s:
                self._answer_of({"type": "abort"})
                raise DriverTimeout("not settled")
            time.sleep(_EVERY)

    def _declared(self) -> list[object]:
        requests = self._agent.llm.requests
        if not requests:
            return []
        tools = [each["function"] for each in requests[-1].body.get("tools", [])]
        self._tools = sorted((each for each in tools if each["name"] not in BUILT_IN), key=lambda each: each["name"])
        return [[each["name"], self._text(each["description"])] for each in self._tools]

    def _call(self, tool: Mapping[str, Any]) -> object:
        self._agent.llm.forget()
        self._agent.llm.add({"tool_calls": [{"name": tool["name"], "args": sample(tool["parameters"])}]})
        for _ in range(8):
            self._agent.llm.add({"text": "Done."})
        return self._say("use the tool")

    def _fork(self) -> object:
        messages: list[Record] = self._data("get_fork_messages").get("messages", [])
        return self._ask("fork", entryId=messages[0]["entryId"]) if messages else "nothing to fork"

    def _end(self) -> Outcome:
        mark = self._agent.mark()
        if self._agent.alive:
            self._agent.close_stdin()
        try:
            code: object = self._agent.wait_exit(_STEP_S)
        except DriverTimeout:
            code = "has not ended"
        return Outcome("end", {"code": code, **self._seen(mark)})

    def _seen(self, mark: int) -> dict[str, object]:
        found = self._agent.found({}, mark)
        requests = [each for each in found if each.get("type") == "extension_ui_request"]
        return {
            "dialogs": [
                [each["method"], self._text(str(each.get("title", "")))]
                for each in requests
                if each["method"] in DIALOG_METHODS
            ],
            "shown": _without_repetitions(
                [each["method"], *(self._shown(each.get(field)) for field in _DISPLAYS[each["method"]])]
                for each in requests
                if each["method"] in _DISPLAYS
            ),
            "results": [
                [each["toolName"], each["isError"], self._text(_text_of(each["result"]))]
                for each in found
                if each.get("type") == "tool_execution_end"
            ],
            "messages": [
                [each["message"].get("customType") or "custom", self._text(_text_of(each["message"]))]
                for each in found
                if each.get("type") == "message_end" and each["message"].get("role") == "custom"
            ],
            "errors": [
                [each.get("event"), self._text(str(each.get("error")))]
                for each in found
                if each.get("type") == "extension_error"
            ],
        }

    def _shown(self, value: object) -> object:
        if isinstance(value, list):
            return [self._text(str(each)) for each in cast("list[object]", value)]
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        for found, stands in self._folders:
            text = text.replace(found, stands)
        for pattern, stands in _VARYING:
            text = pattern.sub(stands, text)
        return text[:_TEXT]


_VARYING: Final = (
    (re.compile(r"\x1b\[[0-9;]*m"), ""),
    (re.compile(r"(?<=-)[A-Za-z0-9]{6}(?=/)"), "<temp>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "<address>"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.-]+Z?"), "<time>"),
    (re.compile(r"(?<![0-9a-f])[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])"), "<id>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{6,}\b"), "<id>"),
    (re.compile(r"\b(?=[0-9a-z]*\d)(?=[0-9a-z]*[a-z])[0-9a-z]{12,}\b"), "<id>"),
    (re.compile(r"\d+(\.\d+)?"), "<n>"),
)
"""What differs from start to start, in this order, and what stands for it."""


def sample(schema: Mapping[str, Any]) -> Any:
    """Make the smallest value that a schema of a tool's parameters allows, of what such schemas use."""
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for union in ("anyOf", "oneOf", "allOf"):
        if schema.get(union):
            return sample(schema[union][0])
    match schema.get("type"):
        case "object":
            properties = schema.get("properties", {})
            return {name: sample(properties[name]) for name in schema.get("required", ()) if name in properties}
        case "array":
            return [sample(schema["items"])] if schema.get("minItems") else []
        case "number" | "integer":
            return schema.get("minimum", 1)
        case "boolean":
            return False
        case _:
            return "sample"


def _without_repetitions(shown: Iterable[object]) -> list[object]:
    """Leave out what the step has shown before: the original emits `session_start` twice for a replaced session."""
    found: list[object] = []
    for each in shown:
        if each not in found:
            found.append(each)
    return found


def _text_of(holder: Mapping[str, Any]) -> str:
    content = holder.get("content")
    if isinstance(content, str):
        return content
    return "".join(each.get("text", "") for each in content or () if each.get("type") == "text")
