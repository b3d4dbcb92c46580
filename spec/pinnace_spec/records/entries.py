"""Lines of a session file: the header, and the entries that make the tree of a conversation.

Plain mappings, since a file is shared with other programs: what a type or a field unknown here means is none of our
business, but it must still be there when the entry is copied. Must not import pydantic (start-up time) nor know where
a file lies. `session_format` judges whole files.

Source: R-MSG-01 (the messages inside).
"""

from collections.abc import Mapping
from typing import Final, Literal, NotRequired, TypeAlias, get_args

from typing_extensions import TypedDict

CURRENT_VERSION: Final = 3
"""Of the format. 1 is a plain list of entries without ids, 2 has the tree, 3 calls an extension's message `custom`."""

Entry: TypeAlias = Mapping[str, object]
"""One line of the file, the header excepted. Never changed in place: an entry that must differ is a new mapping."""

EntryType = Literal[
    "message",
    "model_change",
    "thinking_level_change",
    "compaction",
    "branch_summary",
    "custom",
    "custom_message",
    "label",
    "session_info",
    "context_edit",
    "usage",
]

ENTRY_TYPES: Final[tuple[EntryType, ...]] = get_args(EntryType)


class SessionHeader(TypedDict):
    """The first line of a session file. It is no entry and has no parent."""

    type: Literal["session"]
    version: int
    id: str
    timestamp: str
    """When the session was created: UTC, with milliseconds."""
    cwd: str
    parentSession: NotRequired[str]
    """The path of the file that this one was forked from, or that it follows."""
