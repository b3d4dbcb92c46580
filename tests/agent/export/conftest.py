"""Session files for the tests of the export: one of everything, and one with hostile text in every field."""

import base64
import json
import struct
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

Line = dict[str, object]

HEADER: Line = {
    "type": "session",
    "version": 3,
    "id": "019b0000-0000-7000-8000-000000000000",
    "timestamp": "2026-01-02T03:04:05.678Z",
    "cwd": "/home/me/parser",
}
USAGE = {"input": 1200, "output": 34, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 1234}
# What would act if any of it were taken for HTML, for a script, for a style or for a link.
HOSTILE: Sequence[str] = (
    "<script>globalThis.hit=1;alert(1)</script>",
    "</script><script>globalThis.hit=1;alert(1)</script>",
    "</style><style>*{background:url(http://evil.invalid/css)}</style>",
    '"><img src=http://evil.invalid/img onerror=alert(1)>',
    "'><svg/onload=alert(1)>",
    '" autofocus onfocus=alert(1) x="',
    "]]>--><iframe src=http://evil.invalid/frame></iframe><!--",
    "<a href=javascript:alert(1)>x</a> [x](javascript:alert(1)) [y](data:text/html,x)",
    "![x](http://evil.invalid/remote.png) <link rel=stylesheet href=http://evil.invalid/x.css>",
    "<base href=http://evil.invalid/><meta http-equiv=refresh content='0;url=http://evil.invalid/'>",
    "expression(alert(1)) url(http://evil.invalid/x) </textarea></title></pre></details></article>",
    "{{ 7 * 7 }} {% raw %} &lt;script&gt; &#x202e; &#0;",
    "\x00\x1b[31m\x1b[999999;m\x1b]8;;javascript:alert(1)\x1b\\\x9b38;5;m\x1b[",
    "\ud800 \udfff \u202e\u2066\u200f \U000e0041 \ufeff\u2028",
    "[" * 3000,
    "> " * 300 + "*_" * 300,
)


def image(width: int = 3) -> Line:
    """Make a picture; each width makes another one."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, 2, 8, 0, 0, 0, 0)
    pixels = zlib.compress((b"\0" + bytes(width)) * 2)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    return {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": "image/png"}


class Writer:
    """Writes the lines of a session file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[Line] = [dict(HEADER)]

    def add(self, parent: str | None, entry_type: str, /, **fields: object) -> str:
        """Append an entry and return its id."""
        number = len(self.lines)
        entry_id = f"{number:08x}"
        stamp = f"2026-01-02T03:{number // 60:02}:{number % 60:02}.000Z"
        self.lines.append({"type": entry_type, "id": entry_id, "parentId": parent, "timestamp": stamp, **fields})
        return entry_id

    def user(self, parent: str | None, content: object) -> str:
        return self.add(parent, "message", message={"role": "user", "content": content, "timestamp": 1})

    def answer(self, parent: str | None, *blocks: object, **fields: object) -> str:
        cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0.0125}
        base = {
            "api": "x",
            "provider": "acme",
            "model": "swift",
            "usage": {**USAGE, "cost": cost},
            "stopReason": "stop",
        }
        message = {"role": "assistant", "content": list(blocks), "timestamp": 2, **base, **fields}
        return self.add(parent, "message", message=message)

    def result(self, parent: str | None, text: str, **fields: object) -> str:
        message = {"role": "toolResult", "toolCallId": "c1", "toolName": "bash", "isError": False, "timestamp": 3}
        content = [{"type": "text", "text": text}]
        return self.add(parent, "message", message={**message, "content": content, **fields})

    def save(self) -> Path:
        """Write the file."""
        self.path.write_text("".join(f"{json.dumps(line)}\n" for line in self.lines), encoding="utf-8")
        return self.path


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    """Writes a session file of its own."""
    return Writer(tmp_path / "session.jsonl")


