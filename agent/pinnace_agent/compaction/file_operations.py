"""The files that a conversation has read and changed: a summary must not lose them, whichever model writes it.

Pure. Paths are as the calls gave them.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from typing_extensions import TypedDict

from pinnace_agent.core.json_access import as_array, as_object, as_text
from pinnace_spec.records.entries import Entry
from pinnace_spec.records.messages import Message

_READING: Final = "read"
_CHANGING: Final = ("write", "edit")
# What `with_file_blocks` has added to a summary: the next one gets new ones.
_BLOCKS: Final = re.compile(r"(?:\n\n<(read|modified)-files>\n(?:(?!</\1-files>)[^\n]*\n)*</\1-files>)+\s*\Z")


class FileDetails(TypedDict):
    """`details` of a compaction."""

    readFiles: list[str]
    modifiedFiles: list[str]


class FileOperations(NamedTuple):
    """The files that were only read, and those that were changed; each sorted, none in both."""

    read: tuple[str, ...]
    modified: tuple[str, ...]

    def details(self) -> FileDetails:
        """Return them as a compaction's entry has them."""
        return {"readFiles": list(self.read), "modifiedFiles": list(self.modified)}


def file_operations(messages: Iterable[Message], compaction: Entry | None) -> FileOperations:
    """Collect the files of messages, and of the compaction that they follow unless an extension made it."""
    read: set[str] = set()
    modified: set[str] = set()
    if compaction is not None and compaction.get("fromHook") is not True:
        details = as_object(compaction.get("details")) or {}
        read.update(filter(None, map(as_text, as_array(details.get("readFiles")))))
        modified.update(filter(None, map(as_text, as_array(details.get("modifiedFiles")))))
    for message in messages:
        # The calls of an answer that failed were never made.
        if message["role"] != "assistant" or message["stopReason"] in {"error", "aborted"}:
            continue
        for block in message["content"]:
            path = as_text(block["arguments"].get("path")) if block["type"] == "toolCall" else None
            if block["type"] != "toolCall" or path is None:
                continue
            if block["name"] == _READING:
                read.add(path)
            elif block["name"] in _CHANGING:
                modified.add(path)
    return FileOperations(tuple(sorted(read - modified)), tuple(sorted(modified)))


def with_file_blocks(summary: str, files: FileOperations) -> str:
    """Append the files to a summary, a path a line; nothing for those that there are none of."""
    blocks = (("read-files", files.read), ("modified-files", files.modified))
    return summary + "".join(f"\n\n<{name}>\n{_lines(paths)}\n</{name}>" for name, paths in blocks if paths)


def without_file_blocks(summary: str) -> str:
    """Take the files off a summary."""
    return _BLOCKS.sub("", summary)


def _lines(paths: Iterable[str]) -> str:
    """Write each path on a line of its own, whatever is in it."""
    return "\n".join(" ".join(path.splitlines()) for path in paths)
