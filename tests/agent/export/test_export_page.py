"""The page: what is on it of every kind of entry, and that nothing on it is anything but text.

The allow list below is the whole of what a page consists of: whatever a session holds, no element and no attribute is
ever added to it.
"""

import base64
import gzip
import json
import re
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import WITH_FIXTURES

from pinnace_agent.export.page import page
from pinnace_agent.export.source import LiveAgent, Source, read_source
from pinnace_agent.llm.request import ToolSpec

LINK = r"#[a-z0-9]+|(?i:https?://|mailto:)\S+|data:application/gzip;base64,[A-Za-z0-9+/=]+"
CLASS = r"[a-zA-Z0-9 -]+"
# Element, and its attributes with what they may hold. What the frame alone has is checked there.
ALLOWED: dict[str, dict[str, str]] = {
    **{name: {} for name in "html head body title p h1 h2 h3 h4 h5 h6 em strong s ul li hr br blockquote code".split()},
    **{name: {} for name in "table thead tbody tr dl dt dd ins del i b summary style script".split()},
    "html": {"lang": "en"},
    "meta": {"charset": "utf-8", "name": "viewport|referrer|color-scheme", "content": ".*", "http-equiv": "Content.*"},
    "a": {
        "href": LINK,
        "class": "skip|title|ref|fork|remote",
        "rel": "noopener noreferrer nofollow",
        "target": "_blank",
        "title": "(?s:.*)",
        "id": "lines",
        "download": "session.jsonl.gz",
    },
    "header": {"class": "top"},
    "footer": {},
    "b": {"class": "label"},
    "label": {"for": "menu", "class": "menu", "title": "Contents"},
    "div": {"class": "prose|call|table|controls", "dir": "auto", "id": "controls", "role": "search", "hidden": ""},
    "select": {"id": "filter", "aria-label": ".*"},
    "option": {"value": "[a-z]+"},
    "input": {
        **dict.fromkeys(("type", "placeholder", "aria-label", "autocomplete", "spellcheck"), ".*"),
        "id": "menu|search",
    },
    "output": {"id": "found", "for": "search"},
    "button": {"id": "folds", "type": "button", "aria-pressed": "false"},
    "nav": {"id": "contents", "aria-label": "Contents"},
    "main": {"id": "main", "tabindex": "-1"},
    "section": {"class": CLASS, "aria-label": ".*", "aria-labelledby": "b[0-9]+"},
    "h2": {"id": "[bc][0-9]+", "class": "n[0-9]"},
    "ol": {"class": "n[0-9]", "start": "[0-9]+"},
    "li": {"class": "user|assistant|tool|shell|note|set|other", "data-l": ""},
    "article": {"id": "e[0-9]+", "class": CLASS, "data-l": ""},
    "span": {"class": CLASS},
    "p": {"class": "name|name calls|note|note bad", "id": "nothing", "hidden": ""},
    "code": {"class": "tag"},
    "pre": {"class": CLASS},
    "th": {"class": "left|center|right"},
    "td": {"class": "left|center|right"},
    "time": {"datetime": "[0-9TZ:.-]+", "title": "[0-9: -]+ UTC"},
    "details": {"class": "more|thinking"},
    "img": {
        "id": "i[0-9]+",
        "src": "data:image/[a-z]+;base64,[A-Za-z0-9+/=]+",
        "alt": "Image [0-9]+",
        "decoding": "async",
    },
}
VOID = frozenset({"meta", "input", "img", "br", "hr"})
OPTIONAL_END = frozenset({"li"})
ONCE = ("html", "head", "body", "title", "style", "script", "nav", "main", "select", "button", "label", "output")


