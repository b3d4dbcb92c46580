"""Files that are left when a process has ended, and that nobody needs."""

from pathlib import Path

from pinnace_fuzz.adapters import PreparedHome

_LONG_OUTPUT = "pi-bash-"
"""Long outputs of commands are kept for the user."""
_SESSION_FILES = (".jsonl", ".jsonl.lease", ".jsonl.damaged", ".filler")
"""A lease that a killed process has left means nothing; what was damaged is kept."""


def left_behind(home: PreparedHome, session: Path | None, *, has_killed: bool) -> list[str]:
    """Name what is left.

    Args:
        home: Where the process lived.
        session: The file that it was done with when it ended in order.
        has_killed: A tool may have been killed in the middle of a change, in this process or in one before.
    """
    left = [each for each in home.temp.rglob("*") if each.is_file() and not each.name.startswith(_LONG_OUTPUT)]
    left += [each for each in home.sessions.iterdir() if not each.name.endswith(_SESSION_FILES)]
    if not has_killed:
        left += [each for each in home.work.rglob(".*") if each.is_file()]
    if session is not None and (lease := session.with_name(f"{session.name}.lease")).exists():
        left.append(lease)
    return [f"left behind: {each.relative_to(home.root)}" for each in left]
