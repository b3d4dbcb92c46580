"""Builds the reference as a static site: `python -P -m pinnace_spec.generate.site DIR`.

Plain files that work from a disk: no service, no script, nothing from elsewhere. Pages: how to write a client, a page
for each command and each record, the rules, the chart whose states lead to their rows, the matrix, what the models have
shown. Everything is read from what is published, so it works from a wheel too.
"""

import shutil
import sys
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Final

from pinnace_spec import data
from pinnace_spec.generate.promela.properties import PROPERTIES
from pinnace_spec.generate.rulebook import row_name
from pinnace_spec.generate.site.commands import command_pages
from pinnace_spec.generate.site.markdown import Page, rendered
from pinnace_spec.generate.site.records import definitions, record_pages
from pinnace_spec.generate.site.start import start_page
from pinnace_spec.generate.source import NOTE, Spec, load
from pinnace_spec.generate.svg import svg
from pinnace_spec.statechart.transitions import REGIONS, STATES, Region

FILES: Final = Path(__file__).parent / "site_files"
PAGES: Final = (
    ("index.html", "Start"),
    ("commands/index.html", "Commands"),
    ("records/index.html", "Records"),
    ("rules.html", "Rules"),
    ("chart.html", "Chart"),
    ("matrix.html", "Command × state"),
    ("models.html", "Models"),
)
_RAW: Final = ("chart.svg", "chart.scxml", "chart.mmd", "meta.json", "asyncapi.yaml", "rules.toml", "deviations.toml")
_RESULTS: Final = "../docs/model-checking.md"
_RAW_FOLDERS: Final = ("schema", "typescript", "model")


def build(folder: Path) -> list[str]:
    """Write the site; return the names of its pages.

    What is in the folder already stays, unless it has the name of a page.
    """
    spec = load()
    pages = {
        "index.html": start_page(),
        "rules.html": rendered(data.text("reference.md"), _target),
        "chart.html": _chart(spec),
        "matrix.html": _matrix(),
        "models.html": _models(),
        **command_pages(spec),
        **record_pages(),
    }
    for name, page in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_framed(name, page), encoding="utf-8")
    shutil.copyfile(FILES / "style.css", folder / "style.css")
    for name in _raw():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(data.text(name), encoding="utf-8")
    return list(pages)


def _raw() -> Iterable[str]:
    yield from (name for name in _RAW if data.has(name))
    for folder in _RAW_FOLDERS:
        yield from (name for name in data.names(folder) if not name.endswith(".md"))


def _framed(name: str, page: Page) -> str:
    import jinja2
    from markupsafe import Markup

    frame = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(
        (FILES / "page.html").read_text(encoding="utf-8")
    )
    return frame.render(
        title=page.title,
        body=Markup(page.body),
        contents=page.contents,
        pages=PAGES,
        current=name,
        root="../" * name.count("/"),
    )


def _target(href: str, text: str) -> str:
    """Return where a link of the reference leads on the site."""
    match href:
        case "chart.svg":
            return "chart.html"
        case "matrix.md":
            return "matrix.html"
        case "schema/":
            return "records/index.html"
        case "schema/pi.json" if text in definitions():
            return f"records/{text}.html"
        case _:
            return href


def _chart(spec: Spec) -> Page:
    def link(region: Region, state: str) -> str:
        return f"#{region}-{state.replace('.', '-')}"

    parts = [
        "<h1>The statechart</h1>",
        "<p>Regions move by themselves. Choose a state to see its rows: what comes, what then happens, and by which "
        "rules. The first row whose guard holds is taken.</p>",
        f'<div class="wide chart">{svg(spec, link)}</div>',
    ]
    contents: list[tuple[str, str, list[tuple[str, str]]]] = []
    for region in REGIONS:
        parts.append(f'<h2 id="region-{region}-rows">Region {region.upper()}</h2>')
        states = [(link(region, state)[1:], state) for state in STATES[region]]
        contents.append((f"region-{region}-rows", f"Region {region.upper()}", states))
        for name, state in states:
            parts.append(f'<h3 id="{name}">{region.upper()}: {escape(state)}</h3>')
            parts.append(_rows_table(spec, region, state))
    return Page("The statechart", "\n".join(parts), contents)


def _rows_table(spec: Spec, region: Region, state: str) -> str:
    lines = ["<tr><th>comes</th><th>if</th><th>happens</th><th>leads to</th><th>rules</th></tr>"]
    for row in spec.rows:
        if (row.region, row.source) == (region, state):
            rules = " ".join(f'<a href="rules.html#{rule.lower()}">{rule}</a>' for rule in row.rules)
            lines.append(
                f'<tr id="row-{escape(row_name(row))}"><td><code>{row.trigger}</code></td><td>{row.guard}</td>'
                f"<td>{', '.join(row.effects)}</td><td>{row.target or ''}</td><td>{rules}</td></tr>"
            )
    return f'<div class="wide"><table>{"".join(lines)}</table></div>'


def _matrix() -> Page:
    page = rendered(data.text("matrix.md").replace(NOTE, ""), _target)
    return page._replace(body=page.body.replace('<div class="wide">', '<div class="wide matrix">'))


def _models() -> Page:
    """Report what is proved, for what the models were searched, and, in a checkout, the last results."""
    parts = [data.text(name) for name in data.names("model") if name.endswith(".md")]
    lines = parts or ["# Models\n\nNothing yet: there is no model in this edition."]
    rows = [
        f"| `{each.name}` | {each.text} | {', '.join(f'[{rule}](rules.html#{rule.lower()})' for rule in each.rules)} |"
        for each in PROPERTIES
    ]
    lines += ["## Properties", "\n".join(["| name | says | rules |", "|---|---|---|", *rows])]
    if data.has(_RESULTS):
        _, begin, rest = data.text(_RESULTS).partition("\n## Results\n")
        lines += [f"## Results\n{rest.partition(chr(10) + '## ')[0]}"] if begin else []
    files = [name for name in data.names("model") if not name.endswith(".md")]
    lines += ["## Files", "\n".join(f"- [{name}]({name})" for name in files)] if files else []
    return rendered("\n\n".join(lines), _target)


def main(arguments: Sequence[str]) -> int:
    """Build the site in the named folder; return the exit code."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        sys.stderr.write("usage: python -P -m pinnace_spec.generate.site DIR\n")
        return 2
    try:
        names = build(Path(arguments[0]))
    except ImportError as error:
        sys.stderr.write(f"{error.name} is not installed: install pinnace again from its sources\n")
        return 1
    except OSError as error:
        sys.stderr.write(f"{error.filename or arguments[0]}: {error.strerror}\n")
        return 1
    sys.stderr.write(f"{len(names)} pages; begin at {Path(arguments[0]) / 'index.html'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