def everything(writer: Writer, texts: Callable[[], str]) -> None:
    """Write one of everything that a session may hold, with texts from `texts` in every field that holds one."""
    t = texts
    writer.lines[0].update(id=t(), cwd=t(), parentSession=t(), timestamp=t())
    first = writer.add(None, "model_change", provider=t(), modelId=t())
    last = writer.add(first, "thinking_level_change", thinkingLevel=t())
    last = asked = writer.user(last, [{"type": "text", "text": t()}, image(), {"type": t(), t(): t()}])
    last = writer.user(last, t())
    call = {"type": "toolCall", "id": "c1", "name": t(), "arguments": {t(): t(), "path": t()}, "argumentsError": t()}
    calls = [
        {"type": "toolCall", "id": "c2", "name": "bash", "arguments": {"command": t(), "timeout": t()}},
        {"type": "toolCall", "id": "c3", "name": "write", "arguments": {"path": f"{t()}.py", "content": t()}},
        {"type": "toolCall", "id": "c4", "name": "edit", "arguments": {"path": t(), "edits": [{"oldText": t()}]}},
        {"type": "toolCall", "id": "c5", "name": "read", "arguments": t()},
    ]
    thought = {"type": "thinking", "thinking": t(), "thinkingSignature": t()}
    text = {"type": "text", "text": f"{t()}\n\n```{t()}\n{t()}\n```\n\n| {t()} |\n|---|\n| {t()} |\n\n# {t()}\n> {t()}"}
    last = writer.answer(
        last, thought, text, call, *calls, model=t(), provider=t(), stopReason=t(), errorMessage=t(), responseId=t()
    )
    details = {"diff": f"+1 {t()}\n-2 {t()}\n {t()}", "patch": t(), t(): t()}
    bad_image = {"type": "image", "data": t(), "mimeType": t()}
    content = [{"type": "text", "text": t()}, image(), bad_image]
    last = writer.result(last, "", toolName=t(), content=content, details=details, isError=True)
    last = writer.result(last, f"\x1b[31m{t()}\x1b[48;2;1;2;3m{t()}\n" * 20, toolCallId=t(), details=t())
    shell = {"role": "bashExecution", "command": t(), "output": f"\x1b[1m{t()}", "exitCode": 3, "truncated": True}
    last = writer.add(last, "message", message={**shell, "cancelled": False, "fullOutputPath": t(), "timestamp": t()})
    custom = {"customType": t(), "content": [{"type": "text", "text": t()}, image()], "details": {t(): t()}}
    last = writer.add(last, "custom_message", display=False, **custom)
    last = writer.add(last, "message", message={"role": "custom", "timestamp": 1, **custom})
    system = {"role": "system", "content": t(), "sections": {t(): t(), "b": None}, "toolsAdded": [{t(): t()}]}
    last = writer.add(last, "message", message=system)
    last = writer.add(last, "compaction", summary=t(), firstKeptEntryId=asked, tokensBefore=7, details={t(): [t()]})
    last = writer.add(last, "label", targetId=asked, label=t())
    last = writer.add(last, "custom", customType=t(), data={t(): t()})
    last = writer.add(last, "context_edit", targetId=asked, replacement={"content": t()})
    last = writer.add(last, "context_edit", targetId=t(), replacement=None)
    last = writer.add(last, "usage", kind=t(), provider=t(), model=t(), usage={"input": t()}, note=t())
    last = writer.add(last, "session_info", name=t())
    last = writer.add(last, t(), **{f"x{t()}": {t(): t()}})
    last = writer.add(last, "message", message={"role": t(), "content": t()})
    last = writer.add(last, "message", message=t())
    other = writer.user(asked, t())
    writer.add(other, "branch_summary", fromId=last, summary=t(), details={t(): t()})
    writer.user(last, t())


@pytest.fixture
def hostile(writer: Writer) -> Path:
    """A session in which every field holds something hostile."""
    number = 0

    def text() -> str:
        nonlocal number
        number += 1
        return (
            f"{HOSTILE[number % len(HOSTILE)]} {HOSTILE[(number * 7 + number // 16) % len(HOSTILE)]} field{number}end"
        )

    everything(writer, text)
    return writer.save()


Everything = Callable[[Writer, Callable[[], str]], None]


@pytest.fixture
def fill() -> Everything:
    """Writes one of everything."""
    return everything


@pytest.fixture
def image_of() -> Callable[[int], Line]:
    """Makes image blocks."""
    return image
