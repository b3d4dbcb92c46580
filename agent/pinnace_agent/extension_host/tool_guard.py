"""Keeps every tool from running unless all extensions that may guard tools are there.

Which extension is a gate is known only when it runs, so each one counts: one that was loaded for an earlier session of
this process has to be there again, and one that fails to load is missing. Closed from the start, and whenever a session
instance ends; opened when the next one has begun. So whatever fails in between, no call is carried out without all
gates. Rule R-EXT-12.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pinnace_agent.extensions.loading.folders import LoadFailure
from pinnace_agent.extensions.loading.loading import LoadedExtension
from pinnace_agent.tools.registry import ToolRegistry

NOT_LOADED: Final = "the extensions of this session, which may guard tools, are not loaded"
_FAILED: Final = (
    "the extensions of this session, which may guard tools, could not be loaded: {}. Begin another session, or start "
    "the agent again"
)
_MISSING: Final = (
    "extensions that may guard tools are missing: {}. Put that right and reload the extensions or begin another "
    "session; or start the agent again without them"
)
_NOT_FOUND: Final = "was loaded before, and is not found any more"


class ToolGuard:
    """Decides whether the tools of one process may run."""

    def __init__(self, toolbox: ToolRegistry) -> None:
        """Let no tool run yet."""
        self._toolbox = toolbox
        self._known: dict[str, str | None] = {}
        """Extensions that were loaded: the project's folder, or None for those of every folder."""
        self.close()

    def close(self, reason: str = NOT_LOADED) -> None:
        """Let no tool run until `open` is called."""
        self._toolbox.refusal = reason

    def failed(self, problem: str) -> str:
        """Let no tool run, since the extensions could not be loaded; return the reason."""
        self.close(_FAILED.format(problem))
        return _FAILED.format(problem)

    def open(self, missing: Mapping[str, str]) -> str | None:
        """Let tools run if no extension is missing; else return the reason why none may.

        Args:
            missing: What `missing` has returned.
        """
        listed = "; ".join(f"{path}: {problem}" for path, problem in missing.items())
        self._toolbox.refusal = _MISSING.format(listed) if missing else None
        return self._toolbox.refusal

    def missing(
        self,
        cwd: str,
        loaded: Sequence[LoadedExtension],
        kept: Sequence[LoadedExtension],
        failures: Iterable[LoadFailure],
        *,
        keeps_going: bool,
    ) -> dict[str, str]:
        """Return which extensions are not there although they have to be, and why; remember those that are.

        Args:
            cwd: The folder of the session: extensions of another project are not missed in it.
            loaded: All that were loaded.
            kept: Those of them that did not give way to others.
            failures: What could not be loaded.
            keeps_going: Whether those that were never loaded may be missing.
        """
        # A replaceable one has given way to one that does the same.
        there = {each.extension.path for each in kept}
        there |= {each.extension.path for each in loaded if each.extension.is_replaceable}
        wanted = {path for path, folder in self._known.items() if folder in (None, cwd)}
        problems = {each.path: each.error for each in failures}
        missing = {path: problem for path, problem in problems.items() if not keeps_going or path in wanted}
        missing |= {path: problems.get(path, _NOT_FOUND) for path in sorted(wanted - there)}
        for each in kept:
            is_of_project = each.extension.source["scope"] == "project"
            self._known[each.extension.path] = cwd if is_of_project else None
        return missing
