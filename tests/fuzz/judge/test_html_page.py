"""The page of reports: that it is whole, needs nothing else, and that nothing on it is anything but text."""

import base64
import hashlib
import json
import re
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fuzz.judge.html_reports import HOSTILE, case, changed, failure, report

from pinnace_fuzz.judge.cli import main
from pinnace_fuzz.judge.html.page import page

VOID = frozenset({"meta", "input", "br", "hr"})
# What needs no end where it stands, and is written with one.
ELEMENTS = frozenset(
    """html head meta title style body a header h1 h2 h3 h4 p small span b strong i code pre div article section main
    dl dt dd ul ol li details summary table caption colgroup thead tbody tr th td svg defs g rect circle path line text
    tspan use button input select option output script""".split()
)
ATTRIBUTES = frozenset(
    """lang charset name content http-equiv href class id title type placeholder aria-label aria-live aria-pressed
    aria-hidden aria-expanded aria-controls autocomplete value role hidden tabindex open scope colspan rowspan span
    data-v data-area data-agent data-differs data-for x y x1 y1 x2 y2 cx cy r rx dx d width height viewbox
    text-anchor""".split()
)


class Reader(HTMLParser):
    """Notes what a page consists of."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.elements: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def handle_comment(self, data: str) -> None:
        self.wrong.append(f"<!--{data}-->")

    def text(self) -> str:
        return "".join(data for tag, data in self.texts if tag not in ("style", "script"))


def check(text: str) -> Reader:
    """Hold a page to what every page is."""
    text.encode()
    read = Reader(text)
    assert ([], []) == (read.wrong, read.open)
    assert set(read.elements) <= ELEMENTS
    assert {name for _, name, _ in read.attributes} <= ATTRIBUTES
    assert (1, 1) == (read.elements["script"], read.elements["style"])
    # Nothing is fetched: links lead to places on the page alone.
    assert all(value.startswith("#") for _, name, value in read.attributes if name == "href")
    (style,) = [data for tag, data in read.texts if tag == "style"]
    assert re.findall(r"url\(|@import|http:", style) == []
    return read


def named_places(read: Reader) -> Counter[str]:
    return Counter(value for _, name, value in read.attributes if name == "id")


def test_a_page_is_whole_and_its_links_lead_somewhere() -> None:
    read = check(page([report(), report(name="beta")]))
    places = named_places(read)

    assert {1} == set(places.values())
    targets = {value[1:] for _, name, value in read.attributes if name in ("href",)}
    targets |= {value for _, name, value in read.attributes if name in ("aria-controls", "data-for")}
    assert targets <= set(places)


def test_the_policy_names_the_script_and_the_style_and_nothing_else() -> None:
    read = check(page([report()]))
    (policy,) = [value for tag, name, value in read.attributes if tag == "meta" and "default-src" in value and name]
    hashes = {
        tag: base64.b64encode(hashlib.sha256(data.encode()).digest()).decode()
        for tag, data in read.texts
        if tag in ("style", "script")
    }

    assert policy == (
        f"default-src 'none'; style-src 'sha256-{hashes['style']}'; script-src 'sha256-{hashes['script']}'; "
        "base-uri 'none'; form-action 'none'"
    )


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_in_every_field_adds_no_element_and_no_attribute(hostile: str) -> None:
    """As the whole field, in it, and as the name of what has a name; also inside of a record that is one."""
    record = json.dumps({"type": hostile, "command": hostile, "id": hostile, "message": {"role": hostile}})
    case_ = failure()
    case_["processes"][0]["steps"].append({"n": 14, "at": 2, "dir": "out", "group": 0, "line": record})
    case_["processes"][0]["steps"].append({"n": 15, "at": 2, "dir": "in", "group": 0, "line": record + " " * 300})
    source = report(case_, case("PRM/one-prompt", "PASS", "R-PRM-01"))
    for change in (lambda text: hostile, lambda text: f"{text}{hostile}"):
        whole = changed(source, change)
        check(page([whole, whole]))
    kept = changed(source, lambda text: text if text in ("FAIL", "PASS") else f"{text} {hostile}")
    read = check(page([kept, kept]))
    # Nor does it hide anything: the transcripts of both agents are there.
    assert 2 == read.elements["ol"]
    assert all(re.fullmatch(r"[a-z][\w-]*", place, re.I | re.A) for place in named_places(read))


@given(st.text(st.characters(), max_size=30))
def test_any_text_stays_text(text: str) -> None:
    check(page([changed(report(), lambda before: before if len(before) < 5 else before + text)]))


def test_what_cannot_be_seen_is_shown_by_its_number() -> None:
    read = check(page([changed(report(), lambda text: text + "\u202e\udcff\x1b\ud800")]))

    assert "\\u202e\\xff\\u001b\\ud800" in read.text()
    assert "\u202e" not in read.text()
    # In an attribute there is no markup around it.
    assert [] == [value for _, _, value in read.attributes if "<i>" in value]


def test_the_head_says_how_it_was_judged() -> None:
    text = check(page([report()])).text()

    for fact in (
        *("alpha", "1.0", "1.5", "agent --mode rpc", "77", "10 min of 10 min", "framing 12", "QUE/", "FRM/"),
        *(
            "pinnace-conform 0.1.0",
            "2026-01-02T03:04:05",
            "Linux x86_64",
            "at most 0.10 s late",
            "Reached 1 of 4 cells",
        ),
        "auto_retry_start",
    ):
        assert fact in text, fact


def test_a_failure_shows_its_proof_its_explanation_and_its_reproduction() -> None:
    written = page([report()])
    text = check(written).text()

    for fact in (
        *("3 of 3", "What R-QUE-03 says.", "Proof: record ", "3 × message_update", "mark here", "exit 1", "Error: no"),
        *(
            "printf '%s\\n' '{\"type\":\"prompt\"}' | agent",
            "replay 'x y.jsonl'",
            ".conform/failures/I-QUE-2/1f2e.jsonl",
        ),
        *("this is no JSON \\xff", "a long line", "preflight", "QUE/two-in-one-write"),
    ):
        assert fact in text, fact
    proofs = re.findall(r'<li class="(?:in|out) proof[^"]*" id="a1-1-0-(\d+)"', written)
    assert ["2", "5", "11"] == proofs


def test_long_lines_are_folded_and_long_traces_are_cut_around_the_proof() -> None:
    source = failure()
    steps = source["processes"][0]["steps"]
    steps[:] = [{**steps[8], "n": number} for number in range(1, 3001)]
    source["findings"][0]["steps"] = [1500]
    written = page([report(source)])
    check(written)

    assert 'id="a1-1-0-1500"' in written
    assert 'id="a1-1-0-1400"' not in written
    assert "lines left out here" in written
    assert written.count('class="size"') == written.count('<li class="out')
    assert len(written) < 1_500_000


def test_agents_of_the_same_name_are_distinguished_and_names_can_be_given(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.json").write_text(json.dumps(report(name="cli.js")))
    files = [str(tmp_path / "one.json"), str(tmp_path / "two.json")]
    out = tmp_path / "page.html"

    assert main(["page", *files, "-o", str(out)]) == 0
    assert "cli.js (1.5) (2)" in check(out.read_text()).text()
    assert main(["page", f"first={files[0]}", f"second={files[1]}", "-o", str(out)]) == 0
    assert {"first", "second"} <= set(re.findall(r"<h2>(\w+)", out.read_text()))


@pytest.mark.parametrize("text", ["", "[]", '{"conform": 99}', "[" * 100_000])
def test_what_is_no_report_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)

    assert main(["page", str(tmp_path / "x.json"), "-o", str(tmp_path / "page.html")]) == 3
    assert main(["page", str(tmp_path / "nothing.json"), "-o", str(tmp_path / "page.html")]) == 3
    assert not (tmp_path / "page.html").exists()


def test_a_report_that_lacks_fields_or_has_other_shapes_still_makes_a_page() -> None:
    broken = dict.fromkeys(report())

    check(
        page([{"conform": 1}, {**broken, "conform": 1}, {**report(), "cases": [{}, 7, {"rules": 3, "findings": [{}]}]}])
    )


def test_the_same_reports_make_the_same_page() -> None:
    assert page([report()]) == page([report()])


def test_a_run_writes_its_page_and_the_json_makes_the_same_one(tmp_path: Path) -> None:
    tiny = [sys.executable, str(Path(__file__).parent / "tiny_agent.py"), "dies-of-null"]
    options = ["--adapter", "none", "--only", "ERR/no-object-null", "--out", str(tmp_path), "--patience", "0.3"]

    assert main([*options, "--report", "html,json", "--", *tiny]) == 1
    written = (tmp_path / "report.html").read_text()
    read = check(written)
    assert page([json.loads((tmp_path / "report.json").read_text())]) == written
    assert "TypeError: null has no fields" in read.text()
    assert re.search(r"quiet enough: .* late|overloaded: ", read.text())
