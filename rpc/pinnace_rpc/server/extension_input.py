"""What the user does with what extensions show: input of their surfaces, and keys. Loaded for clients that draw."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pinnace_agent.core.ports.extensions import SurfaceInput
from pinnace_spec.records.messages import OWN_EDITOR

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.engine.ports import AgentReads
    from pinnace_spec.records.commands import UiSurfaceInput


def take_surface_input(given: "UiSurfaceInput", agent: "AgentReads") -> None:
    """Pass on what the user does with a surface of an extension, or in the client's own editor."""
    if given.surface == OWN_EDITOR:
        if given.text is not None:
            agent.take_editor_text(given.text)
        return
    if agent.extensions is None:
        return
    if given.item is not None:
        agent.extensions.draw_item(given.surface, given.columns or 0, given.item)
        return
    size = None if given.columns is None or given.rows is None else (given.columns, given.rows)
    by, number = given.by or "", given.number or 0
    agent.extensions.take_surface_input(
        SurfaceInput(given.surface, size, given.data, given.key, given.text, by, number, given.closed)
    )


def run_shortcut(key: str, agent: "AgentReads") -> Mapping[str, object]:
    """Start what an extension does at a key."""
    instance = None if agent.extensions is None else agent.extensions.instance
    return {"started": instance is not None and instance.run_shortcut(key)}
