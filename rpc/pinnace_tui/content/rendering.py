"""Renders one item of the conversation as lines of a width.

Text of models and tools is never read as markup of the terminal: control characters are removed or shown.
Knows Rich and the strips of Textual; must not know widgets. Markdown is imported by the first answer: an empty editor
does without.
"""

import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from io import StringIO
from typing import Final, Protocol, assert_never

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from rich.theme import Theme
from textual.strip import Strip

from pinnace_tui.content.look import Look
from pinnace_tui.content.transcript import (
    AnswerItem,
    CustomItem,
    EntryItem,
    NoticeItem,
    ShellItem,
    SummaryItem,
    ThinkingItem,
    ToolItem,
    TranscriptItem,
    UserItem,
)
from pinnace_tui.content.values import Record, mapping, number, objects, text

_FOLDED_LINES: Final = 6
# A space, the sign of the state and its space, and a space at the end.
_FRAME_COLUMNS: Final = 4
# What shows the place in a long conversation is at the end of each line; what is drawn here leaves a space there.
_BAR_COLUMNS: Final = 1
_OPEN_LINES: Final = 2000
_FOLDED_DIFF_LINES: Final = 24
_BULLETS: Final = {"written": "○", "running": "◐", "done": "●", "failed": "✗"}
# What changes a terminal, then what shows nothing or the wrong thing there.
_SEQUENCES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_BOLD: Final = Style(bold=True)
# Rows are of any number; Rich takes a width without a height for 80 on a terminal that is called `dumb`.
_HEIGHT: Final = 25


def plain(content: str) -> str:
    """Return a text that shows what it holds and changes no terminal."""
    content = _SEQUENCES.sub("", content.replace("\r\n", "\n"))
    return without_controls(content.expandtabs(4))


def plain_line(content: str) -> str:
    """Return a text as `plain` does, in one line."""
    return plain(content).replace("\n", " ")


def whole(content: str) -> str:
    """Return a text that is to be judged, such as a command, as `plain` does, but with all that it holds.

    A sequence for a terminal may have any text in it, and what has no effect on the terminal may have one on a shell.
    """
    return without_controls(content.replace("\r\n", "\n").expandtabs(4))


def whole_line(content: str) -> str:
    """Return a text as `whole` does, in one line."""
    return whole(content).replace("\n", " ")


def without_controls(content: str) -> str:
    """Return a text of the same length in which each character that changes a terminal is replaced, but for tabs."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", content)


class ExtensionLines(Protocol):
    """The lines of items that extensions draw."""

    def is_framed(self, kind: str, name: str) -> bool | None:
        """Return whether such an item goes into the client's frame; None: no extension draws it."""
        ...

    def lines(self, item: TranscriptItem, kind: str, width: int, *, is_open: bool) -> Sequence[Text] | None:
        """Return the lines of an item; None: there are none, or not yet."""
        ...

    def markdown(self, item: TranscriptItem, width: int) -> str | None:
        """Return the text of an item as extensions have changed it; None: as it is, or not yet."""
        ...


