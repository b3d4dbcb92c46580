"""What the built-in tools are called with, as authors of extensions see it: plain dicts, in the spelling of models."""

from typing import NotRequired

from typing_extensions import TypedDict


class BashInput(TypedDict):
    """What `bash` is called with."""

    command: str
    timeout: NotRequired[float]


class ReadInput(TypedDict):
    """What `read` is called with."""

    path: str
    offset: NotRequired[float]
    limit: NotRequired[float]


class EditReplacement(TypedDict):
    """One of the edits."""

    oldText: str
    newText: str


class EditInput(TypedDict):
    """What `edit` is called with."""

    path: str
    edits: list[EditReplacement]


class WriteInput(TypedDict):
    """What `write` is called with."""

    path: str
    content: str


class GrepInput(TypedDict):
    """What `grep` is called with."""

    pattern: str
    path: NotRequired[str]
    glob: NotRequired[str]
    ignoreCase: NotRequired[bool]
    literal: NotRequired[bool]
    context: NotRequired[float]
    limit: NotRequired[float]


class FindInput(TypedDict):
    """What `find` is called with."""

    pattern: str
    path: NotRequired[str]
    limit: NotRequired[float]


class LsInput(TypedDict):
    """What `ls` is called with."""

    path: NotRequired[str]
    limit: NotRequired[float]
