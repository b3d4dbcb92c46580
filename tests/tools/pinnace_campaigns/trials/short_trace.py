"""Reads traces in a short form, in which tests write them: one word for what takes a record, or a whole message.

    > prompt a "the text" {"streamingBehavior": "steer"}      a command: type, id (`-`: none), text, more fields
    < ok a {"disposition": "started"}                         a response with its data; `no a "the error"`
    < agent_start / turn_start / user "the text"              items of one direction, cut at slashes between blanks
    < says "hi"            a whole answer with its updates; `answer stop`: one without content; `calls c1 c2`: of calls
    < tool c1 / tool_update c1 "out" / tool_end c1 / result c1
    < turn_end / agent_end / settled                          with those messages; overridden by fields behind them
    < queue b c | d        both queues;  `retry 1 3`, `retry_end 1 ok`;  `compact manual`, `compacted manual`
    < state a {"isStreaming": true} / messages b              answers to reads, with the reported messages
    < any_type {"more": "fields"}                             any other record, as it is
    >> raw text            a line as it is;  `<< raw text` too
    @ 1.5                  from here on it is so many seconds since the start
    $ exit 0 {"seconds": 9}                                   the end; without it the trace is open

Pure. A short trace says nothing wrong by itself: whatever is wrong in it is written there.
"""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from pinnace_spec.observers import End, Step
from pinnace_spec.observers.trace_file import step_of
from pinnace_spec.observers.verdicts import Direction, Ending

Fields = dict[str, Any]

_USAGE: Final[Fields] = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2}
_STATE: Final[Fields] = {
    "model": {"id": "m1"},
    "thinkingLevel": "off",
    "isStreaming": False,
    "isCompacting": False,
    "steeringMode": "one-at-a-time",
    "followUpMode": "one-at-a-time",
    "sessionId": "s",
    "autoCompactionEnabled": True,
}


class ShortTrace(NamedTuple):
    """What a short form stands for."""

    steps: list[Step]
    end: End


class _Item(NamedTuple):
    word: str
    arguments: Sequence[str]
    fields: Fields


def read_short(text: str) -> ShortTrace:
    """Spell out a trace.

    Raises:
        ValueError: A word or a field makes no sense.
    """
    writer = _Writer()
    end = End("open")
    for line in text.split("\n"):  # not splitlines: a line may hold what that splits at
        mark, _, rest = line.strip().partition(" ")
        match mark:
            case "" | "#":
                continue
            case ">>" | "<<":
                writer.line("in" if mark == ">>" else "out", rest)
            case ">" | "<":
                for each in re.split(r"\s/\s", rest):
                    item = _item(each)
                    if mark == ">":
                        writer.send(item)
                    else:
                        writer.write(item)
            case "@":
                writer.at_s = float(rest)
            case "$":
                end = _end(_item(rest))
            case _:
                raise ValueError(f"{line!r} begins with none of > < >> << @ $ #")
    return ShortTrace(writer.steps, end)


def _item(text: str) -> _Item:
    head, brace, tail = text.partition("{")
    word, *arguments = shlex.split(head)
    return _Item(word, arguments, json.loads(brace + tail) if brace else {})


def _end(item: _Item) -> End:
    # cast: another word shows in the verdicts
    code = int(item.arguments[0]) if item.arguments else None
    return End(cast("Ending", item.word), code, **item.fields)


