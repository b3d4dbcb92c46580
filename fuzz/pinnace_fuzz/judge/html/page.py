"""The report as one page that needs nothing else: no network, no other file, and to be read not even scripts.

`page.html` is the template of the whole page; the modules beside this one decide what it shows. Two measures protect
the browser from the output of agents: everything is escaped where it is put into the page, and the page's own policy
lets nothing run or load but its own script and style, named by their hashes. Invisible characters, or that turn text
around, are shown by their number. The same reports always give the same page.
"""

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from jinja2.ext import Extension
from markupsafe import Markup, escape

from pinnace_fuzz.judge.html import cases, chart, head, lanes, matrix, verdicts
from pinnace_fuzz.judge.html.reading import AgentReport, Fields, read_file, read_report, word
from pinnace_fuzz.judge.reports.json_report import JudgedRun, as_json

_HERE: Final = Path(__file__).parent
# A longer path is less readable than the transcript.
_MAX_VISITS: Final = 40
# Ids of cases with nothing to show, in a row.
_MAX_NAMES: Final = 60
# A line break and a tab are seen as what they are.
_SEEN: Final = frozenset("\n\t")


def of_run(run: JudgedRun) -> str:
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
    rules = matrix.rows(reports)
    drawing = chart.published()
    listed = [(case, report) for report in reports for case in report.cases if case.is_listed]
    listed.sort(key=lambda each: (verdicts.rank(each[0].verdict), each[0].area, each[0].id, each[1].number))
    all_cases = [case for report in reports for case in report.cases]
    given_verdicts = {each.verdict for each in all_cases} | {cell.verdict for row in rules for cell in row.cells}
    lit = [
        drawing.lit(each.key, each.visited)
        for case, _ in listed
        for each in cases.transcripts(case)
        if len(each.visited) > 1
    ]
    return _template().render(
        reports=reports,
        several=len(reports) > 1,
        rules=rules,
        cases=listed,
        areas=sorted({row.area for row in rules} | {case.area for case in all_cases}),
        verdicts=verdicts.ranked(given_verdicts & set(verdicts.LOOKS)),
        chart=drawing,
        style="\n".join([(_HERE / "page.css").read_text("utf-8"), drawing.style(), *lit]),
        script=(_HERE / "page.js").read_text("utf-8"),
    )


def _distinguished(reports: Sequence[AgentReport]) -> list[AgentReport]:
    """Let no two agents have the same name: add the generation, or else the number."""
    found = list(reports)
    for additions in ([word(each.agent, "generation") for each in found], [str(each.number) for each in found]):
        names = Counter((each.name, each.version) for each in found)
        found = [
            each._replace(name=f"{each.name} ({addition})") if names[each.name, each.version] > 1 else each
            for each, addition in zip(found, additions, strict=True)
        ]
    return found


class _Tight(Extension):
    """Leaves out the line breaks of the template, with what indents the next line: both would be seen in a `pre`."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        return re.sub(r"\s*\n\s*", "", source)


@cache
def _template() -> Template:
    templates = Environment(
        loader=FileSystemLoader(_HERE),
        extensions=[_Tight],
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
    )
    templates.filters["plain"] = _plain
    known: dict[str, object] = {
        "hash": _hash,
        "indented": _indented,
        "MAX_NAMES": _MAX_NAMES,
        "MAX_VISITS": _MAX_VISITS,
    }
    for module in (cases, head, lanes, matrix, verdicts):
        known |= vars(module)
    return templates.get_template("page.html", globals=known)


def _shown(value: object) -> object:
    """Return what the page shows of a value; what can't be seen is set apart."""
    if not isinstance(value, str) or isinstance(value, Markup) or value.isprintable():
        return value
    return Markup("").join(each if _is_seen(each) else Markup("<i>{}</i>").format(_named(each)) for each in value)


def _plain(value: str) -> Markup:
    """Return what an attribute holds of a text: no markup, and everything in it can be seen."""
    return escape("".join(each if _is_seen(each) else _named(each) for each in value))


def _is_seen(character: str) -> bool:
    return character.isprintable() or character in _SEEN


def _named(character: str) -> str:
    """Write a character that can't be seen; a surrogate escape stands for a byte."""
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _indented(source: Mapping[str, object]) -> str:
    return json.dumps(source, indent=2, ensure_ascii=False)


def _hash(text: str) -> str:
    """Return how the policy names a script or a style that may be there."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
