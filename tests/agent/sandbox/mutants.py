"""Sandboxes with one argument less: each is found by the attempts, or known to change nothing that they see."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

_ARITY: Final[Mapping[str, int]] = {
    **dict.fromkeys(
        "--die-with-parent --unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try --unshare-net "
        "--disable-userns".split(),
        0,
    ),
    **dict.fromkeys(
        "--cap-drop --dev --proc --tmpfs --remount-ro --perms --chdir --seccomp --json-status-fd --dir".split(), 1
    ),
    **dict.fromkeys("--ro-bind --bind --ro-bind-try --bind-try --symlink".split(), 2),
}

KNOWN_EQUIVALENT: Final[Mapping[str, str]] = {
    "--json-status-fd": "without its report each command counts as not run (`test_sandbox_faults.py`)",
    "--perms": "`--remount-ro` refuses what the mode does, and an empty folder holds nothing to read",
    "--ro-bind /dev/null /etc": "the next file of the same kind is looked at first",
    **{
        f"{option} ~/project/{name}": "attempts on another repository find it"
        for option in ("--bind", "--ro-bind")
        for name in ("moved/.git", "replaced")
    },
}
"""Options whose absence no attempt sees, with the reason."""


def units(arguments: Sequence[str]) -> Iterator[tuple[str, range]]:
    """Yield each option of bubblewrap with its place in the list, up to the command.

    Raises:
        KeyError: It is not known how many values an option takes.
    """
    place = 1
    while arguments[place] != "--":
        size = 1 + _ARITY[arguments[place]]
        yield " ".join(arguments[place : place + size]), range(place, place + size)
        place += size


def without(arguments: Sequence[str], places: range) -> list[str]:
    """Return the list without an option."""
    return [each for place, each in enumerate(arguments) if place not in places]
