"""Classes of records: the letters of which the expressions of scenarios are made.

A class is a word, optionally with arguments directly behind it, optionally with conditions on fields:

    agent_end                    the type, as on the wire
    resp(a)  resp(a,ok)  resp(a,error)  resp(a,error,/regex/)     a response by its id
    answer(prompt,ok)            a response by its command
    user("X")                    message_start of a user's message with this text; `user(/re/)`; `user`
    assistant("X")  assistant(aborted)     message_end of an assistant's message by text or by stopReason
    result("X")  result(ok)  result(error)  result(/re/)          message_end of a tool's result
    update(text_delta)  delta("X")  thinking("X")                 message_update
    tool_start(bash)  tool_update(bash)  tool_end(bash)           by tool
    queue(["a"],[])              queue_update by its two lists
    compaction_start(manual)  compaction_end(manual)              by reason
    retry_start(1)  retry_end(ok)  retry_end(error)               by attempt, by success
    ui(confirm)                  extension_ui_request by method
    turn  settled                turn_start, agent_settled
    @name                        a mark that the client script has set
    …[data.cancelled=false, model.id="m1", error~/re/, data, !data.text, name!=null]

Pure. Must not know how an expression is matched (`expression`) nor what a scenario is.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from pinnace_spec.wire.file_texts import message_words

Record = Mapping[str, Any]
Test = Callable[[Record], bool]

MARK = "@"
"""The `type` of the record that stands for a mark in a trace; its `name` is the mark's."""

_ALIASES: Mapping[str, tuple[str, ...]] = {
    "turn": ("turn_start",),
    "settled": ("agent_settled",),
    "queue": ("queue_update",),
    "tool_start": ("tool_execution_start",),
    "tool_update": ("tool_execution_update",),
    "tool_end": ("tool_execution_end",),
    "update": ("message_update",),
    "retry_start": ("auto_retry_start",),
    "retry_end": ("auto_retry_end",),
    # The older generations' names of the same records.
    "compaction_start": ("compaction_start", "auto_compaction_start"),
    "compaction_end": ("compaction_end", "auto_compaction_end"),
    "ui": ("extension_ui_request",),
    "bash_update": ("bash_execution_update",),
}

_CONDITION = re.compile(r"\s*(?P<no>!)?(?P<path>[A-Za-z_][\w.\-]*)\s*(?:(?P<op>!=|=|~)\s*(?P<value>.*))?\s*", re.DOTALL)


class ClassError(ValueError):
    """The syntax of a class is invalid; see this module's docstring."""


class RecordClass(NamedTuple):
    """One class, ready to test records."""

    text: str
    """As it was written."""
    name: str
    test: Test

    @property
    def is_mark(self) -> bool:
        """It is a mark of the script, not a record."""
        return self.name == MARK


def field(record: object, path: str) -> object:
    """Read a field by a path with dots; a number is a place in a list (negative: from the end). Absent: `MISSING`."""
    value = record
    for part in path.split("."):
        if isinstance(value, Mapping) and part in value:
            value = cast("Mapping[str, object]", value)[part]
        elif isinstance(value, Sequence) and not isinstance(value, str) and re.fullmatch(r"-?\d+", part):
            items = cast("Sequence[object]", value)
            if not -len(items) <= int(part) < len(items):
                return MISSING
            value = items[int(part)]
        else:
            return MISSING
    return value


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


MISSING = _Missing()


def message_text(message: object) -> str:
    """Join the text blocks of a message, whose content may also be plain text; without those of its context."""
    content = field(message, "content")
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return ""
    return message_words(
        str(field(block, "text")) for block in cast("Sequence[object]", content) if field(block, "type") == "text"
    )


def record_class(name: str, arguments: Sequence[str] | None, conditions: Sequence[str], text: str) -> RecordClass:
    """Make a class.

    Args:
        name: Its word.
        arguments: The text in the parentheses; None without any.
        conditions: The text in the brackets.
        text: The whole, for people.

    Raises:
        ClassError: It means nothing.
    """
    tests = [_kind_test(name, [each.strip() for each in arguments or ()], text)]
    tests += [_condition(each, text) for each in conditions]

    def is_member(record: Record) -> bool:
        return all(test(record) for test in tests)

    return RecordClass(text, MARK if name.startswith(MARK) else name, is_member)


def _kind_test(name: str, arguments: list[str], text: str) -> Test:
    if name.startswith(MARK):
        wanted = name[1:]
        return lambda record: record.get("type") == MARK and record.get("name") == wanted
    maker = _MAKERS.get(name)
    of_type = _type_test(*_ALIASES.get(name, (name,)))
    if maker is None:
        if arguments:
            raise ClassError(f"{text}: {name} takes no arguments")
        return of_type
    try:
        test = maker(arguments)
    except (ValueError, IndexError, re.error) as error:
        raise ClassError(f"{text}: {error!s}") from None
    return test if name in _WHOLE else lambda record: of_type(record) and test(record)


def _type_test(*names: str) -> Test:
    return lambda record: str(record.get("type")) in names


def matcher(written: str) -> Callable[[object], bool]:
    """Read `"text"`, `/regex/` or a bare word as a test of text."""
    if len(written) > 1 and written[0] == written[-1] == "/":
        pattern = re.compile(written[1:-1])
        return lambda value: isinstance(value, str) and pattern.search(value) is not None
    wanted: object = json.loads(written) if written[:1] == '"' else written
    return lambda value: value == wanted


