"""Which entries of a tree are searched: ignore files as ripgrep and fd read them, and globs that go before these.

Of several rules of a file the last one that fits counts, of several files of a kind the nearest one. The program's own
kind (`.rgignore`, `.fdignore`) goes before `.ignore`, that before `.gitignore`, `.git/info/exclude` and the user's
global file. Git's kinds count inside of a repository only, unless they need none, and those above the nearest
repository say nothing. Reads files; must not know what is searched for.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from pinnace_agent.search.ignore_lines import Rule, Rules, parse_rule, verdict

_MAX_BYTES: Final = 1024 * 1024
"""Of an ignore file; what follows is left out."""

_GIT_FILE: Final = re.compile(r'(?im)^\s*excludesfile\s*=\s*"?\s*(\S+?)\s*"?\s*$')


class Level(NamedTuple):
    """What one folder says about the entries below it."""

    folder: str
    """Its absolute path."""
    own: Rules
    """Of the file that only this program reads."""
    ignore: Rules
    git: Rules
    exclude: Rules
    is_repository: bool


class Overrides:
    """Globs of the command line: they go before every ignore file, and the last one that fits counts."""

    def __init__(self, globs: Iterable[str]) -> None:
        """Read them: `!` before one leaves out, the others let in, and then nothing else is let in.

        Raises:
            BadGlob: One has no meaning.
        """
        self._rules = [rule for glob in globs if (rule := parse_rule(glob, is_strict=True)) is not None]
        self._has_wanted = any(not rule.is_exception for rule in self._rules)

    def verdict(self, path: str, *, is_folder: bool) -> bool | None:
        """Return whether an entry is let in; None: they say nothing about it."""
        is_left_out = verdict(self._rules, path, is_folder=is_folder)
        if is_left_out is not None:
            return is_left_out
        return False if self._has_wanted and not is_folder else None


class IgnoreFiles:
    """The rules of a search."""

    def __init__(self, own_name: str, env: Mapping[str, str], *, needs_repository: bool) -> None:
        """Read no folder yet.

        Args:
            own_name: The file that only this program reads, e.g. `.rgignore`.
            env: Knows where git's configuration is.
            needs_repository: Whether `.gitignore` says nothing outside of a repository.
        """
        self._own_name = own_name
        self._needs_repository = needs_repository
        self._global = _global_rules(env)

    def above(self, folder: str) -> tuple[Level, ...]:
        """Return the levels of the folders above one, from the nearest to the root."""
        levels: list[Level] = []
        while (parent := os.path.dirname(folder)) != folder:
            folder = parent
            levels.append(self.level(folder))
        return tuple(levels)

    def level(self, folder: str) -> Level:
        """Read what one folder says."""
        return Level(
            folder,
            _read(os.path.join(folder, self._own_name)),
            _read(os.path.join(folder, ".ignore")),
            _read(os.path.join(folder, ".gitignore")),
            _read(os.path.join(folder, ".git", "info", "exclude")),
            os.path.lexists(os.path.join(folder, ".git")),
        )

    def ignores(self, path: str, levels: Sequence[Level], root: str, *, is_folder: bool) -> bool:
        """Tell whether an entry is left out.

        Args:
            path: Its absolute path.
            levels: The folders above it, from the nearest on.
            root: The folder that is searched, which the user's global rules are relative to.
            is_folder: Whether it is a folder.
        """
        has_git = not self._needs_repository or any(level.is_repository for level in levels)
        found: list[bool | None] = [None, None, None, None]
        saw_repository = False
        for level in levels:
            below = path[len(level.folder.rstrip("/")) :]
            kinds = (level.own, level.ignore, level.git, level.exclude)
            for index, rules in enumerate(kinds):
                if found[index] is None and rules and (index < 2 or (has_git and not saw_repository)):
                    found[index] = verdict(rules, below, is_folder=is_folder)
            saw_repository = saw_repository or level.is_repository
        if has_git and self._global:
            found.append(verdict(self._global, path[len(root.rstrip("/")) :], is_folder=is_folder))
        return next((each for each in found if each is not None), False)


def _read(path: str) -> Rules:
    text = _text(path)
    return () if not text else tuple(_rules(text))


def _rules(text: str) -> Iterator[Rule]:
    for line in text.split("\n"):
        if (rule := parse_rule(line)) is not None:
            yield rule


def _text(path: str) -> str:
    """Return what is in a file; nothing if it is no regular one, or can't be read."""
    try:
        if not os.path.isfile(path):
            return ""
        with open(path, "rb") as file:
            return file.read(_MAX_BYTES).removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    except OSError:
        return ""


def _global_rules(env: Mapping[str, str]) -> Rules:
    """Return the rules of the user's global file: the one that git's configuration names, else the usual one."""
    home = env.get("HOME", "")
    configuration = env.get("XDG_CONFIG_HOME") or (os.path.join(home, ".config") if home else "")
    places = [os.path.join(home, ".gitconfig")] if home else []
    places += [os.path.join(configuration, "git", "config")] if configuration else []
    for place in places:
        if (named := _GIT_FILE.search(_text(place))) is not None:
            path = named[1]
            return _read(os.path.join(home, path[2:]) if path.startswith("~/") else path)
    return _read(os.path.join(configuration, "git", "ignore")) if configuration else ()
