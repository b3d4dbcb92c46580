"""The conversation as a list of items, changed by the events of the agent or loaded from the session's entries.

Pure: no widget, no task, no clock. An item is changed in place, and reported to the listener; `version` counts its
changes, so that a view keeps what it has rendered. Events of unknown types change nothing. An event about an entry that
was loaded already changes that entry's item, so that loading and events may overlap.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from pinnace_tui.content.markdown_blocks import PART_CHARS, divide
from pinnace_tui.content.values import Record, as_mapping, content_text, mapping, number, objects, text

Level = Literal["info", "warning", "error"]


@dataclass(slots=True, eq=False)
class TranscriptItem:
    """Something that is shown."""

    version: int = field(default=0, init=False)
    is_open: bool | None = field(default=None, init=False)
    """Whether it is shown whole; None: as all of its kind."""


@dataclass(slots=True, eq=False)
class UserItem(TranscriptItem):
    """A message of the user."""

    text: str


@dataclass(slots=True, eq=False)
class AnswerItem(TranscriptItem):
    """Markdown of the model, or a part of it."""

    text: str
    is_last_part: bool = True


@dataclass(slots=True, eq=False)
class ThinkingItem(TranscriptItem):
    """Thoughts of the model."""

    text: str


@dataclass(slots=True, eq=False)
class ToolItem(TranscriptItem):
    """A call of a tool, with its output so far."""

    call_id: str
    name: str
    arguments: Record = field(default_factory=dict[str, object])
    written: str = ""
    """The beginning of the arguments, as the model writes them."""
    output: str = ""
    details: Record = field(default_factory=dict[str, object])
    content: Sequence[Record] = ()
    """The output as blocks; pictures are without their data."""
    state: Literal["written", "running", "done", "failed"] = "written"
    duration_ms: float = 0


@dataclass(slots=True, eq=False)
class ShellItem(TranscriptItem):
    """A command that the user runs."""

    command: str
    is_excluded: bool = False
    output: str = ""
    ending: str | None = None
    """None while it runs; else what is reported of its end, empty after exit code 0."""


@dataclass(slots=True, eq=False)
class SummaryItem(TranscriptItem):
    """A summary that stands for a part of the conversation."""

    title: str
    text: str


@dataclass(slots=True, eq=False)
class NoticeItem(TranscriptItem):
    """A line of the client, or an error of the agent."""

    text: str
    level: Level = "info"


@dataclass(slots=True, eq=False)
class CustomItem(TranscriptItem):
    """A message of an extension."""

    text: str
    custom_type: str = ""
    entry: str = ""
    content: object = ""
    details: object = None
    timestamp: object = None


@dataclass(slots=True, eq=False)
class EntryItem(TranscriptItem):
    """An entry of an extension, which nothing but that can draw."""

    custom_type: str
    entry: str
    data: object = None
    timestamp: object = None


class Listener(Protocol):
    """What follows the changes."""

    def inserted(self, row: int) -> None:
        """An item is new at a row."""

    def changed(self, item: TranscriptItem) -> None:
        """An item is different."""

    def replaced(self) -> None:
        """All items are others."""


class Transcript:
    """The items of one conversation."""

    def __init__(self) -> None:
        """Begin empty."""
        self.items: list[TranscriptItem] = []
        self.listener: Listener | None = None
        self._calls: dict[str, ToolItem] = {}
        self._entries: set[str] = set()
        self._blocks: dict[int, TranscriptItem] = {}
        """Of the answer that is growing, the last item of each of its blocks."""
        self._growing: str | None = None
        """The entry of that answer; empty if it has no name."""
        self.entry_types: frozenset[str] = frozenset()
        """The types of the custom entries that are items."""
        self.has_gap = False
        """Whether the beginning of an answer was not seen: load again when it has ended."""

    # --- loading ---------------------------------------------------------------------------------------------------

    def load_entries(self, entries: Iterable[Record], leaf: str | None) -> None:
        """Show the branch that ends with an entry, instead of all there is."""
        known = {text(entry, "id"): entry for entry in entries}
        branch: list[Record] = []
        place = leaf
        while place is not None and (entry := known.pop(place, None)) is not None:
            branch.append(entry)
            parent = entry.get("parentId")
            place = parent if isinstance(parent, str) else None
        self._begin()
        for entry in reversed(branch):
            self._load_entry(entry)
        self._report_all()

    def load_messages(self, messages: Iterable[Record]) -> None:
        """Show messages, instead of all there is."""
        self._begin()
        for message in messages:
            self._add_message(message)
        self._report_all()

    def _begin(self) -> None:
        self.items, self._calls, self._blocks, self._growing = [], {}, {}, None
        self._entries.clear()
        self.has_gap = False

    def _report_all(self) -> None:
        for call in self._calls.values():
            if call.state == "written":
                call.state = "running"
        if self.listener is not None:
            self.listener.replaced()

    def _load_entry(self, entry: Record) -> None:
        self._entries.add(text(entry, "id"))
        match entry.get("type"):
            case "message":
                self._add_message(mapping(entry, "message"))
            case "custom_message" if entry.get("display") is not False:
                self._append(_custom(entry, text(entry, "id")))
            case "custom" if text(entry, "customType") in self.entry_types:
                custom_type, identity = text(entry, "customType"), text(entry, "id")
                self._append(EntryItem(custom_type, identity, entry.get("data"), entry.get("timestamp")))
            case "compaction":
                self._append(_compaction(entry))
            case "branch_summary":
                self._append(SummaryItem("Summary of a branch that was left", text(entry, "summary")))
            case _:
                pass

    # --- events ----------------------------------------------------------------------------------------------------

    def apply(self, event: Record) -> None:
        """Change what an event changes."""
        match event.get("type"):
            case "message_start":
                self._start_message(event)
            case "message_update":
                self._update_message(event)
            case "message_end":
                self._end_message(event)
            case "tool_execution_start":
                call = self._call(event)
                call.arguments, call.state = mapping(event, "args"), "running"
                self._change(call)
            case "tool_execution_update":
                self._take_output(self._call(event), mapping(event, "partialResult"))
            case "tool_execution_end":
                call = self._call(event)
                call.state = "failed" if event.get("isError") is True else "done"
                call.duration_ms = number(event, "durationMs")
                self._take_output(call, mapping(event, "result"))
            case "bash_execution_update":
                self._grow_shell(text(event, "delta"))
            case "entry_appended" if (entry := mapping(event, "entry")).get("type") == "custom":
                if text(entry, "id") not in self._entries:
                    self._load_entry(entry)
            case "compaction_end" if result := mapping(event, "result"):
                summary = _compaction(result)
                if not any(isinstance(item, SummaryItem) and item.text == summary.text for item in self.items):
                    self._append(summary)
            case "compaction_end" if not event.get("aborted"):
                self.notice(f"Compaction has failed: {text(event, 'errorMessage')}", "error")
            case "auto_retry_start":
                delay_s = number(event, "delayMs") / 1000
                attempt = f"{number(event, 'attempt'):.0f} of {number(event, 'maxAttempts'):.0f}"
                self.notice(f"Attempt {attempt} in {delay_s:.0f} s: {text(event, 'errorMessage')}", "warning")
            case "warning":
                self.notice(warning_line(event), "warning")
            case "extension_error":
                self.notice(warning_line(event), "error")
            case _:
                pass

    def notice(self, message: str, level: Level = "info") -> None:
        """Add a line of the client."""
        self._append(NoticeItem(message, level))

    def start_shell(self, command: str, *, is_excluded: bool) -> ShellItem:
        """Add a command that the user runs."""
        item = ShellItem(command, is_excluded)
        self._append(item)
        return item

    def end_shell(self, item: ShellItem, result: Record) -> None:
        """Take the whole result of a command."""
        _end_shell(item, result)
        self._change(item)

    def toggle(self, item: TranscriptItem, *, is_open: bool) -> None:
        """Show an item whole, or folded."""
        item.is_open = is_open
        self._change(item)

    def is_growing(self, item: TranscriptItem) -> bool:
        """Return whether an item is a part of the answer that the model is writing."""
        return self._growing is not None and any(each is item for each in self._blocks.values())

    def call(self, call_id: str) -> ToolItem | None:
        """Return the call of this id, if it is shown."""
        return self._calls.get(call_id)

    def last_answer(self) -> str:
        """Return the text of the last answer, as far as it has come; nothing if there is none."""
        parts: list[str] = []
        for item in reversed(self.items):
            if isinstance(item, AnswerItem) and not (parts and item.is_last_part):
                parts.append(item.text)
            elif parts:
                break
        return "".join(reversed(parts)).strip()

    def prompts(self) -> list[str]:
        """Return the user's messages."""
        return [item.text for item in self.items if isinstance(item, UserItem)]

    def last_answer_parts(self) -> list[str]:
        """Return the text of the last answer."""
        parts: list[str] = []
        for item in reversed(self.items):
            if isinstance(item, AnswerItem):
                parts.insert(0, item.text)
            elif parts:
                break
        return parts

    # --- messages --------------------------------------------------------------------------------------------------

    def _add_message(self, message: Record, entry: str = "") -> None:
        match message.get("role"):
            case "user":
                self._append(UserItem(content_text(message)))
            case "assistant":
                for block in objects(message, "content"):
                    self._add_block(block)
                self._add_ending(message)
            case "toolResult":
                call = self._calls.get(text(message, "toolCallId"))
                if call is None:
                    call = self._add_call(text(message, "toolCallId"), text(message, "toolName"))
                call.state = "failed" if message.get("isError") is True else "done"
                call.duration_ms = number(message, "durationMs")
                self._take_output(call, message)
            case "bashExecution":
                shell = ShellItem(text(message, "command"), message.get("excludeFromContext") is True)
                _end_shell(shell, message)
                self._append(shell)
            case "custom" if message.get("display") is not False:
                self._append(_custom(message, entry))
            case "compactionSummary":
                self._append(_compaction(message))
            case "branchSummary":
                self._append(SummaryItem("Summary of a branch that was left", text(message, "summary")))
            case _:
                pass

    def _add_block(self, block: Record) -> None:
        match block.get("type"):
            case "text" if text(block, "text").strip():
                *parts, last = divide(text(block, "text"))
                for part in parts:
                    self._append(AnswerItem(part, is_last_part=False))
                self._append(AnswerItem(last))
            case "thinking" if text(block, "thinking").strip():
                self._append(ThinkingItem(text(block, "thinking")))
            case "toolCall":
                call = self._add_call(text(block, "id"), text(block, "name"))
                call.arguments = mapping(block, "arguments")
            case _:
                pass

    def _add_ending(self, message: Record) -> None:
        match message.get("stopReason"):
            case "error":
                self.notice(text(message, "errorMessage") or "The model has failed.", "error")
            case "aborted":
                self.notice("Aborted.", "warning")
            case "length":
                self.notice("The answer was cut: it has reached the longest length.", "warning")
            case _:
                pass

    def _start_message(self, event: Record) -> None:
        entry, message = text(event, "entryId"), mapping(event, "message")
        if entry and entry in self._entries:
            return
        role = message.get("role")
        if role == "assistant":
            self._growing, self._blocks = entry, {}
        elif role == "user":
            self._entries.add(entry)
            self._add_message(message)

    def _update_message(self, event: Record) -> None:
        entry = text(event, "entryId")
        if entry and entry in self._entries:
            return
        if self._growing is None or (entry and entry != self._growing):
            self._growing, self._blocks, self.has_gap = entry, {}, True
        step = mapping(event, "assistantMessageEvent")
        index = int(number(step, "contentIndex"))
        match step.get("type"):
            case "text_delta":
                self._grow_text(index, step, mapping(event, "message"))
            case "thinking_delta":
                self._grow_thinking(index, step, mapping(event, "message"))
            case "toolcall_start" | "toolcall_delta" | "toolcall_end":
                self._grow_call(index, text(step, "type"), step, mapping(event, "message"))
            case _:
                pass

    def _grow_text(self, index: int, step: Record, message: Record) -> None:
        delta = text(step, "delta")
        item = self._blocks.get(index)
        if not isinstance(item, AnswerItem):
            whole = text(_block(message, index), "text")  # of an answer whose beginning was not seen
            item = AnswerItem(whole or delta)
            self._blocks[index] = item
            self._append(item)
        else:
            item.text += delta
        if len(item.text) > PART_CHARS and ("\n" in delta or len(item.text) > 4 * PART_CHARS):
            *parts, rest = divide(item.text)
            if parts and rest:
                item.text, item.is_last_part = parts[0], False
                row = self.items.index(item, max(0, len(self.items) - 100))
                for text_of_part in (*parts[1:], rest):
                    row += 1
                    item = AnswerItem(text_of_part, is_last_part=text_of_part is rest)
                    self._insert(row, item)
                self._change(self._blocks[index])
                self._blocks[index] = item
        self._change(item)

    def _grow_thinking(self, index: int, step: Record, message: Record) -> None:
        item = self._blocks.get(index)
        if not isinstance(item, ThinkingItem):
            item = ThinkingItem(text(_block(message, index), "thinking") or text(step, "delta"))
            self._blocks[index] = item
            self._append(item)
        else:
            item.text += text(step, "delta")
            self._change(item)

    def _grow_call(self, index: int, kind: str, step: Record, message: Record) -> None:
        item = self._blocks.get(index)
        if not isinstance(item, ToolItem):
            block = _block(message, index)
            finished = mapping(step, "toolCall")
            call_id = text(step, "id") or text(finished, "id") or text(block, "id")
            name = text(step, "toolName") or text(finished, "name") or text(block, "name")
            item = self._calls.get(call_id) or self._add_call(call_id, name)
            self._blocks[index] = item
        if kind == "toolcall_delta":
            item.written += text(step, "delta")
        elif kind == "toolcall_end":
            item.arguments, item.written = mapping(mapping(step, "toolCall"), "arguments"), ""
        self._change(item)

    def _end_message(self, event: Record) -> None:
        entry, message = text(event, "entryId"), mapping(event, "message")
        if entry and entry in self._entries:
            return
        match message.get("role"):
            case "assistant":
                self._complete(message)
                blocks = self._blocks.values()
                self._growing, self._blocks = None, {}
                for item in blocks:
                    self._change(item)
            case "user":
                pass  # added at its start
            case _:
                self._add_message(message, entry)
        self._entries.add(entry)

    def _complete(self, message: Record) -> None:
        """Add what no delta has brought of an answer that has ended."""
        for index, block in enumerate(objects(message, "content")):
            if block.get("type") == "toolCall":
                call = self._calls.get(text(block, "id"))
                if call is not None:
                    call.arguments, call.written = mapping(block, "arguments"), ""
                    self._change(call)
                    continue
            if index not in self._blocks:
                self._add_block(block)
        self._add_ending(message)

    def _call(self, event: Record) -> ToolItem:
        call_id = text(event, "toolCallId")
        return self._calls.get(call_id) or self._add_call(call_id, text(event, "toolName"))

    def _add_call(self, call_id: str, name: str) -> ToolItem:
        call = ToolItem(call_id, name)
        self._calls[call_id] = call
        self._append(call)
        return call

    def _take_output(self, call: ToolItem, result: Record) -> None:
        call.output = content_text(result)
        call.content = [_without_data(block) for block in objects(result, "content")]
        if details := as_mapping(result.get("details")):
            call.details = details
        self._change(call)

    def _grow_shell(self, delta: str) -> None:
        for item in reversed(self.items[-50:]):
            if isinstance(item, ShellItem) and item.ending is None:
                item.output = (item.output + delta)[-100_000:]
                self._change(item)
                return

    # --- changes ---------------------------------------------------------------------------------------------------

    def _append(self, item: TranscriptItem) -> None:
        self._insert(len(self.items), item)

    def _insert(self, row: int, item: TranscriptItem) -> None:
        self.items.insert(row, item)
        if self.listener is not None:
            self.listener.inserted(row)

    def _change(self, item: TranscriptItem) -> None:
        item.version += 1
        if self.listener is not None:
            self.listener.changed(item)