class Renderer:
    """Renders items for one width and look."""

    def __init__(
        self,
        width: int,
        look: Look,
        *,
        shows_thinking: bool,
        shows_tools: bool,
        of_extensions: ExtensionLines | None = None,
        thinking_label: str | None = None,
    ) -> None:
        """Prepare.

        Args:
            width: The columns.
            look: The theme.
            shows_thinking: Whether thoughts are shown whole unless they are set otherwise.
            shows_tools: Whether other items are.
            of_extensions: The lines of items that extensions draw.
            thinking_label: The text of an extension for thoughts that are folded.
        """
        self._thinking_label = "Thinking" if thinking_label is None else plain_line(thinking_label)
        self._of_extensions = of_extensions
        self.width = max(width, 4)
        self._look = look
        self._shows_thinking = shows_thinking
        self._shows_tools = shows_tools
        self._console = Console(
            file=StringIO(),
            width=self.width,
            height=_HEIGHT,
            color_system="truecolor",
            force_terminal=True,
            legacy_windows=False,
            theme=_theme(look),
            highlight=False,
        )

    def estimate(self, item: TranscriptItem) -> int:
        """Return about how many lines an item takes, without rendering it."""
        match item:
            case UserItem(content) | AnswerItem(content):
                return 1 + content.count("\n") + 1 + len(content) // self.width
            case ThinkingItem(content) | SummaryItem(_, content):
                return 2 if not self.is_open(item) else 2 + content.count("\n") + len(content) // self.width
            case ToolItem() | ShellItem():
                return 2 + min(item.output.count("\n"), _FOLDED_LINES)
            case NoticeItem(content) | CustomItem(content):
                return 2 + len(content) // self.width
            case _:
                return 1

    def is_open(self, item: TranscriptItem) -> bool:
        """Return whether an item is shown whole."""
        if item.is_open is not None:
            return item.is_open
        return self._shows_thinking if isinstance(item, ThinkingItem) else self._shows_tools

    def render(self, item: TranscriptItem) -> list[Strip]:
        """Render an item and the space after it."""
        has_space = not (isinstance(item, AnswerItem) and not item.is_last_part)
        if isinstance(item, EntryItem) and not self._drawn(item, "entry", item.custom_type):
            return []
        lines = self._console.render_lines(self._renderable(item), pad=False)
        strips = [Strip([_shown(segment) for segment in line]).simplify() for line in lines]
        return [*strips, Strip([])] if has_space else [*strips]

    def _renderable(self, item: TranscriptItem) -> RenderableType:
        look = self._look
        match item:
            case UserItem(content):
                style = Style(color=look["userMessageText"], bgcolor=look["userMessageBg"])
                return Padding(Text(f"> {plain(self._changed(item, content))}"), (0, 1), style=style)
            case AnswerItem(content):
                from pinnace_tui.content.markdown import AnswerMarkdown

                markdown = AnswerMarkdown(
                    plain(self._changed(item, content)), code_theme=look.code_theme, hyperlinks=False
                )
                return Padding(markdown, (0, 1), style=Style(color=look["text"]))
            case ThinkingItem(content):
                title = "Thinking" if self.is_open(item) else self._thinking_label
                return self._folded(item, title, content, Style(color=look["thinkingText"], italic=True))
            case SummaryItem(title, content):
                return self._folded(item, title, content, Style(color=look["muted"]))
            case NoticeItem(content, level):
                color = {"info": look["muted"], "warning": look["warning"], "error": look["error"]}[level]
                sign = {"info": "·", "warning": "!", "error": "✗"}[level]
                return Padding(Text(f"{sign} {plain(content)}", Style(color=color)), (0, 1))
            case CustomItem() | EntryItem():
                return self._of_extension(item)
            case ToolItem():
                return Group(*self._tool(item))
            case ShellItem():
                return Padding(Group(*self._shell(item)), (0, 1))
            case _:
                return Text("")

    def _folded(self, item: TranscriptItem, title: str, content: str, style: Style) -> RenderableType:
        if not self.is_open(item):
            count = content.count("\n") + 1
            return Padding(Text(f"▸ {title} ({count} line{'s' if count > 1 else ''})", style, no_wrap=True), (0, 1))
        shown = self._changed(item, content).strip()
        return Padding(Group(Text(f"▾ {title}", style), Text(plain(shown), style)), (0, 1))

    def _changed(self, item: TranscriptItem, content: str) -> str:
        """Return the text of an item as extensions want it shown."""
        width = max(self.width - 2, 1)
        changed = None if self._of_extensions is None else self._of_extensions.markdown(item, width)
        return content if changed is None else changed

    def _of_extension(self, item: CustomItem | EntryItem) -> RenderableType:
        kind = "message" if isinstance(item, CustomItem) else "entry"
        if (lines := self._drawn(item, kind, item.custom_type)) is not None:
            return Group(*lines)
        content = self._changed(item, item.text) if isinstance(item, CustomItem) else ""
        return Padding(Text(f"· {plain(content)}", Style(color=self._look["muted"])), (0, 1))

    def _drawn(self, item: TranscriptItem, kind: str, name: str) -> Sequence[Text] | None:
        """Return the lines of an extension; None: the item is drawn here."""
        if self._of_extensions is None or (is_framed := self._of_extensions.is_framed(kind, name)) is None:
            return None
        width = max(self.width - (_FRAME_COLUMNS if is_framed else _BAR_COLUMNS), 1)
        return self._of_extensions.lines(item, kind, width, is_open=self.is_open(item))

    def _tool(self, item: ToolItem) -> Iterable[RenderableType]:
        """Draw a call and its result, each by itself or by an extension."""
        call = result = None
        if self._of_extensions is not None and (item.state != "written" or item.arguments):
            call = self._drawn(item, "call", item.name)
            if item.output or item.details or item.state in ("done", "failed"):
                result = self._drawn(item, "result", item.name)
        if call is None:
            yield Padding(self._title(item), (0, 1))
        elif self._is_framed("call", item):
            bullet = self._bullet(item)
            yield from (
                Padding(Text.assemble(bullet, line, no_wrap=True, overflow="crop"), (0, 1))
                if place == 0
                else Padding(line, (0, 1, 0, 3))
                for place, line in enumerate(call or [Text("")])
            )
        else:
            yield from call
        if result is None:
            if below := tuple(self._below(item)):
                yield Padding(Group(*below), (0, 1))
        elif self._is_framed("result", item):
            yield from (Padding(line, (0, 1, 0, 3)) for line in result)
        else:
            yield from result

    def _is_framed(self, kind: str, item: ToolItem) -> bool:
        return self._of_extensions is None or self._of_extensions.is_framed(kind, item.name) is not False

    def _bullet(self, item: ToolItem) -> Text:
        look = self._look
        colors = {"written": look["dim"], "running": look["warning"], "done": look["success"], "failed": look["error"]}
        return Text(f"{_BULLETS[item.state]} ", Style(color=colors[item.state]))

    def _title(self, item: ToolItem) -> Text:
        look = self._look
        title = self._bullet(item)
        title.append(whole(item.name), Style(color=look["toolTitle"], bold=True))
        title.append(f"  {call_summary(item)}", Style(color=look["toolOutput"]))
        if item.duration_ms >= 1000:
            title.append(f"  {item.duration_ms / 1000:.1f} s", Style(color=look["dim"]))
        if not self.is_open(item):
            title.truncate(3 * self.width, overflow="ellipsis")
        return title

    def _below(self, item: ToolItem) -> Iterable[RenderableType]:
        is_open = self.is_open(item)
        for line in subagent_lines(item.details):
            yield Text(line, Style(color=self._look["muted"]))
        if is_open and (rest := _other_arguments(item)):
            yield self._body(rest, is_open=True, keeps_end=False)
        diff = text(item.details, "diff")
        if diff:
            lines = [f"{line[:1]}{line[1:]}" for line in whole(diff).split("\n")]
            yield self.diff(lines, None if is_open else _FOLDED_DIFF_LINES)
        elif item.state != "failed" and (changes := changes_of(item.name, item.arguments)):
            yield self.diff(changes, None if is_open else _FOLDED_DIFF_LINES)
        if item.output.strip() and not (diff and item.state == "done"):
            yield self._body(item.output, is_open=is_open, keeps_end=item.state == "running" or item.name == "bash")

    def _shell(self, item: ShellItem) -> Iterable[RenderableType]:
        look = self._look
        title = Text("$ ", Style(color=look["bashMode"], bold=True))
        title.append(whole(item.command), Style(color=look["toolTitle"], bold=True))
        if item.is_excluded:
            title.append("  (not for the model)", Style(color=look["dim"]))
        yield title
        if item.output.strip():
            yield self._body(item.output, is_open=self.is_open(item), keeps_end=True)
        if item.ending is None:
            yield Text("…", Style(color=look["warning"]))
        elif item.ending:
            yield Text(plain(item.ending), Style(color=look["warning"]))

    def _body(self, content: str, *, is_open: bool, keeps_end: bool) -> Text:
        lines = plain(content.strip("\n")).split("\n")
        most = _OPEN_LINES if is_open else _FOLDED_LINES
        left = len(lines) - most
        style = Style(color=self._look["toolOutput"])
        if left <= 0:
            return Text("\n".join(lines), style)
        shown = lines[-most:] if keeps_end else lines[:most]
        note = Text(f"… {left} more lines", Style(color=self._look["dim"]))
        body = Text("\n".join(shown), style)
        return Text("\n").join([note, body] if keeps_end else [body, note])

    def diff(self, lines: Sequence[str], most: int | None) -> Text:
        """Render lines that begin with `+`, `-` or a space."""
        look = self._look
        styles = {"+": Style(color=look["toolDiffAdded"]), "-": Style(color=look["toolDiffRemoved"])}
        context = Style(color=look["toolDiffContext"])
        shown = lines if most is None or len(lines) <= most else lines[:most]
        parts = [Text(line, styles.get(line[:1], context)) for line in shown]
        if len(shown) < len(lines):
            parts.append(Text(f"… {len(lines) - len(shown)} more lines", Style(color=look["dim"])))
        return Text("\n").join(parts)


