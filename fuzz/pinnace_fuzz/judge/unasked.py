"""Recognises records that an agent writes unasked: records of its own types, and displays beside its work.

A client passes over both, so a scenario does not count them, unless extensions are its subject. Pure. Must not know how
an expression is matched. Source: R-UI-03.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from pinnace_spec.profiles.generations import GENERATIONS, generation

# They wait for nothing, and a client may ignore them.
SHOWN: Final = frozenset({"notify", "setStatus", "setWidget", "setTitle", "set_editor_text"})


def is_unasked(record: Mapping[str, Any], *, has_extensions: bool) -> bool:
    """Return whether a record of the agent is outside of the protocol.

    Args:
        record: What it wrote.
        has_extensions: The scenario has extensions, which may show something.
    """
    kind = record.get("type")
    if kind in ("extension_ui_request", "hook_ui_request"):
        return not has_extensions and str(record.get("method")) in SHOWN
    return isinstance(kind, str) and kind.isidentifier() and kind not in _known()


@cache
def _known() -> frozenset[str]:
    """Return the records of all generations: one of another generation is not an addition."""
    return frozenset({"response"}).union(*(generation(name).written for name in GENERATIONS))