def _condition(written: str, text: str) -> Test:
    found = _CONDITION.fullmatch(written)
    if found is None or (found["no"] and found["op"]):
        raise ClassError(f"{text}: {written.strip()!r} is no condition")
    path, operator, value = found["path"], found["op"], (found["value"] or "").strip()
    if operator is None:
        is_there = not found["no"]
        return lambda record: (field(record, path) is not MISSING) is is_there
    try:
        if operator == "~":
            if not (len(value) > 1 and value[0] == value[-1] == "/"):
                raise ClassError(f"{text}: ~ requires /regex/")
            return _on_field(path, matcher(value))
        wanted: object = json.loads(value)
    except (ValueError, re.error) as error:
        raise ClassError(f"{text}: {value!r} is no JSON value: {error}") from None
    # JSON's true is not 1, as it would be here.
    is_equal = operator == "="
    return _on_field(
        path, lambda found: (found == wanted and isinstance(found, bool) is isinstance(wanted, bool)) is is_equal
    )


def _on_field(path: str, test: Callable[[object], bool]) -> Test:
    return lambda record: test(field(record, path))


def _always(_: Record) -> bool:
    return True


def _response(arguments: list[str], path: str) -> Test:
    if not arguments:
        return _type_test("response")
    wanted, *rest = arguments
    want_none = wanted == "-"
    is_wanted = matcher(wanted)
    outcome = rest[0] if rest else None
    if outcome not in (None, "ok", "error") or len(rest) > 2:
        raise ValueError("the second argument is ok or error, the third a text or /regex/")
    is_text = matcher(rest[1]) if len(rest) > 1 else None

    def test(record: Record) -> bool:
        if record.get("type") != "response":
            return False
        if (want_none and path in record) or (not want_none and not is_wanted(record.get(path))):
            return False
        if outcome is not None and record.get("success") is not (outcome == "ok"):
            return False
        return is_text is None or is_text(record.get("error"))

    return test


def _message(arguments: list[str], kind: str, role: str, words: Mapping[str, tuple[str, object]], path: str) -> Test:
    if len(arguments) > 1:
        raise ValueError("one argument")
    checks: list[Test] = []
    if arguments:
        (written,) = arguments
        if written[:1] in '"/':
            is_text = matcher(written)
            checks.append(lambda record: is_text(message_text(record.get("message"))))
        else:
            at, value = words.get(written, (path, written))
            if not at:
                raise ValueError(f"{written} is neither a text nor one of {', '.join(words)}")
            checks.append(lambda record: field(record, at) == value)
    return lambda record: (
        record.get("type") == kind and field(record, "message.role") == role and all(check(record) for check in checks)
    )


def _user(arguments: list[str]) -> Test:
    return _message(arguments, "message_start", "user", {}, "")


def _assistant(arguments: list[str]) -> Test:
    return _message(arguments, "message_end", "assistant", {}, "message.stopReason")


def _result(arguments: list[str]) -> Test:
    words = {"ok": ("message.isError", False), "error": ("message.isError", True)}
    return _message(arguments, "message_end", "toolResult", words, "message.toolName")


def _by(path: str) -> Callable[[list[str]], Test]:
    def make(arguments: list[str]) -> Test:
        if not arguments:
            return _always
        (written,) = arguments
        return _on_field(path, matcher(written))

    return make


def _delta(kind: str) -> Callable[[list[str]], Test]:
    def make(arguments: list[str]) -> Test:
        is_text = matcher(arguments[0]) if arguments else None

        def test(record: Record) -> bool:
            event = record.get("assistantMessageEvent")
            return (
                record.get("type") == "message_update"
                and field(event, "type") == kind
                and (is_text is None or is_text(field(event, "delta")))
            )

        return test

    return make


def _queue(arguments: list[str]) -> Test:
    if not arguments:
        return _always
    # The lists' own commas have cut them: they are put together again.
    steering, follow_up = json.loads(f"[{','.join(arguments)}]")
    return lambda record: (record.get("steering"), record.get("followUp")) == (steering, follow_up)


def _attempt(arguments: list[str]) -> Test:
    if not arguments:
        return _always
    wanted = int(arguments[0])
    return lambda record: record.get("attempt") == wanted


def _success(arguments: list[str]) -> Test:
    if not arguments:
        return _always
    wanted = {"ok": True, "error": False}[arguments[0]]
    return lambda record: record.get("success") is wanted


_MAKERS: Mapping[str, Callable[[list[str]], Test]] = {
    "resp": lambda arguments: _response(arguments, "id"),
    "answer": lambda arguments: _response(arguments, "command"),
    "user": _user,
    "assistant": _assistant,
    "result": _result,
    "update": _by("assistantMessageEvent.type"),
    "delta": _delta("text_delta"),
    "thinking": _delta("thinking_delta"),
    "tool_start": _by("toolName"),
    "tool_update": _by("toolName"),
    "tool_end": _by("toolName"),
    "queue": _queue,
    "compaction_start": _by("reason"),
    "compaction_end": _by("reason"),
    "retry_start": _attempt,
    "retry_end": _success,
    "ui": _by("method"),
    "turn": lambda arguments: _always,
    "settled": lambda arguments: _always,
    "bash_update": lambda arguments: _always,
}
# The types of record for these classes are fixed.
_WHOLE = frozenset({"resp", "answer", "user", "assistant", "result", "delta", "thinking"})