class _Writer:
    """Remembers what was reported, so that sums can be written."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.at_s = 0.0
        self._commands: dict[str, str] = {}
        self._reported: list[Fields] = []
        self._run: list[Fields] = []
        self._answer: Fields = {}
        self._results: list[Fields] = []
        self._time = 1_000

    def line(self, direction: Direction, line: str) -> None:
        """Add a line."""
        number = len(self.steps) + 1
        self.steps.append(step_of(number, direction, line, self.at_s, number))

    def _record(self, direction: Direction, record: Mapping[str, Any]) -> None:
        self.line(direction, json.dumps(record))

    def send(self, item: _Item) -> None:
        """Add a command."""
        name, *texts = item.arguments or ["-"]
        command: Fields = {"type": item.word, **item.fields}
        if name != "-":
            command["id"] = name
            self._commands[name] = item.word
        if texts:
            command["message"] = texts[0]
        self._record("in", command)

    def write(self, item: _Item) -> None:
        """Add what an item stands for."""
        arguments, fields = item.arguments, item.fields
        match item.word:
            case "ok" | "state" | "messages" | "no":
                self._respond(item)
            case "user":
                self._message({"role": "user", "content": [_text(arguments[0])], **fields})
            case "begin":
                self._out("message_start", message={"role": arguments[0], "content": [], **fields})
            case "says":
                self._say(arguments[0], arguments[1] if len(arguments) > 1 else "stop", fields)
            case "answer":
                self._message(self._assistant([], arguments[0], fields))
            case "calls":
                blocks: list[Fields] = [
                    {"type": "toolCall", "id": call, "name": "bash", "arguments": {}} for call in arguments
                ]
                self._message(self._assistant(blocks, "toolUse", fields))
            case "tool" | "tool_update" | "tool_end":
                self._tool(item)
            case "result":
                message: Fields = {
                    "role": "toolResult",
                    "toolCallId": arguments[0],
                    "toolName": "bash",
                    "isError": False,
                }
                self._message({**message, "content": [_text("done")], **fields})
            case "turn_end":
                self._out("turn_end", **{"message": self._answer, "toolResults": self._results, **fields})
            case "agent_end":
                self._out("agent_end", **{"messages": self._run, "willRetry": False, **fields})
            case "settled":
                self._out("agent_settled", **{"aborted": False, **fields})
            case "queue":
                cut = arguments.index("|")
                self._out("queue_update", steering=arguments[:cut], followUp=arguments[cut + 1 :], **fields)
            case "retry" | "retry_end" | "compact" | "compacted":
                self._bracket(item)
            case _:
                self._start(item)
                self._out(item.word, **fields)

    def _out(self, kind: str, /, **fields: object) -> None:
        self._record("out", {"type": kind, **fields})

    def _start(self, item: _Item) -> None:
        if item.word == "agent_start":
            self._run = []
        if item.word == "turn_start":
            self._answer, self._results = {}, []

    def _respond(self, item: _Item) -> None:
        name = item.arguments[0]
        response: Fields = {"type": "response", "command": self._commands.get(name, name), "success": item.word != "no"}
        if name in self._commands:
            response["id"] = name
        match item.word:
            case "no":
                response["error"] = item.arguments[1]
                response.update(item.fields)
            case "state":
                response["data"] = {
                    **_STATE,
                    "messageCount": len(self._reported),
                    "pendingMessageCount": 0,
                    **item.fields,
                }
            case "messages":
                response["data"] = {"messages": self._reported, **item.fields}
            case _:
                response.update({"data": item.fields} if item.fields else {})
        self._record("out", response)

    def _assistant(self, blocks: list[Fields], stop: str, fields: Fields) -> Fields:
        return {"role": "assistant", "content": blocks, "usage": _USAGE, "stopReason": stop, **fields}

    def _message(self, message: Fields) -> None:
        self._time += 1
        reported: Fields = {"timestamp": self._time, **message}
        begun: Fields = {**reported, "content": []} if reported["role"] == "assistant" else reported
        self._out("message_start", message=begun)
        self._end_message(reported)

    def _end_message(self, reported: Fields) -> None:
        self._out("message_end", message=reported)
        self._reported = [*self._reported, reported]
        self._run = [*self._run, reported]
        if reported["role"] == "assistant":
            self._answer = reported
        if reported["role"] == "toolResult":
            self._results = [*self._results, reported]

    def _say(self, text: str, stop: str, fields: Fields) -> None:
        self._time += 1
        message: Fields = {"timestamp": self._time, **self._assistant([_text(text)], stop, fields)}
        self._out("message_start", message={**message, "content": []})
        for kind, name in (("text_start", ""), ("text_delta", "delta"), ("text_end", "content")):
            event: Fields = {"type": kind, "contentIndex": 0}
            self._out("message_update", assistantMessageEvent={**event, name: text} if name else event)
        self._end_message(message)

    def _tool(self, item: _Item) -> None:
        call: Fields = {"toolCallId": item.arguments[0], "toolName": "bash"}
        begun: Fields = {**call, "args": Fields()}
        content = [_text(text) for text in item.arguments[1:]]
        match item.word:
            case "tool":
                self._out("tool_execution_start", **{**begun, **item.fields})
            case "tool_update":
                self._out(
                    "tool_execution_update",
                    **{**begun, "partialResult": {"content": content}, **item.fields},
                )
            case _:
                self._out(
                    "tool_execution_end", **{**call, "result": {"content": content}, "isError": False, **item.fields}
                )

    def _bracket(self, item: _Item) -> None:
        first, *more = item.arguments
        match item.word:
            case "retry":
                fields: Fields = {
                    "attempt": int(first),
                    "maxAttempts": int(more[0]),
                    "delayMs": 2000,
                    "errorMessage": "no",
                }
                self._out("auto_retry_start", **{**fields, **item.fields})
            case "retry_end":
                self._out("auto_retry_end", **{"success": more == ["ok"], "attempt": int(first), **item.fields})
            case "compact":
                self._out("compaction_start", reason=first)
            case _:
                result = {"summary": "in short", "firstKeptEntryId": "e", "tokensBefore": 1}
                end: Fields = {"reason": first, "result": result, "aborted": False, "willRetry": False}
                self._out("compaction_end", **{**end, **item.fields})


def _text(text: str) -> Fields:
    return {"type": "text", "text": text}
