"""Words that nearly every entry repeats, held once: types, roles, names of models and providers.

Pure, but that the objects it is given are the caller's own, just read, and get equal values in the places of theirs. A
parser makes a new string of each; in a long session they are a tenth of its memory. Must not know what the words mean.
"""

from sys import intern
from typing import Final

from pinnace_agent.llm.json_edge import as_array, as_object

_OF_ENTRIES: Final = ("type",)
_OF_MESSAGES: Final = ("role", "api", "provider", "model", "stopReason", "toolName")
_OF_BLOCKS: Final = ("type", "name")


def share_words(entry: dict[str, object]) -> None:
    """Let an entry share its words with those before it."""
    _share(entry, _OF_ENTRIES)
    if (message := as_object(entry.get("message"))) is not None:
        _share(message, _OF_MESSAGES)
        for each in as_array(message.get("content")):
            if (block := as_object(each)) is not None:
                _share(block, _OF_BLOCKS)


def _share(fields: dict[str, object], names: tuple[str, ...]) -> None:
    for name in names:
        if name in fields and type(word := fields[name]) is str:
            fields[name] = intern(word)
