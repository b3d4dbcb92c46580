"""The documentation site: it builds without a warning, its links lead somewhere, and its search works from a disk."""

import importlib.util
import os
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

import pytest

if TYPE_CHECKING:
    from tests.browser import Browser

REPOSITORY: Final = Path(__file__).parents[2]
BUILD_S: Final = 500.0
PHONE: Final = 390
DESKTOP: Final = 1400
pytestmark = pytest.mark.slow


class Page(HTMLParser):
    """The links, the anchors and the loaded files of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag in {"img", "script", "iframe"} and "src" in values:
            self.loaded.append(values["src"])
        elif tag == "link" and values.get("rel") in {"stylesheet", "icon", "preload"}:
            self.loaded.append(values["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as a reader builds it; a warning fails the build."""
    if importlib.util.find_spec("sphinx") is None:
        assert "CI" not in os.environ, "scripts/setup --dev installs Sphinx"
        pytest.skip("Sphinx is not installed: scripts/setup --dev installs it")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [REPOSITORY / "scripts" / "docs", folder], capture_output=True, text=True, timeout=BUILD_S, check=False
    )

    assert (0, "") == (done.returncode, done.stderr)
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    """The pages by their paths, but for what they let readers download."""
    paths = [path for path in site.rglob("*.html") if "_downloads" not in path.parts]
    return {path: Page(path) for path in paths}


def test_every_page_of_the_repository_is_on_the_site(site: Path, pages: dict[Path, Page]) -> None:
    excluded = {"docs/measurements/remarks.md"}
    written = {path.relative_to(REPOSITORY) for path in (*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md"))}

    missing = [path for path in written if str(path) not in excluded and site / path.with_suffix(".html") not in pages]
    assert [] == missing


def test_every_link_and_anchor_exists(site: Path, pages: dict[Path, Page]) -> None:
    dead = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = pages[target].anchors if target in pages else set()
            if not target.exists() or (parts.fragment and target in pages and unquote(parts.fragment) not in anchors):
                dead.append(f"{path.relative_to(site)}: {link}")

    assert [] == dead


def test_pages_load_nothing_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    loaded = [(path.parent, name) for path, page in pages.items() for name in page.loaded]

    assert [] == [name for _, name in loaded if urlsplit(name).scheme not in {"", "data"}]
    paths = {(folder / urlsplit(name).path).resolve() for folder, name in loaded if not name.startswith("data:")}
    assert [] == [path for path in paths if not path.is_file()]


def test_the_site_shows_every_option(site: Path) -> None:
    text = (site / "docs" / "command-line.html").read_text(encoding="utf-8")

    assert all(option in text for option in ("--max-run-seconds", "--tool-approval", "--list-models", "Exit codes:"))


def test_the_search_index_holds_every_page(site: Path, pages: dict[Path, Page]) -> None:
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    [names] = re.findall(r'"?docnames"?:\[(.*?)\]', index)
    found = set(re.findall(r'"([^"]+)"', names))

    assert {"README", "SECURITY", "docs/quickstart", "docs/troubleshooting", "spec/reference"} <= found
    assert "quarantin" in index, "the words of the glossary"


def test_programs_find_each_page_as_markdown(site: Path, pages: dict[Path, Page]) -> None:
    """`llms.txt` lists the pages of the contents, and each page links to its Markdown."""
    listed = re.findall(r"^- \[[^\]]+\]\(([^)]+)\): \S", (site / "llms.txt").read_text(encoding="utf-8"), re.M)
    assert {"README.md", "docs/quickstart.md", "docs/recipes.md", "spec/reference.md"} <= set(listed)
    assert [] == [name for name in listed if not (site / name).is_file()]
    assert "# Quickstart" in (site / "docs" / "quickstart.md").read_text(encoding="utf-8")
    assert "--max-run-seconds" in (site / "docs" / "command-line.md").read_text(encoding="utf-8")
    own = [path for path in pages if path.with_suffix(".md").is_file()]
    assert len(own) > 40
    assert [] == [path for path in own if path.with_suffix(".md").name not in pages[path].links]


@pytest.mark.peer
def test_a_block_has_a_button_that_copies_what_is_typed(site: Path, browser: "Browser") -> None:
    browser.open(site / "docs" / "quickstart.html")
    blocks = "document.querySelectorAll('div.highlight > pre').length"
    assert browser.run(blocks) == browser.run("document.querySelectorAll('div.highlight > button.copy').length") > 3

    shown = browser.run("typed(document.querySelector('.highlight-console pre'))")
    assert 'pinnace --provider offline --no-session -p "count to 3"\n' == shown


@pytest.mark.peer
def test_a_result_of_the_search_shows_where_the_word_is(site: Path, browser: "Browser") -> None:
    browser.load(site / "search.html", "?q=quarantine")
    browser.until("document.querySelector('#search-results .search-summary')?.textContent.includes('found')")
    shown = browser.run("[...document.querySelectorAll('#search-results li .context')].map(each => each.textContent)")

    assert shown
    assert any("quarantine" in text.lower() for text in shown)


@pytest.mark.peer
def test_the_search_works_from_a_disk(site: Path, browser: "Browser") -> None:
    browser.open(site / "docs" / "index.html")
    form = "document.querySelector('.sidebar-search-container')"
    assert "search.html?q" == browser.run(f"{form}.action.split('/').pop() + '?' + {form}.elements[0].name")

    browser.load(site / "search.html", "?q=quarantine")
    # The results come one by one, the best first: the summary says when the last one is there.
    browser.until("document.querySelector('#search-results .search-summary')?.textContent.includes('found')")
    found = browser.run("[...document.querySelectorAll('#search-results li a')].map(each => each.textContent)")

    assert {"Glossary", "Sessions and crash safety"} <= set(found)


@pytest.mark.peer
def test_the_contents_of_a_page_fit_beside_it(site: Path, browser: "Browser") -> None:
    browser.open(site / "docs" / "configuration.html", width=DESKTOP)

    assert browser.run("document.querySelector('.toc-drawer').getBoundingClientRect().right") <= DESKTOP


@pytest.mark.peer
@pytest.mark.parametrize(
    "name", ["docs/index", "docs/configuration", "docs/extensions", "docs/rpc-reference", "spec/reference"]
)
def test_a_page_fits_a_phone(name: str, site: Path, browser: "Browser") -> None:
    browser.open(site / f"{name}.html", width=PHONE, height=844)

    assert browser.run("document.documentElement.scrollWidth") <= PHONE
    assert [] == browser.alarms()
