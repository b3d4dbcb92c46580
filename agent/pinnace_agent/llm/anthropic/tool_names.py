"""Maps the names of tools to names on the wire, and back.

Pure. Decides two things: names that the API would refuse are spelt with characters that it takes, and for a login of
Claude Code the tools that it has too are written as it writes them. A call that comes back always gets the agent's own
name of the tool. Independent of what a tool does.
"""

import re
from collections.abc import Iterable
from typing import Final

MAX_NAME_CHARS: Final = 128
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
_NO_NAME: Final = "unnamed"

# As Claude Code writes the names of its own tools; case apart, ours among them have the same.
_CANONICAL: Final = (
    "AskUserQuestion Bash BashOutput Edit EnterPlanMode ExitPlanMode Glob Grep KillShell NotebookEdit Read Skill Task "
    "TaskOutput TodoWrite WebFetch WebSearch Write"
).split()
_RECASED: Final = {name.lower(): name for name in _CANONICAL}


class ToolNames:
    """The names of one request's tools, in both directions."""

    def __init__(self, names: Iterable[str] = (), *, is_login: bool = False, max_chars: int = MAX_NAME_CHARS) -> None:
        """Take the names of all tools that are sent.

        Args:
            names: As they are here, each once.
            is_login: The request goes out under a login of Claude Code.
            max_chars: The longest name that the API accepts.
        """
        self._max_chars = max_chars
        self._is_login = is_login
        self._sent: dict[str, str] = {}
        self._own: dict[str, str] = {}
        for name in names:
            # Two names may become one: then the later one gets a number.
            wire, number = self._spelt(name), 1
            while wire in self._own:
                number += 1
                wire = f"{self._plain(name)[: max_chars - 8]}_{number}"
            self._sent[name] = wire
            self._own[wire] = name
        self._any_case = {wire.lower(): name for wire, name in self._own.items()}

    def sent(self, name: str) -> str:
        """Return a tool's name on the wire; tools of the history need not be among the request's."""
        return self._sent.get(name) or self._spelt(name)

    def own(self, name: str) -> str:
        """Return the agent's name of a called tool; unchanged if no such tool was sent."""
        known = self._own.get(name)
        if known is None and self._is_login:
            known = self._any_case.get(name.lower())
        return name if known is None else known

    def _spelt(self, name: str) -> str:
        plain = self._plain(name)
        return _RECASED.get(plain.lower(), plain) if self._is_login else plain

    def _plain(self, name: str) -> str:
        return _NOT_IN_NAMES.sub("_", name)[: self._max_chars] or _NO_NAME
