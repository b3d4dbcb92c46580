"""What the page shows of an entry, as data for the templates."""

from typing import Literal, NamedTuple

Kind = Literal["user", "assistant", "tool", "shell", "note", "set", "other"]


class EntryView(NamedTuple):
    """An entry of a session as the page shows it: its kind, its heading and its body."""

    kind: Kind
    title: str
    body: str
    """HTML."""
    outline: str
    """The line in the table of contents."""
    meta: tuple[str, ...] = ()
    """Model, usage, cost."""
    is_error: bool = False
    link: str = ""
    """HTML: where what it belongs to is."""
