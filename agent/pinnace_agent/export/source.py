"""What is exported: the entries of a session, its leaf, and what a running agent adds.

Strictly for reading: a file is read once and nothing about it is changed, even if it is damaged or written meanwhile.
Blocks on the file system.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from pinnace_agent.llm.request import ToolSpec
from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_agent.session.opening import check_is_session, check_path, read_text
from pinnace_agent.session.store.migration import migrate
from pinnace_agent.session.tree import EntryTree
from pinnace_spec.records.entries import CURRENT_VERSION, Entry
from pinnace_spec.rules import errors
from pinnace_spec.wire.json_text import WireError, decode_line, encode_record


@dataclass(frozen=True, slots=True)
class LiveAgent:
    """What no session file contains."""

    system_prompt: str
    tools: Sequence[ToolSpec]


@dataclass(frozen=True, slots=True)
class Source:
    """One session, as it was at one moment."""

    path: Path
    header: Mapping[str, object]
    entries: Sequence[Entry]
    leaf: int | None
    """The place of the entry at which the session is."""
    damaged_lines: int = 0
    live: LiveAgent | None = None

    def tree(self) -> EntryTree:
        """Return the tree of the entries."""
        tree = EntryTree(self.entries)
        tree.leaf = self.leaf
        return tree


def read_source(text: str, cwd: str) -> Source:
    """Read a session file, of any version, damaged or not.

    Args:
        text: Its path; `~` is the home folder.
        cwd: What a relative path starts from.

    Raises:
        ClientError: It is not there, can't be read, or is no session.
    """
    path = check_path(text, cwd)
    content = read_text(path)
    if not content.size:
        raise errors.ClientError(errors.EXPORT_NOTHING, errors.ErrorCode.SESSION_UNAVAILABLE)
    check_is_session(path, content)
    content = migrate(content)
    leaf = len(content.entries) - 1 if content.entries else None
    return Source(path, content.header or {}, content.entries, leaf, len(content.damaged))


def session_lines(source: Source) -> list[Mapping[str, object]]:
    """Return header and active branch as the lines of a session file of the current version."""
    from pinnace_agent.session.branch_copy import copy_path
    from pinnace_agent.session.identity import iso_time, new_entry_id, new_session_id

    tree = source.tree()
    taken = set(tree.ids)

    def new_id() -> str:
        taken.add(made := new_entry_id(taken))
        return made

    base: Mapping[str, object] = {"type": "session", "version": CURRENT_VERSION, "id": "", "timestamp": "", "cwd": ""}
    header = {**base, "id": new_session_id(), "timestamp": iso_time(0), **source.header}
    header["version"] = max(CURRENT_VERSION, _whole(source.header.get("version")))
    return [header, *copy_path(tree, tree.leaf, new_id, str(header["timestamp"]))]


def redacted(source: Source) -> Source:
    """Return a source without the keys of this process: before its texts are marked up, cut or packed."""
    if not REDACTOR.is_active:
        return source
    live = source.live
    if live is not None:
        tools = [
            tool._replace(description=REDACTOR.text(tool.description), parameters=_redacted(tool.parameters))
            for tool in live.tools
        ]
        live = LiveAgent(REDACTOR.text(live.system_prompt), tools)
    entries = [_redacted(entry) for entry in source.entries]
    return replace(source, header=_redacted(source.header), entries=entries, live=live)


def _redacted(record: Mapping[str, object]) -> Mapping[str, object]:
    line = encode_record(record)
    shown = REDACTOR.line(line)
    if shown is line:
        return record
    try:
        return cast("Mapping[str, object]", decode_line(shown))  # cast: an object became an object
    except WireError:  # nested deeper than this program reads: the names of an entry are all that is left of it
        return {name: record[name] for name in ("type", "id", "parentId", "timestamp") if name in record}


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