class Reader(HTMLParser):
    """Reads a page as browsers do, and finds what is not allowed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.problems: list[str] = []
        self.counts: Counter[str] = Counter()
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        for name in ONCE:
            if self.counts[name] != 1:
                self.problems.append(f"{self.counts[name]} of {name}")

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def of(self, element: str, attribute: str) -> list[str]:
        """Return all values of an attribute."""
        return [value for tag, name, value in self.attributes if (tag, name) == (element, attribute)]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.counts[tag] += 1
        while OPTIONAL_END & {tag} and self.open[-1:] == [tag]:
            self.open.pop()
        if tag not in VOID:
            self.open.append(tag)
        allowed = ALLOWED.get(tag)
        if allowed is None:
            self.problems.append(f"element {tag}")
            return
        for name, value in attrs:
            self.attributes.append((tag, name, value or ""))
            if name not in allowed or not re.fullmatch(allowed[name], value or ""):
                self.problems.append(f"{tag} {name}={value!r}")

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open[-1] in OPTIONAL_END and self.open[-1] != tag:
            self.open.pop()
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"end of {tag} in {self.open[-3:]}")

    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["style"], ["script"]):
            self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.problems.append(f"comment {data!r}")

    def handle_pi(self, data: str) -> None:
        self.problems.append(f"instruction {data!r}")

    def unknown_decl(self, data: str) -> None:
        self.problems.append(f"declaration {data!r}")


def exported(path: Path, **options: Any) -> str:
    return "".join(page(read_source(str(path), "/"), **options))


def read(path: Path, **options: Any) -> Reader:
    reader = Reader(exported(path, **options))
    assert reader.problems == []
    return reader


def test_s8_hostile_text_in_every_field_is_text(hostile: Path) -> None:
    reader = read(hostile)
    # Half of the fields are shown as they are; the others (times, signatures) mean nothing here.
    assert reader.text.count("alert(1)") > 100
    assert {"#", "h", "m"} >= {value[0] for value in reader.of("a", "href") if not value.startswith("data:")}
    assert 1 == sum(value.startswith("data:") for value in reader.of("a", "href"))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u2066\u200f\ud800-\udfff]", exported(hostile))


@settings(WITH_FIXTURES, max_examples=25)
@given(
    st.lists(
        st.text(
            st.one_of(st.characters(), st.sampled_from("<>\"'&/=[]()!`*_|#-\n\t\x00\x1b\ud800javscript:")), max_size=30
        ),
        min_size=1,
        max_size=12,
    )
)
def test_s8_whatever_a_session_holds_is_text(writer: Any, fill: Callable[..., None], texts: list[str]) -> None:
    del writer.lines[1:]
    number = 0

    def text() -> str:
        nonlocal number
        number += 1
        return texts[number % len(texts)]

    fill(writer, text)
    read(writer.save())


def test_nothing_is_missing(writer: Any, fill: Callable[..., None]) -> None:
    number = 0

    def text() -> str:
        nonlocal number
        number += 1
        return f"word{number}end"

    fill(writer, text)
    reader = read(writer.save())
    written = writer.path.read_text()
    missing = [f"word{each}end" for each in range(1, number + 1) if f"word{each}end" not in reader.text]
    fields = {field for word in missing for field in re.findall(rf'"(\w+)": "{word}"', written)}
    # A time that is none, what only a provider reads, ids that name nothing, what is told in another way beside it.
    assert set(
        "timestamp thinkingSignature responseId toolCallId targetId data mimeType input".split()
    ) >= fields - set("patch provider model stopReason".split())


def test_s8_the_policy_allows_the_page_itself_and_nothing_else(writer: Any) -> None:
    writer.user(None, "hi")
    text = exported(writer.save())
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', text)
    assert re.fullmatch(
        "default-src 'none'; img-src data:; style-src 'sha256-[A-Za-z0-9+/=]{44}'; "
        "script-src 'sha256-[A-Za-z0-9+/=]{44}'; base-uri 'none'; form-action 'none'",
        policy.replace("&#39;", "'"),
    ), policy
    assert " style=" not in text


def test_the_same_session_gives_the_same_page(hostile: Path) -> None:
    assert exported(hostile) == exported(hostile)


def test_an_image_is_embedded_once(writer: Any, image_of: Callable[[int], dict[str, object]]) -> None:
    first = writer.user(None, [image_of(3), image_of(3)])
    writer.user(first, [image_of(3), image_of(4)])
    writer.user(first, [image_of(3)])
    writer.user(first, [image_of(4)])
    reader = read(writer.save())
    assert reader.counts["img"] == 2
    assert reader.text.count("which is shown above") == 4
    assert {"#i1", "#i2"} <= set(reader.of("a", "href"))


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "mimeType": "image/svg+xml", "data": "PHN2Zy8+"},
        {"type": "image", "mimeType": "image/png", "data": 'x" onload="alert(1)'},
        {"type": "image", "mimeType": "image/png", "data": ""},
        {"type": "image", "mimeType": "image/png"},
        {"type": "image", "mimeType": 7, "data": ["x"]},
    ],
)
def test_what_is_no_image_is_described_as_such(writer: Any, block: dict[str, object]) -> None:
    writer.user(None, [block])
    reader = read(writer.save())
    assert reader.counts["img"] == 0
    assert "An image that can't be shown" in reader.text


def test_the_active_branch_comes_first_and_the_others_name_where_they_leave_it(writer: Any) -> None:
    root = writer.user(None, "root")
    left = writer.user(root, "left behind")
    writer.user(left, "end of the left one")
    active = writer.user(root, "in force")
    writer.answer(active, {"type": "text", "text": "the end"})
    text = exported(writer.save())
    order = ["root", "in force", "the end", "left behind", "end of the left one"]
    main = text[text.index("<main") :]
    assert sorted(order, key=lambda words: main.index(f"<p>{words}</p>")) == order
    assert 'Not the active branch; it leaves another one <a href="#e0">here</a>' in main
    assert "Branch 2 goes on from here" in main

    alone = exported(writer.path, only_active=True)
    assert "left behind" not in alone
    assert "in force" in alone
    Reader(alone)


def test_every_entry_is_there_once_and_every_link_leads_somewhere(hostile: Path) -> None:
    reader = read(hostile)
    ids = [value for tag, name, value in reader.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert {value[1:] for value in reader.of("a", "href") if value.startswith("#")} <= set(ids)
    assert len(reader.of("article", "id")) == hostile.read_bytes().count(b"\n") - 1


def test_a_running_agent_adds_its_prompt_and_tools(writer: Any) -> None:
    writer.user(None, "hi")
    source = read_source(str(writer.save()), "/")
    live = LiveAgent("You are <b>", [ToolSpec("bash", "Runs </script>", {"type": "<i>"})])
    text = "".join(page(Source(source.path, source.header, source.entries, source.leaf, live=live)))
    reader = Reader(text)
    assert reader.problems == []
    assert all(words in reader.text for words in ("You are <b>", "Runs </script>", '"<i>"'))


def test_totals_are_those_of_what_is_shown(writer: Any) -> None:
    root = writer.answer(None, {"type": "text", "text": "one"})
    writer.answer(root, {"type": "text", "text": "two"})
    writer.answer(root, {"type": "text", "text": "three"})
    assert "3,600 in, 102 out" in read(writer.save()).text
    assert "$0.0375" in read(writer.path).text
    assert "2,400 in, 68 out" in read(writer.path, only_active=True).text


ROWS = "\n".join(f"row {number}" for number in range(1000))
CHANGED_ROWS = "\n".join(f"+{number} row {number}" for number in range(1000))
CALL = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "seq 1000"}}


def test_a_long_output_shows_its_beginning_and_its_end_and_folds_what_is_between(writer: Any) -> None:
    writer.result(writer.answer(None, CALL), ROWS)
    text = exported(writer.save())
    assert "row 5</pre><details" in text
    assert "990 more lines" in text
    assert '<pre class="out end">row 996\n' in text
    assert "row 999</pre></article>" in text


def test_a_failure_shows_more_of_its_end(writer: Any) -> None:
    writer.result(writer.answer(None, CALL), ROWS, isError=True)
    text = exported(writer.save())
    assert "row 2</pre><details" in text
    assert '<pre class="out end">row 988\n' in text


def test_a_long_change_shows_its_beginning_and_its_end(writer: Any) -> None:
    writer.result(writer.answer(None, CALL), "Changed", details={"diff": CHANGED_ROWS})
    text = exported(writer.save())
    assert "<ins>+11 row 11</ins></pre><details" in text
    assert "976 more lines" in text
    assert text.count('<pre class="diff end"><ins>+988 row 988</ins>') == 1


def articles(text: str) -> dict[str, str]:
    return dict(re.findall(r'<article id="(e\d+)".*?</header>(.*?)</article>', text, re.DOTALL))


def test_a_call_is_shown_with_its_result(writer: Any) -> None:
    """Also where the calls of an answer are answered out of order, and where ids are used again."""
    calls = [{**CALL, "id": name, "arguments": {"command": f"echo {name}"}} for name in ("c1", "c2")]
    last = writer.answer(None, {"type": "text", "text": "Both."}, *calls)
    last = writer.result(last, "second", toolCallId="c2")
    last = writer.result(last, "first", toolCallId="c1")
    last = writer.answer(last, {**CALL, "arguments": {"command": "echo again"}})
    last = writer.result(last, "third", toolCallId="c1")
    writer.answer(last, {**CALL, "id": "c3", "arguments": {"command": "echo unanswered"}})
    shown = articles(exported(writer.save()))

    assert '<a href="#e2">bash</a>, <a href="#e1">bash</a>' in shown["e0"]
    assert "echo" not in shown["e0"]
    for place, words in {"e1": ("c2", "second"), "e2": ("c1", "first"), "e4": ("again", "third")}.items():
        plain = re.sub("<[^>]*>", "", shown[place])
        assert f"echo {words[0]}" in plain
        assert words[1] in plain
    assert "unanswered" in shown["e5"]


def test_a_call_is_shown_with_its_result_on_every_branch(writer: Any) -> None:
    asked = writer.answer(None, CALL)
    writer.result(asked, "left")
    writer.result(asked, "in force")
    shown = articles(exported(writer.save()))

    assert "seq" not in shown["e0"]
    assert all("seq" in shown[place] for place in ("e1", "e2"))


def test_times_are_short_and_name_the_day_where_it_changes(writer: Any) -> None:
    last = writer.user(writer.user(None, "one"), "two")
    writer.lines[-1]["timestamp"] = "2026-01-02T23:59:59.000Z"
    writer.user(last, "three")
    writer.lines[-1]["timestamp"] = "2026-01-03T00:00:01.000Z"
    text = exported(writer.save())

    assert ["2026-01-02 03:00", "23:59", "2026-01-03 00:00"] == re.findall(r"<time [^>]*>([^<]*)</time>", text)
    assert 'title="2026-01-03 00:00:01 UTC"' in text


def downloaded(text: str) -> list[Any]:
    (packed,) = re.findall(r'<a id="lines"[^>]*href="data:application/gzip;base64,([^"]*)"', text)
    return [json.loads(line) for line in gzip.decompress(base64.b64decode(packed)).decode().splitlines()]


def test_the_session_can_be_downloaded_from_the_page(writer: Any) -> None:
    root = writer.user(None, "</script> \u2028 ünïcode")
    writer.user(root, "left")
    writer.user(root, "in force")

    assert downloaded(exported(writer.save())) == writer.lines
    active = downloaded(exported(writer.path, only_active=True))
    assert ["session", "message", "message"] == [line["type"] for line in active]
    assert "left" not in json.dumps(active)


def test_a_chain_of_20_000_entries_and_deep_json_are_no_problem(writer: Any) -> None:
    last: str | None = None
    for number in range(20_000):
        last = writer.add(last, "label", targetId="x", label=f"{number}")
    deep: object = "bottom"
    for _ in range(400):
        deep = [deep]
    writer.add(last, "custom", customType="deep", data=deep)
    assert "bottom" in read(writer.save()).text


@pytest.mark.parametrize("version", [1, 2])
def test_an_old_session_is_read_and_not_changed(tmp_path: Path, version: int) -> None:
    path = tmp_path / "old.jsonl"
    ids = ', "id": "a", "parentId": null' if version == 2 else ""
    path.write_text(
        f'{{"type": "session", "version": {version}, "id": "x", "timestamp": "2025-01-01T00:00:00Z", "cwd": "/"}}\n'
        f'{{"type": "message"{ids}, "timestamp": "2025", "message": {{"role": "user", "content": "old"}}}}\n'
    )
    before = path.read_bytes()
    assert "old" in read(path).text
    assert [path] == list(tmp_path.iterdir())
    assert before == path.read_bytes()


@pytest.mark.parametrize(
    "content",
    [
        {"what": "seen"},
        "seen",
        ["seen"],
        [{"type": "thinking", "thinking": "seen", "redacted": True}],
        [{"type": "toolCall", "id": "x", "name": "t", "arguments": {"seen": ""}}],
        [{"type": "toolCall", "name": "t", "arguments": {"command": "a\nseen" + "x" * 300}}],
        [{"type": "hologram", "a": "seen"}],
        7,
    ],
)
def test_an_answer_of_another_form_is_shown(writer: Any, content: object) -> None:
    writer.answer(None, content=content)
    assert ("seen" if content != 7 else "7") in read(writer.save()).text.partition("Active branch")[2]


def test_damaged_lines_are_counted_on_the_page(writer: Any) -> None:
    writer.user(None, "hi")
    path = writer.save()
    path.write_bytes(path.read_bytes() + b"\x00\x00{broken\n\xff\xfe\n")
    reader = read(path)
    assert "Damaged lines" in reader.text
    assert "hi" in reader.text


def test_a_check_that_raises_ends_the_work(hostile: Path) -> None:
    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        exported(hostile, check=check)