def _shown(segment: Segment) -> Segment:
    """Return a piece of a line; Markdown also makes characters of entities, after its text was made plain."""
    content, style, control = segment
    return Segment(without_controls(content), style, control) if _CONTROLS.search(content) else segment


def call_summary(item: ToolItem) -> str:
    """Return what a call is about, in one line."""
    arguments = item.arguments
    for name in ("command", "path", "pattern", "query", "url", "task"):
        if isinstance(value := arguments.get(name), str):
            first, *rest = whole(value).split("\n")
            return f"{first} …" if rest else first
    if arguments:
        return ", ".join(f"{whole_line(name)}: {_brief(value)}" for name, value in arguments.items())
    return whole(item.written)[-200:].replace("\n", " ")


def subagent_lines(details: Record) -> list[str]:
    """Return how far the sub-agent of a call is: its state, its answers, and what it does; and each message to it."""
    agent = mapping(details, "agent")
    if not (state := text(agent, "state")):
        return []
    turns = int(number(agent, "turns"))
    parts = [state, f"{turns} turn{'' if turns == 1 else 's'}", text(agent, "activity")]
    messages = [f"message {text(each, 'state')}: {text(each, 'text')}" for each in objects(agent, "messages")]
    return [f"↳ {whole_line(line)}" for line in (" · ".join(filter(None, parts)), *messages)]


