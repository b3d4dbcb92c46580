"""What `--version` prints. A checkout has the release of its last installation, so its commit is added."""

from pathlib import Path
from typing import Final

from pinnace_rpc.options.release import program_version

_SHOWN_DIGITS: Final = 12
_MOST_BYTES: Final = 4 * 1024 * 1024


def shown_version() -> str:
    """Return what `--version` prints: the version, in a checkout with its commit, as in `0.1.0+g8c7597a4c1d2`."""
    commit = checkout_commit(Path(__file__).parents[4])
    return program_version() if commit is None else f"{program_version()}+g{commit[:_SHOWN_DIGITS]}"


def checkout_commit(folder: Path) -> str | None:
    """Return the commit that is checked out in a folder; None: it is no checkout with one. Starts no program."""
    try:
        own = folder / ".git"
        if own.is_file():  # of a worktree
            own = folder / _text(own).removeprefix("gitdir:").strip()
        head = _text(own / "HEAD")
        if not head.startswith("ref:"):
            return _commit(head)
        ref, common = head.removeprefix("ref:").strip(), own
        if (own / "commondir").is_file():
            common = own / _text(own / "commondir")
        if (loose := common / ref).is_file():
            return _commit(_text(loose))
        lines = (line.split() for line in _text(common / "packed-refs").splitlines())
        return next((_commit(words[0]) for words in lines if words[1:] == [ref]), None)
    except (OSError, ValueError):
        return None


def _text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_MOST_BYTES).decode("utf-8").strip()


def _commit(text: str) -> str | None:
    return text if len(text) in (40, 64) and all(letter in "0123456789abcdef" for letter in text) else None
