"""The reference as a site: every link and anchor resolves, nothing is loaded from elsewhere, no script runs."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple, get_args
from urllib.parse import unquote, urlsplit

import pytest

from pinnace_spec import data
from pinnace_spec.generate.examples import command_example
from pinnace_spec.generate.rulebook import row_name
from pinnace_spec.generate.site import __main__ as site
from pinnace_spec.generate.site.commands import EFFECTS, GROUPS, GUARDS
from pinnace_spec.generate.source import load
from pinnace_spec.records.command_errors import COMMON, MEANINGS, OF_COMMANDS, OF_LINES
from pinnace_spec.records.command_table import CLIENT_ANSWERS
from pinnace_spec.records.commands import MODELS, Group
from pinnace_spec.records.outputs import validate_output
from pinnace_spec.rules.errors import ErrorCode
from pinnace_spec.statechart.transitions import CHART, REGIONS, STATES

LOADS = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src", "use": "href"}
VOID = {"meta", "link", "br", "hr", "img", "input", "rect", "path", "circle", "line"}


class Link(NamedTuple):
    tag: str
    target: str


class Reader(HTMLParser):
    """Finds ids and links of a page, and whether its elements nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[Link] = []
        self.tags: set[str] = set()
        self.open: list[str] = []
        self.astray: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        given = dict(attrs)
        self.ids += [given["id"] or ""] if "id" in given else []
        if tag == "a" and given.get("href"):
            self.links.append(Link(tag, given["href"] or ""))
        if tag in LOADS and given.get(LOADS[tag]):
            self.links.append(Link(tag, given[LOADS[tag]] or ""))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.astray.append(tag)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    assert site.main([str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def pages(built: Path) -> dict[Path, Reader]:
    return {path: Reader(path.read_text(encoding="utf-8")) for path in sorted(built.rglob("*.html"))}


def local(built: Path, pages: dict[Path, Reader]) -> Iterator[tuple[Path, Link, Path, str]]:
    for page, reader in pages.items():
        for link in reader.links:
            parts = urlsplit(link.target)
            assert (parts.scheme, parts.netloc) == ("", ""), f"{page.relative_to(built)} leads to {link.target}"
            yield page, link, (page.parent / unquote(parts.path)).resolve() if parts.path else page, parts.fragment


def test_every_link_and_anchor_resolves(built: Path, pages: dict[Path, Reader]) -> None:
    ids = {page.resolve(): set(reader.ids) for page, reader in pages.items()}
    broken = [
        f"{page.relative_to(built)}: {link.target}"
        for page, link, path, fragment in local(built, pages)
        if not path.is_file() or (fragment and fragment not in ids.get(path.resolve(), set()))
    ]

    assert [] == broken


def test_nothing_is_loaded_from_elsewhere_and_nothing_runs(built: Path, pages: dict[Path, Reader]) -> None:
    for page, reader in pages.items():
        assert not reader.tags & {"script", "iframe", "img", "object", "embed"}, page
    for path in built.rglob("*.css"):
        text = path.read_text(encoding="utf-8")
        assert "url(" not in text
        assert "@import" not in text


def test_pages_are_well_formed(pages: dict[Path, Reader]) -> None:
    for page, reader in pages.items():
        assert ([], []) == (reader.astray, reader.open), page
        assert len(reader.ids) == len(set(reader.ids)), page


def test_states_of_the_drawing_lead_to_their_rows(pages: dict[Path, Reader], built: Path) -> None:
    reader = pages[built / "chart.html"]
    drawn = [(region, state) for region in REGIONS for state in STATES[region] if len(STATES[region]) > 1]

    for region, state in drawn:
        assert Link("a", f"#{region}-{state.replace('.', '-')}") in reader.links
    assert {f"row-{row_name(row)}" for row in CHART} <= set(reader.ids)


def test_every_rule_is_on_the_page_of_rules(pages: dict[Path, Reader], built: Path) -> None:
    assert {rule.lower() for rule in load().rules} <= set(pages[built / "rules.html"].ids)


def test_the_first_page_leads_to_every_command_and_names_every_error_code(
    pages: dict[Path, Reader], built: Path
) -> None:
    text = (built / "index.html").read_text(encoding="utf-8")

    assert {f"commands/{name}.html" for name in MODELS} <= {link.target for link in pages[built / "index.html"].links}
    assert [] == [code for code in ErrorCode if f"<code>{code.value}</code>" not in text]
    assert text.index("Writing a client") < text.index("agent_settled") < text.index('id="commands"')


@pytest.mark.parametrize("name", MODELS)
def test_a_command_has_request_response_errors_states_and_a_recording(built: Path, name: str) -> None:
    text = (built / "commands" / f"{name}.html").read_text(encoding="utf-8")
    parts = re.split(r'<h2 id="(\w+)">', text)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))

    assert ["request", "response", "errors", "states", "example"] == list(sections)
    assert f"<code>&quot;{name}&quot;</code>" in sections["request"]
    assert f'→ {{"id":"1","type":"{name}"' in sections["example"] or name in {*CLIENT_ANSWERS, "abort_bash"}
    assert name in sections["example"]
    assert "<td>" in sections["states"] or name in {"reset", "queue_message"}
    for code in OF_COMMANDS[name]:
        assert f"<code>{code.value}</code>" in sections["errors"]


def test_every_command_stands_in_one_group() -> None:
    assert list(get_args(Group)) == list(GROUPS)
    # Commands of a group stand together in the module: its order is that of the pages.
    assert list(MODELS) == [name for names in GROUPS.values() for name in names]


def test_everything_that_a_command_does_has_words() -> None:
    rows = [row for row in CHART if row.trigger in MODELS]

    assert {effect for row in rows for effect in row.effects} == set(EFFECTS)
    assert {row.guard for row in rows} == set(GUARDS)


def test_every_error_code_has_a_meaning_and_a_command_or_line_that_it_answers() -> None:
    assert set(ErrorCode) == set(MEANINGS)
    assert set(ErrorCode) == {code for codes in OF_COMMANDS.values() for code in codes} | {*COMMON, *OF_LINES}


@pytest.mark.parametrize("name", MODELS)
def test_a_recording_is_valid_and_says_nothing_of_the_machine_it_was_made_on(name: str) -> None:
    example = command_example(name)
    assert example is not None
    records = [step.record for step in example.steps]

    assert name in [record["type"] for record in records if isinstance(record, dict)]
    for step in example.steps:
        if not step.is_in:
            assert isinstance(step.record, dict)
            assert [] == validate_output(step.record, "1.5" if name == "hello" else "pi")
            assert step.record["type"] != "response" or step.record["success"]
    assert [] == re.findall(r"/(?:home|tmp|root|Users|work)/[\w.-]+", data.text(f"examples/commands/{name}.jsonl"))


@pytest.mark.parametrize("words", [[], ["--help"], ["a", "b"]])
def test_a_command_line_that_makes_no_sense_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert site.main(words) == 2
    assert "usage" in capsys.readouterr().err


def test_a_folder_that_can_not_be_written_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "taken").write_text("a file")

    assert site.main([str(tmp_path / "taken")]) == 1
    assert "taken" in capsys.readouterr().err
