"""Builds the documentation site from the Markdown pages: `scripts/docs`.

The source folder is the repository itself, so that links between pages, and to files beside them, are the same as in a
checkout.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from sphinx.application import Sphinx

ROOT: Final = Path(__file__).parents[2]

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
html_show_sourcelink = False
html_copy_source = False
html_theme_options: Final[dict[str, object]] = {"source_directory": "", "top_of_page_buttons": []}
# Furo loads nothing from elsewhere, and Sphinx's search reads its index as a script: both work from a disk.
html_search_language = "en"

CONTENTS: Final = {
    "docs/index": {
        "Start": "../README quickstart command-line faq glossary",
        "Clients": "rpc rpc-reference python-client offline migrating-from-pi",
        "Use": "configuration providers prompts tools sandbox extensions sessions durable-agents fleet editors "
        "terminal mcp export logging telemetry troubleshooting",
        "Assurance": "../SECURITY stability specification ../spec/reference ../spec/matrix model-checking "
        "../spec/model/STATEMENT conformance ../spec/scenarios/README judged soak-and-chaos measurements "
        "sandbox-attempts measurements/batches measurements/growth measurements/host measurements/editors "
        "measurements/terminal",
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
    for caption, pages in CONTENTS.get(name, {}).items():
        options = [":hidden:", ":glob:", *([f":caption: {caption}"] if caption else []), ""]
        text += "\n".join(["\n\n```{toctree}", *options, *map(entry, pages.split()), "```\n"])
    source[0] = text


def setup(app: Sphinx) -> None:
    """Connect what this file adds."""
    app.connect("source-read", prepare)
