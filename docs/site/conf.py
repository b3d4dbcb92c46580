"""Builds the documentation site from the Markdown pages: `scripts/docs`.

The source folder is the repository itself, so that links between pages, and to files beside them, are the same as in a
checkout. Beside each page is its Markdown, and `llms.txt` lists all pages, for programs that read.
"""

import gc
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from docutils import nodes
from sphinx.application import Sphinx

ROOT: Final = Path(__file__).parents[2]

gc.disable()  # looking for garbage takes half of a build's time; without it a build needs 700 MB

project = "pinnace"
copyright = "pinnace contributors"
version = release = re.findall(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.M)[0]

root_doc = "docs/index"
include_patterns = [
    "*.md",
    "docs/**.md",
    "spec/*.md",
    "spec/model/STATEMENT.md",
    "spec/scenarios/README.md",
]
exclude_patterns = [".*", "build", "newsfragments", "tests", "docs/measurements/remarks.md", "docs/site"]
extensions = ["myst_parser"]
myst_heading_anchors = 4
nitpicky = True

html_theme = "furo"
html_title = "pinnace"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["copy.js"]
# Sphinx's own reads the pages again, which a browser refuses from a disk; `excerpts.js` replaces it.
html_show_search_summary = False
html_show_sourcelink = False
html_copy_source = False
html_theme_options: Final[dict[str, object]] = {"source_directory": "", "top_of_page_buttons": []}
# Furo loads nothing from elsewhere, and Sphinx's search reads its index as a script: both work from a disk.
html_search_language = "en"

CONTENTS: Final = {
    "docs/index": {
        "Start": "../README quickstart command-line faq glossary",
        "Clients": "rpc rpc-reference python-client python-agent offline migrating-from-pi",
        "Use": "configuration providers prompts tools sub-agents sandbox extensions typescript-extensions packages "
        "sessions "
        "durable-agents fleet recipes editors terminal mcp export logging telemetry troubleshooting",
        "Assurance": "../SECURITY stability specification ../spec/reference ../spec/matrix model-checking "
        "../spec/model/STATEMENT conformance conformance-in-ci ../spec/scenarios/README judged soak-and-chaos "
        "simulation measurements sandbox-attempts measurements/batches measurements/growth measurements/host "
        "measurements/editors measurements/terminal",
        "Development": "../CONTRIBUTING architecture decisions/README ../spec/README ../CHANGELOG",
    },
    "docs/decisions/README": {"": "0*"},
}
"""The contents of the site: the pages below a page, by their captions. A page that is missing here fails the build."""

TITLES: Final = {
    "../README": "Introduction",
    "../CONTRIBUTING": "Contributing",
    "../spec/README": "Files of the specification",
    "../spec/reference": "Reference of the rules",
    "../spec/matrix": "Command × state",
    "../spec/model/STATEMENT": "Statement of the proofs",
    "../spec/scenarios/README": "Scenario format",
    "measurements/batches": "Cost of batches",
    "measurements/growth": "Growth of costs",
    "measurements/host": "Durable host",
    "measurements/editors": "Agent of editors",
    "measurements/terminal": "Terminal client, measured",
}
"""What the contents call a page, where its heading alone would mislead there."""

_TEXTS: Final = "page_texts.js"
_CHART: Final = re.compile(r"<!-- chart: generated -->.*?<!-- chart: end -->", re.DOTALL)
_OPTIONS: Final = "<!-- options: on the site, the output of pinnace --help -->"
_SENTENCE: Final = re.compile(r"\[([^\]]+)\]\((#sentence-\d+)\)")


def entry(page: str) -> str:
    """Return the line of a page in the contents."""
    return f"{TITLES[page]} <{page}>" if page in TITLES else page


def manual() -> str:
    """Return the output of `pinnace --help`, without options of the reader's own extensions."""
    command = [sys.executable, "-P", "-m", "pinnace_rpc", "--no-extensions", "--help"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def prepare(app: Sphinx, name: str, source: list[str]) -> None:
    """Add the contents, and write in MyST's way what it reads otherwise than other readers of Markdown.

    The generated picture replaces Mermaid, which needs a script from elsewhere. The page of the command line gets all
    options.
    """
    up = "../" * name.count("/")
    text = _CHART.sub(f"![The statechart of region RUN]({up}spec/chart.svg)", source[0])
    text = _SENTENCE.sub(r'<a href="\2">\1</a>', text)
    text = text.replace("](schema/)", "](schema/pi.json)")
    if _OPTIONS in text:
        text = text.replace(_OPTIONS, f"```text\n{manual()}```")
    written = text
    for caption, pages in CONTENTS.get(name, {}).items():
        options = [":hidden:", ":glob:", *([f":caption: {caption}"] if caption else []), ""]
        text += "\n".join(["\n\n```{toctree}", *options, *map(entry, pages.split()), "```\n"])
    source[0] = text
    app.env.metadata[name]["markdown"] = written


def add_to_page(app: Sphinx, name: str, _: str, context: dict[str, Any], __: object) -> None:
    """Link a page to its Markdown, and give the page of the search its texts."""
    if name == "search":
        app.add_js_file(_TEXTS)
        app.add_js_file("excerpts.js")
    elif "markdown" in app.env.metadata.get(name, {}):
        file = f"{name.rpartition('/')[2]}.md"
        context["metatags"] += f'<link rel="alternate" type="text/markdown" href="{file}">'
        context["body"] += f'<p class="as-markdown"><a href="{file}">This page as Markdown</a></p>'


def write_texts(app: Sphinx, error: Exception | None) -> None:
    """Write what programs read: each page as Markdown, the list of the pages, and the texts of the search."""
    if error is not None:
        return
    folder = Path(app.outdir)
    texts = {name: " ".join(app.env.get_doctree(name).astext().split()) for name in sorted(app.env.found_docs)}
    lines = json.dumps(texts, ensure_ascii=False, separators=(",", ":"))
    (folder / "_static" / _TEXTS).write_text(f"const PAGE_TEXTS = {lines};\n", encoding="utf-8")
    for name in texts:
        (folder / f"{name}.md").write_text(app.env.metadata[name]["markdown"], encoding="utf-8")
    (folder / "llms.txt").write_text("\n".join(_listed(app, folder)) + "\n", encoding="utf-8")


def _listed(app: Sphinx, folder: Path) -> Iterator[str]:
    """Yield the lines of `llms.txt` (llmstxt.org): what this is, then the pages with their first sentences."""
    yield from ("# pinnace", "", f"> {_first_sentence(app, '../README')}")
    for caption, pages in CONTENTS["docs/index"].items():
        yield from ("", f"## {caption}", "")
        for page in pages.split():
            name = os.path.normpath(f"docs/{page}")
            title = TITLES.get(page) or app.env.titles[name].astext()
            yield f"- [{title}]({name}.md): {_first_sentence(app, page)}"


def _first_sentence(app: Sphinx, page: str) -> str:
    paragraphs = app.env.get_doctree(os.path.normpath(f"docs/{page}")).findall(nodes.paragraph)
    text = " ".join(next(iter(paragraphs)).astext().split())
    return re.split(r"(?<=[.!?:])\s", text, maxsplit=1)[0]


def setup(app: Sphinx) -> None:
    """Connect what this file adds."""
    app.connect("source-read", prepare)
    app.connect("html-page-context", add_to_page)
    app.connect("build-finished", write_texts)