def _custom(record: Record, entry: str) -> CustomItem:
    content = record.get("content")
    shown = content if isinstance(content, str) else [_without_data(block) for block in objects(record, "content")]
    kind = text(record, "customType")
    return CustomItem(content_text(record), kind, entry, shown, record.get("details"), record.get("timestamp"))


def _without_data(block: Record) -> Record:
    return {name: value for name, value in block.items() if name != "data"} if "data" in block else block


def _compaction(record: Mapping[str, object]) -> SummaryItem:
    return SummaryItem(f"Compacted from {number(record, 'tokensBefore'):,.0f} tokens", text(record, "summary"))


def _block(message: Record, index: int) -> Record:
    blocks = objects(message, "content")
    return blocks[index] if index < len(blocks) else {}


def warning_line(record: Record) -> str:
    """Return what a warning, or the error of an extension, says: the state may list the same."""
    if record.get("type") == "extension_error":
        return f"{text(record, 'extensionPath')}: {text(record, 'error')}"
    return "\n→ ".join(filter(None, [text(record, "text"), text(record, "remedy")]))


def _end_shell(item: ShellItem, result: Record) -> None:
    item.output = text(result, "output")
    code = number(result, "exitCode")
    item.ending = "cancelled" if result.get("cancelled") is True else (f"exit code {code:.0f}" if code else "")
    if result.get("truncated") is True:
        item.ending = ", ".join(filter(None, [item.ending, f"all of it: {text(result, 'fullOutputPath')}"]))
