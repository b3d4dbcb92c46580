"""Messages as the page shows them: texts, thoughts, calls and results.

Takes messages as files hold them, with anything missing or of another type: what can't be shown as what it should be
is shown as JSON.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from pinnace_agent.core.json_access import as_array, as_count, as_list, as_object, as_text, compact_json
from pinnace_agent.export.calls import Calls
from pinnace_agent.export.figures import count, duration_words, first_words, usage_words
from pinnace_agent.export.markup.highlight import language_of
from pinnace_agent.export.markup.parts import Parts
from pinnace_agent.export.views import EntryView

Message = Mapping[str, object]

OUTLINE_CHARACTERS: Final = 64
# Details of results of this agent and of pi for programs, or that are shown anyway.
_SHOWN_DETAILS: Final = frozenset({"diff", "patch", "firstChangedLine"})
_ORDINARY_STOPS: Final = frozenset({"stop", "toolUse", None})


class MessageRenderer:
    """Shows the messages of one page."""

    def __init__(self, parts: Parts, calls: Calls) -> None:
        self._parts = parts
        self._calls = calls
        self._roles: Mapping[str, Callable[[Message, int], EntryView]] = {
            "user": self._user,
            "assistant": self._assistant,
            "toolResult": self._result,
            "bashExecution": self._shell,
            "custom": self._custom,
            "system": self._system,
            "branchSummary": self._summary,
            "compactionSummary": self._summary,
        }

    def view(self, message: Message, place: int) -> EntryView | None:
        """Return what is shown of a message; None if its role is unknown."""
        role = message.get("role")
        show = self._roles.get(role) if isinstance(role, str) else None
        return None if show is None else show(message, place)

    def content(self, content: object, *, keeps_lines: bool = True) -> str:
        """Show a text or the blocks of a message of the user or an extension."""
        return "".join(self._blocks(content, lambda text: self._parts.prose(text, keeps_lines=keeps_lines)))

    def _user(self, message: Message, _place: int) -> EntryView:
        text = plain_text(message.get("content"))
        return EntryView("user", "User", self.content(message.get("content")), first_words(text, OUTLINE_CHARACTERS))

    def _custom(self, message: Message, _place: int) -> EntryView:
        return self.custom(message)

    def custom(self, message: Message) -> EntryView:
        """Show what an extension added: a message, or an entry with the same fields."""
        name = as_text(message.get("customType")) or "extension"
        body = self.content(message.get("content"))
        if message.get("display") is False:
            body = self._parts.note("For the model; not displayed in the session.") + body
        if message.get("details") is not None:
            body += self._parts.fold("Details", self._parts.json(message["details"]))
        outline = first_words(f"{name}: {plain_text(message.get('content'))}", OUTLINE_CHARACTERS)
        return EntryView("note", name, body, outline)

    def _assistant(self, message: Message, place: int) -> EntryView:
        parts = self._parts
        body: list[str] = []
        text, called = "", ""
        answered: dict[str, tuple[str, int]] = {}
        for block in _as_blocks(message.get("content")):
            fields = as_object(block) or {}
            match fields.get("type"):
                case "text" if isinstance(fields.get("text"), str):
                    text = text or str(fields["text"])
                    body.append(parts.prose(str(fields["text"])))
                case "thinking" if isinstance(fields.get("thinking", ""), str):
                    body.append(self._thought(fields))
                case "toolCall":
                    call_id = as_text(fields.get("id")) or ""
                    called = called or f"{fields.get('name')} {call_head(fields)}"
                    result = self._calls.results.get((place, call_id))
                    if result is None or call_id in answered:
                        body.append(self._call(fields))
                    else:  # it is shown with its result
                        answered[call_id] = as_text(fields.get("name")) or "unnamed tool", result
                case "image":
                    body.append(parts.picture(fields))
                case _:
                    body.append(parts.json(block))
        if answered:
            body.append(parts.called(list(answered.values())))
        problem = as_text(message.get("errorMessage"))
        stop = message.get("stopReason")
        if stop is not None and not isinstance(stop, str):
            stop = compact_json(stop)
        if problem is not None or stop in {"error", "aborted"}:
            body.append(parts.note(problem or f"Stopped: {stop}", is_error=True))
        elif stop not in _ORDINARY_STOPS:
            body.append(parts.note(f"Stopped: {stop}"))
        model = as_text(message.get("model"))
        outline = first_words(text or called or problem or "Thinking", OUTLINE_CHARACTERS)
        meta = (*([model] if model else []), *usage_words(message.get("usage")), *duration_words(message))
        return EntryView("assistant", "Assistant", "".join(body), outline, meta, is_error=problem is not None)

    def _thought(self, fields: Message) -> str:
        text = as_text(fields.get("thinking"))
        if text is None:
            return self._parts.note("Thinking that the provider keeps to itself.") if fields.get("redacted") else ""
        hint = first_words(text, 80)
        return self._parts.fold("Thinking", self._parts.prose(text), kind="thinking", hint=hint)

    def _call(self, call: Message) -> str:
        parts = self._parts
        name = as_text(call.get("name")) or "unnamed tool"
        arguments = as_object(call.get("arguments"))
        if arguments is None:
            return parts.call(name, "", parts.json(call.get("arguments")))
        head = call_head(call)
        left = dict(arguments)
        body = ""
        match name:
            case "bash" if isinstance(left.get("command"), str):
                body = parts.code(str(left.pop("command")), "bash")
            case "write" if isinstance(left.get("content"), str):
                text = str(left.pop("content"))
                title = f"{count(text.count(chr(10)) + 1)} lines written"
                body = parts.fold(title, parts.code(text, language_of(head)), kind="more")
            case "edit":  # its result shows the change
                edited = {key: left.pop(key) for key in ("edits", "oldText", "newText") if key in left}
                body = parts.fold("As it was called", parts.json(edited), kind="more") if edited else ""
            case _:
                pass
        if name != "bash":
            left = {key: value for key, value in left.items() if not head or value != head}
        else:
            head = ""
        if call.get("argumentsError") is not None:
            body += parts.note(str(call["argumentsError"]), is_error=True)
        return parts.call(name, head, body + (parts.json(left) if left else ""))

    def _result(self, message: Message, place: int) -> EntryView:
        parts = self._parts
        name = as_text(message.get("toolName")) or "tool"
        call = self._calls.of_results.get(place)
        details = message.get("details")
        structured = as_object(details) or {}
        change = as_text(structured.get("diff")) or as_text(structured.get("patch"))
        link = "" if call is None else parts.link(call.place, "called here")
        is_error = message.get("isError") is True
        text = plain_text(message.get("content"))
        head = "" if call is None else call_head(call.block)
        path = head if name == "read" and not is_error else ""
        body = [] if call is None else [self._call(call.block)]
        body += self._blocks(message.get("content"), lambda each: self._returned(each, path, is_error=is_error))
        if change is not None:
            body.append(parts.change(change))
        left = {key: value for key, value in structured.items() if key not in _SHOWN_DETAILS} if structured else details
        if left:
            body.append(parts.fold("Details", parts.json(left), kind="more"))
        title = f"{name} failed" if is_error else f"{name} returned"
        meta = (*usage_words(message.get("usage")), *duration_words(message))
        outline = first_words(f"{name}: {head or text}", OUTLINE_CHARACTERS)
        return EntryView("tool", title, "".join(body), outline, meta, is_error, link)

    def _returned(self, text: str, path: str, *, is_error: bool) -> str:
        language = language_of(path)
        # A page of a file: as long as an output that is shown whole.
        if language and text.count("\n") < 14 and "\x1b" not in text:
            return self._parts.code(text.rstrip("\n"), language)
        return self._parts.output(text, is_error=is_error)

    def _shell(self, message: Message, _place: int) -> EntryView:
        parts = self._parts
        command = as_text(message.get("command")) or ""
        body = [parts.code(command, "bash")]
        code = as_count(message.get("exitCode"))
        is_error = bool(code) or message.get("cancelled") is True
        if output := as_text(message.get("output")):
            body.append(parts.output(output, is_error=is_error))
        if message.get("cancelled") is True:
            body.append(parts.note("Cancelled.", is_error=True))
        elif code:
            body.append(parts.note(f"Exit code {code}.", is_error=True))
        if message.get("truncated") is True:
            where = as_text(message.get("fullOutputPath"))
            body.append(parts.note("The output is cut." + (f" The whole was in {where}." if where else "")))
        if message.get("excludeFromContext"):
            body.append(parts.note("Kept from the model."))
        return EntryView(
            "shell", "User ran", "".join(body), first_words(f"$ {command}", OUTLINE_CHARACTERS), (), is_error
        )

    def _system(self, message: Message, _place: int) -> EntryView:
        parts = self._parts
        body = self.content(message.get("content"))
        for name, text in (as_object(message.get("sections")) or {}).items():
            body += parts.fold(name, parts.written(text) if isinstance(text, str) else parts.json(text))
        for field, title in (("toolsAdded", "Tools added"), ("toolsRemoved", "Tools removed")):
            if message.get(field):
                body += parts.fold(title, parts.json(message[field]))
        return EntryView("set", "System prompt", body, "System prompt")

    def _summary(self, message: Message, _place: int) -> EntryView:
        title = "Summary of a branch" if message.get("role") == "branchSummary" else "Compaction"
        text = as_text(message.get("summary")) or ""
        return EntryView("note", title, self._parts.prose(text), first_words(f"{title}: {text}", OUTLINE_CHARACTERS))

    def _blocks(self, content: object, show: Callable[[str], str]) -> Iterator[str]:
        if isinstance(content, str):
            yield show(content)
            return
        blocks = as_list(content)
        if blocks is None:
            if content is not None:
                yield self._parts.json(content)
            return
        for block in blocks:
            fields = as_object(block) or {}
            if fields.get("type") == "text" and isinstance(fields.get("text"), str):
                yield show(str(fields["text"]))
            elif fields.get("type") == "image":
                yield self._parts.picture(fields)
            else:
                yield self._parts.json(block)


def _as_blocks(content: object) -> list[object]:
    """Return the blocks of an answer; what is none of the forms that it may have is shown as one."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    blocks = as_list(content)
    if blocks is None:
        return [] if content is None else [content]
    return blocks


def call_head(call: Message) -> str:
    """Return the main argument of a call, on one line."""
    arguments = as_object(call.get("arguments")) or {}
    for name in ("path", "file_path", "command", "pattern", "query", "url"):
        text = as_text(arguments.get(name))
        if text is not None:
            return text if "\n" not in text and len(text) <= 200 else first_words(text, 200)
    return ""


def plain_text(content: object) -> str:
    """Return the texts of a content, for a line that describes it."""
    if isinstance(content, str):
        return content
    blocks = [as_object(block) or {} for block in as_array(content)]
    texts = [str(block["text"]) for block in blocks if isinstance(block.get("text"), str)]
    return " ".join(texts) or ("Image" if any(block.get("type") == "image" for block in blocks) else "")
