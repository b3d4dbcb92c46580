"""The report as one page that needs nothing else: no network, no other file, and to be read not even scripts.

Two measures protect the browser from the output of agents: everything is escaped where it is put into the page, and the
page's own policy lets nothing run or load but its own script and style, named by their hashes. The same reports always
give the same page.
"""

import base64
import hashlib
from collections import Counter
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Final

from pinnace_fuzz.judge.html import chart as charts
from pinnace_fuzz.judge.html.cases import CaseWriter, is_listed
from pinnace_fuzz.judge.html.head import cards, lead
from pinnace_fuzz.judge.html.markup import EMPTY, Html, join, tag
from pinnace_fuzz.judge.html.matrix import RuleEvidence, rows, table
from pinnace_fuzz.judge.html.reading import Fields, Report, read_file, read_report, word
from pinnace_fuzz.judge.html.verdicts import LOOKS, chapter_of, legend, look, rank
from pinnace_fuzz.judge.reports.json_report import Run, as_json
from pinnace_spec.rules.witnesses import invariants

_HERE: Final = Path(__file__).parent


def of_run(run: Run) -> str:
    """Write the page of one run."""
    return page([as_json(run)])


def of_files(files: Sequence[str]) -> str:
    """Write one page of several reports.

    Args:
        files: A path each, or `NAME=PATH`: what the agent is called on the page.

    Raises:
        NotAReport: A file is none.
        OSError: A file can't be read.
    """
    names, sources = zip(*map(_named_file, files), strict=True)
    return page(sources, names)


def _named_file(file: str) -> tuple[str, Fields]:
    name, sign, path = file.partition("=")
    if sign and not Path(file).exists():
        return name, read_file(Path(path))
    return "", read_file(Path(file))


def page(sources: Sequence[Fields], names: Sequence[str] = ()) -> str:
    """Write the page of some reports; `names`: what their agents are called, empty: as they call themselves."""
    given = [*names, *[""] * (len(sources) - len(names))]
    reports = _distinguished([read_report(*each) for each in zip(sources, count(1), given, strict=False)])
    found = rows(reports)
    chart = charts.published()
    writer = CaseWriter({each.id: each.text for each in invariants().values()}, chart)
    cases = _cases(reports, writer)
    script = (_HERE / "page.js").read_text("utf-8")
    style = "\n".join([(_HERE / "page.css").read_text("utf-8"), chart.style(), *writer.styles])
    title = f"Conformance: {', '.join(f'{each.name} {each.version}'.strip() for each in reports)}"
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        # First the policy of the page, then its content.
        tag("meta", http_equiv="Content-Security-Policy", content=Html(policy)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Html(style)),
    )
    body = tag(
        "body",
        tag("a", "Skip to the matrix", href="#main", class_="skip"),
        tag("header", tag("h1", "Conformance"), lead(reports, found), legend(row.area for row in found), class_="top"),
        _controls(reports, found),
        tag(
            "main",
            tag("h2", "Rules"),
            table(reports, found),
            tag("h2", "Agents"),
            cards(reports, found),
            tag("h2", "Cases"),
            cases,
            tag("p", "Nothing matches.", id="nothing", hidden=True),
            id="main",
            tabindex="-1",
        ),
        chart.definition(),
        tag("output", id="said", class_="hear"),
        tag("script", Html(script)),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _distinguished(reports: Sequence[Report]) -> list[Report]:
    """Let no two agents have the same name: add the generation, or else the number."""
    found = list(reports)
    for additions in ([word(each.agent, "generation") for each in found], [str(each.number) for each in found]):
        names = Counter((each.name, each.version) for each in found)
        found = [
            each._replace(name=f"{each.name} ({addition})") if names[each.name, each.version] > 1 else each
            for each, addition in zip(found, additions, strict=True)
        ]
    return found


def _cases(reports: Sequence[Report], writer: CaseWriter) -> Html:
    listed = [(case, report) for report in reports for case in report.cases if is_listed(case)]
    listed.sort(key=lambda each: (rank(each[0].verdict), each[0].area, each[0].id, each[1].number))
    if not listed:
        return tag("p", "Every case passed: there is nothing to show.", class_="soft")
    several = len(reports) > 1
    return tag("div", *(writer.article(case, report, is_named=several) for case, report in listed), id="cases")


def _controls(reports: Sequence[Report], found: Sequence[RuleEvidence]) -> Html:
    """Write the filters; the script shows them, since without it they do nothing."""
    there = {case.verdict for each in reports for case in each.cases}
    there |= {cell.verdict for row in found for cell in row.cells}
    signs = [
        tag(
            "button",
            tag("b", look(verdict).letter, aria_hidden="true"),
            verdict,
            type="button",
            class_=f"pick {look(verdict).kind}",
            aria_pressed="false",
            data_v=verdict,
        )
        for verdict in sorted(there, key=rank)
        if verdict in LOOKS
    ]
    areas = sorted({row.area for row in found} | {case.area for each in reports for case in each.cases})
    several = len(reports) > 1
    chosen = (
        join(
            [
                _choice(
                    "agent", "every agent", [(str(each.number), f"{each.name} {each.version}") for each in reports]
                ),
                tag("button", "Where they differ", type="button", id="differ", class_="pick", aria_pressed="false"),
            ]
        )
        if several
        else EMPTY
    )
    return tag(
        "div",
        tag("input", id="search", type="search", placeholder="Search  /", aria_label="Search", autocomplete="off"),
        tag("span", id="found", class_="soft", aria_live="polite"),
        _choice("area", "every area", [(each, f"{each} {chapter_of(each)}".rstrip()) for each in areas]),
        chosen,
        tag("span", *signs, class_="picks", role="group", aria_label="Verdicts"),
        tag("button", "Open all", type="button", id="folds", aria_pressed="false"),
        id="controls",
        role="search",
        hidden=True,
    )


def _choice(name: str, everything: str, options: Sequence[tuple[str, str]]) -> Html:
    first = tag("option", everything, value="")
    return tag(
        "select", first, *(tag("option", label, value=value) for value, label in options), id=name, aria_label=name
    )


def _hash(text: str) -> str:
    """Return how the policy names a script or a style that may be there."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
