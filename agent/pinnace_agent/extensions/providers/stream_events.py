"""Reads the events that `stream_simple` of an extension's provider yields into a message.

The events are those of `assistantMessageEvent`, as in pi: `start`, `text_start` and so on, and one `done` or `error`.
Each event is checked before it changes the message; an invalid one raises `WrongEvent`, whose text names the event, its
field and the expected value. Values are copied.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, TypeAlias, get_args

from pinnace_agent.core.json_access import as_amount, compact_json
from pinnace_agent.core.json_values import is_list, is_object
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.cost import RequestTokens, usage_of
from pinnace_spec.records.messages import Model, StopReason, Usage

_Kind: TypeAlias = Literal["text", "thinking", "toolcall"]

_KINDS: Final[tuple[_Kind, ...]] = get_args(_Kind)
_EDGES: Final = ("start", "delta", "end")
_TYPES: Final = ("start", *(f"{kind}_{edge}" for kind in _KINDS for edge in _EDGES), "done", "error")
_REASONS: Final[Mapping[str, StopReason]] = {"stop": "stop", "length": "length", "toolUse": "toolUse"}
# Of a block in a message: its kind, and the field that holds its text.
_BLOCKS: Final[Mapping[str, tuple[_Kind, str]]] = {
    "text": ("text", "text"),
    "thinking": ("thinking", "thinking"),
    "toolCall": ("toolcall", "arguments"),
}
_COUNTS: Final = {
    "input": "input",
    "output": "output",
    "cacheRead": "cache_read",
    "cacheWrite": "cache_write",
    "cacheWrite1h": "cache_write_1h",
    "reasoning": "reasoning",
}
_SHOWN_CHARS: Final = 80


class WrongEvent(Exception):
    """An event is invalid; the text names it, its field, and the expected value."""


@dataclass(slots=True)
class _Block:
    """One block of the message, at its `contentIndex`."""

    kind: _Kind
    call: tuple[str, str] = ("", "")
    """Id and name of a tool call."""
    is_open: bool = True


class StreamReader:
    """Reads the events of one answer."""

    def __init__(self, builder: MessageBuilder) -> None:
        """Read into `builder`."""
        self._builder = builder
        self._blocks: list[_Block] = []
        self._count = 0

    def read(self, event: object) -> bool:
        """Add one event to the message; return whether it ended the message.

        Raises:
            WrongEvent: The event is invalid. The message is unchanged.
        """
        self._count += 1
        if not is_object(event):
            raise WrongEvent(f"event {self._count} must be a dict with a type, not {_shown(event)}")
        fields = _Fields(event, f"event {self._count}")
        kind = fields.text("type")
        if kind not in _TYPES:
            raise fields.wrong("type", f"one of {', '.join(_TYPES)}")
        fields.place = f"event {self._count} ({kind})"
        match kind:
            case "start":
                if self._builder.has_started:
                    raise WrongEvent(f"{fields.place} must come once, before every other event")
                self._builder.start()
            case "done":
                self._done(fields)
            case "error":
                self._failed(fields)
            case _:
                block_kind, _, edge = kind.partition("_")
                self._step(fields, next(each for each in _KINDS if each == block_kind), edge)
        return self._builder.is_finished

    def _step(self, fields: "_Fields", kind: _Kind, edge: str) -> None:
        index = fields.count("contentIndex")
        if index is None:
            raise fields.wrong("contentIndex", "the place of the block in the message")
        if edge == "start":
            self._start(fields, kind, index)
            return
        if index >= len(self._blocks) or not self._blocks[index].is_open or self._blocks[index].kind != kind:
            raise fields.wrong("contentIndex", f"the place of an open block that {kind}_start has begun")
        if edge == "delta":
            delta = fields.text("delta")
            match kind:
                case "text":
                    self._builder.text_delta(index, delta)
                case "thinking":
                    self._builder.thinking_delta(index, delta)
                case "toolcall":
                    self._builder.toolcall_delta(index, delta)
        else:
            self._end(fields, index)

    def _start(self, fields: "_Fields", kind: _Kind, index: int) -> None:
        if index != len(self._blocks):
            raise fields.wrong("contentIndex", f"{len(self._blocks)}, the place of the next block")
        block = _Block(kind)
        if kind == "toolcall":
            block.call = _call_of(fields, index)
        self._open(index, block)

    def _open(self, index: int, block: _Block) -> None:
        if not self._builder.has_started:
            self._builder.start()
        self._blocks.append(block)
        match block.kind:
            case "text":
                self._builder.text_delta(index, "")
            case "thinking":
                self._builder.thinking_delta(index, "")
            case "toolcall":
                self._builder.toolcall_start(index, *block.call)

    def _end(self, fields: "_Fields", index: int) -> None:
        block = self._blocks[index]
        if block.kind == "toolcall":
            call = fields.record("toolCall")
            final = None if call is None else _arguments(call, block.call)
        else:
            final = fields.optional_text("content")
        self._close(index, final, fields.optional_text("signature"))

    def _close(self, index: int, final: str | None, signature: str | None) -> None:
        block = self._blocks[index]
        if signature is not None:
            match block.kind:
                case "text":
                    self._builder.sign_text(index, signature)
                case "thinking":
                    self._builder.sign_thinking(index, signature)
                case "toolcall":
                    self._builder.sign_call(index, signature)
        self._builder.end_block(index, final)
        block.is_open = False

    def _done(self, fields: "_Fields") -> None:
        message = fields.record("message")
        reason = fields.text("reason")
        if reason not in _REASONS:
            raise fields.wrong("reason", f"one of {', '.join(_REASONS)}")
        usage = _usage(fields.record("usage") or (message and message.record("usage")), self._builder.model)
        complete = self._completed(message)
        if message is not None:
            self._builder.response_id = message.optional_text("responseId")
            self._builder.response_model = message.optional_text("responseModel")
        if not self._builder.has_started:
            self._builder.start()
        for step in complete:
            step()
        if usage is not None:
            self._builder.usage = usage
        self._builder.finish(_REASONS[reason])

    def _completed(self, message: "_Fields | None") -> list[Callable[[], None]]:
        """Return the steps that add the parts of the message that no earlier event had; all parts are checked first."""
        steps: list[Callable[[], None]] = []
        content = None if message is None else message.value("content")
        if message is None or content is None:
            return steps
        if not is_list(content):
            raise message.wrong("content", "a list of blocks")
        if len(content) < len(self._blocks):
            raise message.wrong("content", f"a list of at least {len(self._blocks)} blocks, as many as have begun")
        for index, each in enumerate(content):
            place = f"{message.place}.content[{index}]"
            known = _BLOCKS.get(str(each.get("type"))) if is_object(each) else None
            if not is_object(each) or known is None:
                raise WrongEvent(f"{place} must be a block of type {', '.join(_BLOCKS)}, not {_shown(each)}")
            kind, name = known
            fields = _Fields(each, place)
            is_new = index >= len(self._blocks)
            if not is_new and self._blocks[index].kind != kind:
                raise fields.wrong("type", f"that of the block which has begun here, {self._blocks[index].kind}")
            block = _Block(kind) if is_new else self._blocks[index]
            if kind == "toolcall":
                if is_new:
                    block.call = fields.text("id"), fields.text("name")
                final = _arguments(fields, block.call)
            else:
                final = fields.text(name)
            signature = fields.optional_text({"toolcall": "thoughtSignature"}.get(kind, f"{kind}Signature"))
            if is_new:
                steps.append(partial(self._open, index, block))
            if block.is_open:
                steps.append(partial(self._close, index, final, signature))
        return steps

    def _failed(self, fields: "_Fields") -> None:
        error = fields.value("error")
        usage = None
        if isinstance(error, str):
            text = error
        elif is_object(error):
            message = _Fields(error, f"{fields.place}: error")
            text = message.text("errorMessage")
            usage = _usage(message.record("usage"), self._builder.model)
        else:
            raise fields.wrong("error", "a string, or a message with an errorMessage")
        if usage is not None:
            self._builder.usage = usage
        self._builder.fail(text or "the provider failed without an error message")


class _Fields:
    """The fields of an event or of a part of one."""

    def __init__(self, values: Mapping[str, object], place: str) -> None:
        self.place = place
        self._values = values

    def value(self, name: str) -> object:
        return self._values.get(name)

    def text(self, name: str) -> str:
        value = self._values.get(name)
        if not isinstance(value, str):
            raise self.wrong(name, "a string")
        return value

    def optional_text(self, name: str) -> str | None:
        return None if self._values.get(name) is None else self.text(name)

    def count(self, name: str) -> int | None:
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.wrong(name, "a whole number that is not negative")
        return value

    def record(self, name: str) -> "_Fields | None":
        value = self._values.get(name)
        if value is None:
            return None
        if not is_object(value):
            raise self.wrong(name, "a dict")
        return _Fields(value, f"{self.place}: {name}")

    def wrong(self, name: str, expected: str) -> WrongEvent:
        found = f"not {_shown(self._values[name])}" if name in self._values else "and is missing"
        return WrongEvent(f'{self.place}: "{name}" must be {expected}, {found}')


def _call_of(fields: _Fields, index: int) -> tuple[str, str]:
    """Return the id and name of a starting call: in the event, in its `toolCall`, or in its `partial`."""
    if (call := fields.record("toolCall")) is not None:
        return call.text("id"), call.text("name")
    partial = fields.record("partial")
    content = None if partial is None else partial.value("content")
    if is_list(content) and index < len(content) and is_object(block := content[index]):
        call = _Fields(block, f"{fields.place}: partial.content[{index}]")
        return call.text("id"), call.text("name")
    return fields.text("id"), fields.text("toolName")


def _arguments(call: _Fields, begun: tuple[str, str]) -> str | None:
    """Return the arguments of a finished call as JSON; None: it has none, so those of the deltas are kept."""
    for name, value in zip(("id", "name"), begun, strict=True):
        if call.optional_text(name) not in (None, value):
            raise call.wrong(name, f"{value!r}, as when the call began")
    arguments = call.value("arguments")
    if arguments is None:
        return None
    if not is_object(arguments):
        raise call.wrong("arguments", "a dict")
    try:
        return compact_json(arguments)
    except (TypeError, ValueError, RecursionError) as error:
        raise call.wrong("arguments", f"JSON ({error})") from None


def _usage(fields: _Fields | None, model: Model) -> Usage | None:
    """Return the usage of a request, at the model's prices unless the provider reports a total cost."""
    if fields is None:
        return None
    counts = {field: fields.count(name) or 0 for name, field in _COUNTS.items()}
    cost = fields.record("cost")
    total = None if cost is None else cost.value("total")
    if cost is not None and as_amount(total) is None:
        raise cost.wrong("total", "US dollars, a number that is not negative")
    return usage_of(model, RequestTokens(**counts), reported_total=as_amount(total))


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # the __repr__ of an extension may raise
        text = type(value).__name__
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."
