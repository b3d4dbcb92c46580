"""The reference as a site: every link and anchor resolves, nothing is loaded from elsewhere, no script runs."""

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import pytest

from pinnace_spec import site
from pinnace_spec.chart import CHART, REGIONS, STATES
from pinnace_spec.publish.rulebook import row_name
from pinnace_spec.publish.source import load

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


def test_every_rule_is_on_the_first_page(pages: dict[Path, Reader], built: Path) -> None:
    assert {rule.lower() for rule in load().rules} <= set(pages[built / "index.html"].ids)


@pytest.mark.parametrize("words", [[], ["--help"], ["a", "b"]])
def test_a_command_line_that_makes_no_sense_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert site.main(words) == 2
    assert "usage" in capsys.readouterr().err


def test_a_folder_that_can_not_be_written_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "taken").write_text("a file")

    assert site.main([str(tmp_path / "taken")]) == 1
    assert "taken" in capsys.readouterr().err
