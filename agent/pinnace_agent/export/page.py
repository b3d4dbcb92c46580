"""A session as one page that needs nothing else: no network, no other file, and for reading no scripts.

Two walls are between what a session holds and the browser: everything is escaped where it is put into the page, and
the page's own policy lets nothing run or load but its own script and style, identified by their hashes. The same
session always gives the same page. Imports jinja2, markdown-it and pygments at the first use.
"""

import base64
import hashlib
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pinnace_agent.core.json_access import as_object, as_text
from pinnace_agent.export.branches import EntryChain, branches
from pinnace_agent.export.calls import paired
from pinnace_agent.export.entries import EntryRenderer
from pinnace_agent.export.figures import count, dollars, first_words, moment, usage_words
from pinnace_agent.export.markup.parts import TEMPLATES, Parts
from pinnace_agent.export.markup.readable import with_visible
from pinnace_agent.export.source import Source
from pinnace_agent.export.views import EntryView
from pinnace_agent.session.totals import file_totals
from pinnace_agent.session.tree import EntryTree
from pinnace_spec.records.entries import CURRENT_VERSION, Entry
from pinnace_spec.wire.json_text import encode_record

_TITLE_CHARACTERS: Final = 80
_GZIP: Final = 16 + zlib.MAX_WBITS
# Deeper ones are not indented further: a phone has no room.
_MAX_INDENT: Final = 6


@dataclass(slots=True)
class PageEntry:
    """An entry on the page."""

    place: int
    view: EntryView
    entry_id: str
    stamp: str
    time: str
    """Hours and minutes; with the day where that is another one than before."""
    full_time: str
    label: str
    partings: Sequence[int] = ()
    """Numbers of the branches that go on from here too."""


class Chapter(NamedTuple):
    """A branch on the page."""

    branch: EntryChain
    entries: list[PageEntry]
    indent: int


def page(source: Source, *, only_active: bool = False, check: Callable[[], object] = lambda: None) -> Iterator[str]:
    """Yield the page in pieces.

    Args:
        source: The session.
        only_active: Leave out all but the current branch, and what only they hold.
        check: Called often; what it raises ends the work.
    """
    tree = source.tree()
    found = branches(tree, only_active=only_active)
    places = {place for branch in found for place in branch.places}
    parts = Parts(places, check)
    entries = EntryRenderer(tree, parts, paired(tree, found))
    partings: dict[int, list[int]] = {}
    for branch in found:
        if branch.parting is not None:
            partings.setdefault(branch.parting, []).append(branch.number)
    chapters = [_chapter(branch, tree, entries, partings, check) for branch in found]
    macros = parts.templates.get_template("parts.html").module
    chosen = [tree.entries[place] for place in sorted(places)]
    style, script = (TEMPLATES / "page.css").read_text("utf-8"), (TEMPLATES / "page.js").read_text("utf-8")
    style += parts.palette.css()
    title = _title(source, tree, chapters)
    pieces = parts.templates.get_template("page.html").generate(
        title=title,
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        facts=list(_facts(source, chosen, len(found), only_active=only_active)),
        chapters=chapters,
        lines=_packed(source.header, chosen, check),
        live=source.live,
        parts=parts,
        macros=macros,
        count=count,
    )
    # All of it once more: an entity of Markdown may have become what is not to be hidden.
    for piece in pieces:
        check()
        yield with_visible(piece)


def _chapter(
    branch: EntryChain,
    tree: EntryTree,
    entries: EntryRenderer,
    partings: Mapping[int, Sequence[int]],
    check: Callable[[], object],
) -> Chapter:
    shown: list[PageEntry] = []
    day = ""
    for place in branch.places:
        check()
        entry = tree.entries[place]
        view = entries.view(place)
        message = as_object(entry.get("message")) or {}
        at = moment(entry.get("timestamp"), message.get("timestamp"))
        entry_id = as_text(entry.get("id")) or ""
        label = tree.labels.get(entry_id)
        shown.append(
            PageEntry(
                place,
                view,
                entry_id,
                "" if at is None else f"{at:%Y-%m-%dT%H:%M:%SZ}",
                "" if at is None else f"{at:%H:%M}" if day == f"{at:%Y-%m-%d}" else f"{at:%Y-%m-%d %H:%M}",
                "" if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC",
                "" if label is None else label.label,
                partings.get(place, ()),
            )
        )
        if at is not None and view.kind not in {"set", "other"}:  # those the page hides at first
            day = f"{at:%Y-%m-%d}"
    return Chapter(branch, shown, min(branch.depth, _MAX_INDENT))


def _title(source: Source, tree: EntryTree, chapters: Sequence[Chapter]) -> str:
    if tree.name:
        return first_words(tree.name, _TITLE_CHARACTERS)
    for chapter in chapters:
        for shown in chapter.entries:
            if shown.view.kind == "user" and shown.view.outline:
                return shown.view.outline
    return f"Session {source.header.get('id', '')}".strip()


def _facts(
    source: Source, entries: Sequence[Entry], branch_count: int, *, only_active: bool
) -> Iterator[tuple[str, str]]:
    header = source.header
    for name, label in (("id", "Session"), ("cwd", "Folder"), ("parentSession", "Copied from")):
        if value := as_text(header.get(name)):
            yield label, value
    begun = moment(header.get("timestamp"), *(entry.get("timestamp") for entry in entries[:1]))
    ended = moment(*(entry.get("timestamp") for entry in entries[-1:]))
    if begun is not None:
        yield "Begun", f"{begun:%Y-%m-%d %H:%M} UTC"
    if ended is not None:
        yield "Last entry", f"{ended:%Y-%m-%d %H:%M} UTC"
    messages = [as_object(entry.get("message")) or {} for entry in entries if entry.get("type") == "message"]
    models = dict.fromkeys(
        f"{message.get('provider')}/{message.get('model')}"
        for message in messages
        if message.get("role") == "assistant"
    )
    if models:
        yield ("Model" if len(models) == 1 else "Models"), ", ".join(models)
    roles = [message.get("role") for message in messages]
    texts = f"{count(roles.count('user'))} of the user, {count(roles.count('assistant'))} of the model"
    yield "Messages", f"{texts}, {count(roles.count('toolResult'))} results of tools"
    totals = file_totals(entries)
    tokens = totals["tokens"]
    if tokens["total"]:
        yield "Tokens", ", ".join(usage_words(tokens))
    if totals["cost"]:
        yield "Cost", dollars(totals["cost"])
    if only_active:
        yield "Branches", "only the active one is in this file"
    elif branch_count > 1:
        yield "Branches", count(branch_count)
    if source.damaged_lines:
        yield "Damaged lines", f"{count(source.damaged_lines)}, which are not shown"


def _packed(header: Mapping[str, object], entries: Sequence[Entry], check: Callable[[], object]) -> str:
    """Return the session file for download: its lines, gzipped, in base64. The same entries always give the same text.

    gzip, since the page would otherwise hold everything twice; the script of the page unpacks it.
    """
    packer = zlib.compressobj(wbits=_GZIP)
    version = header.get("version")
    lines = [{"type": "session", **header, "version": version if isinstance(version, int) else CURRENT_VERSION}]
    pieces: list[bytes] = []
    for line in (*lines, *entries):
        check()
        pieces.append(packer.compress(encode_record(line)))
    pieces.append(packer.flush())
    return base64.b64encode(b"".join(pieces)).decode()


def _hash(text: str) -> str:
    """Return how the policy names a script or a style that may be there."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
