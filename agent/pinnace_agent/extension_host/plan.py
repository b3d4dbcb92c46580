"""What the command line, the settings and the mode say about extensions; and why a process can't start with them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pinnace_agent.config.models.selection import Selection
from pinnace_agent.config.settings import ResourceSettings
from pinnace_agent.extensions.loading.loading import Inline
from pinnace_agent.extensions.ports.host_view import Mode
from pinnace_agent.extensions.registration.flags import GivenFlag

__all__ = ["ExtensionPlan", "ExtensionStartError", "GivenFlag"]


class ExtensionPlan(NamedTuple):
    """What the command line, the settings and the mode say about extensions."""

    env: Mapping[str, str]
    mode: Mode
    settings: Callable[[Path], Sequence[ResourceSettings]]
    """What settings name for sessions in a folder: the project's, if it is trusted, before the user's."""
    raw_settings: Callable[[], dict[str, object]]
    trusts: Callable[[Path], bool]
    """Whether a project is trusted, as far as the user has decided."""
    decide: Callable[[Path, bool, bool], None]
    """Takes what an extension has decided about a project: the folder, yes or no, and whether to remember it."""
    select: Callable[[], Selection]
    """Selects the model of the start; asked once, when the extensions of the start are bound."""
    named: Sequence[str] = ()
    """What the command line names, as `resolve_named` returns it: it means the same in every session."""
    is_discovering: bool = True
    approved: bool | None = None
    """What the command line says about trust."""
    given: Sequence[GivenFlag] = ()
    keeps_going: bool = False
    inline: Sequence[Inline] = ()


class ExtensionStartError(Exception):
    """The process can't start with these extensions; the texts are for the user."""

    def __init__(self, texts: Sequence[str], *, is_usage: bool = False, is_model: bool = False) -> None:
        """Keep what is wrong; `is_usage`: with the command line or the settings; `is_model`: with the model's name."""
        super().__init__("\n".join(texts))
        self.texts = texts
        self.is_usage = is_usage
        self.is_model = is_model
