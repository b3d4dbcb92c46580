"""Tells what an agent says of its own accord: records of kinds of its own, and what it shows beside the work.

A client passes over both, so a scenario does not count them, unless extensions are its subject. Pure. Must not know how
an expression is matched. Source: R-UI-03.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from pinnace_spec.generations import GENERATIONS, generation

# They wait for nothing, and a client may ignore them.
SHOWN: Final = frozenset({"notify", "setStatus", "setWidget", "setTitle", "set_editor_text"})


def is_unasked(record: Mapping[str, Any], *, has_extensions: bool) -> bool:
    """Say whether a record of the agent is nothing that the protocol has to do with.

    Args:
        record: What it wrote.
        has_extensions: The scenario has extensions, and it may be they who show something.
    """
    kind = record.get("type")
    if kind in ("extension_ui_request", "hook_ui_request"):
        return not has_extensions and str(record.get("method")) in SHOWN
    return isinstance(kind, str) and kind.isidentifier() and kind not in _known()


@cache
def _known() -> frozenset[str]:
    """Return the records of all generations: one that is not of the agent's own is no addition, but out of its time."""
    return frozenset({"response"}).union(*(generation(name).written for name in GENERATIONS))