def searched_text(item: TranscriptItem) -> str:
    """Return what a search looks through: the whole text of an item, also what is folded."""
    match item:
        case UserItem(content) | AnswerItem(content) | ThinkingItem(content) | NoticeItem(content):
            return content
        case CustomItem(content):
            return content
        case EntryItem():
            return str(item.data)
        case SummaryItem(title, content):
            return f"{title}\n{content}"
        case ToolItem():
            return "\n".join([item.name, *map(str, item.arguments.values()), item.output])
        case ShellItem():
            return f"{item.command}\n{item.output}"
        case _:
            return ""


def _brief(value: object) -> str:
    content = whole_line(value if isinstance(value, str) else repr(value))
    return content if len(content) <= 60 else f"{content[:59]}…"


def _other_arguments(item: ToolItem) -> str:
    """Return the arguments that neither the title nor a diff shows whole."""
    shown = {"content", "edits", "oldText", "newText"} if changes_of(item.name, item.arguments) else set[str]()
    rows: list[str] = []
    for name, value in item.arguments.items():
        content = value if isinstance(value, str) else repr(value)
        if name not in shown and (content != call_summary(item) or "\n" in content):
            rows.append(f"{name}: {content}")
    return "\n".join(rows)


def changes_of(tool: str, arguments: Record) -> list[str]:
    """Return what a call of `edit` or `write` would change, as lines of a diff; empty for other calls."""
    if tool == "write":
        return [f"+{line}" for line in whole(text(arguments, "content")).removesuffix("\n").split("\n")]
    if tool != "edit":
        return []
    edits = objects(arguments, "edits") or [arguments]
    lines: list[str] = []
    for edit in edits:
        lines += _compared(whole(text(edit, "oldText")).split("\n"), whole(text(edit, "newText")).split("\n"))
    return [] if lines == [" "] else lines


def _compared(old: list[str], new: list[str]) -> Iterable[str]:
    for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        match kind:
            case "equal":
                yield from (f" {line}" for line in old[a:b])
            case "replace" | "delete" | "insert":
                yield from (f"-{line}" for line in old[a:b])
                yield from (f"+{line}" for line in new[c:d])
            case _:
                assert_never(kind)


def _theme(look: Look) -> Theme:
    heading = Style(color=look["mdHeading"], bold=True)
    code = Style(color=look["mdCode"])
    return Theme(
        {
            **{f"markdown.h{level}": heading for level in range(1, 8)},
            "markdown.code": code,
            "markdown.code_block": code,
            "markdown.block_quote": Style(color=look["mdQuote"], italic=True),
            "markdown.item.bullet": Style(color=look["mdListBullet"], bold=True),
            "markdown.item.number": Style(color=look["mdListBullet"]),
            "markdown.list": Style(color=look["text"]),
            "markdown.link": Style(color=look["mdLink"]),
            "markdown.link_url": Style(color=look["mdLink"], underline=True),
            "markdown.hr": Style(color=look["dim"]),
            "markdown.strong": _BOLD,
        }
    )
