"""Which entries of a tree are searched: ignore files as ripgrep and fd read them, and globs that override them.

A line is a glob: `#` begins a comment, `!` makes an exception, a slash at the end matches folders only, a slash
elsewhere ties the glob to the folder of its file. Of several rules of a file the last match counts, of several files of
one kind the nearest one. The program's own kind (`.rgignore`, `.fdignore`) overrides `.ignore`, which overrides
`.gitignore`, `.git/info/exclude` and the user's global file. Git's kinds count inside a repository only, unless
`needs_repository` is off, and those above the nearest repository do not count.

Not built on the package `pathspec`: its patterns are git's, and the results of ripgrep and fd differ. They read `{a,b}`
as alternatives and a pattern that does not compile as no rule, an override glob reports an error, and bytes that are no
UTF-8 match themselves. It would also be the only package that the program imports.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from pinnace_agent.search.glob_match import BadGlob, Glob


class IgnoreRule(NamedTuple):
    """One line of an ignore file."""

    glob: Glob
    is_for_folders: bool
    is_exception: bool


Rules = Sequence[IgnoreRule]


def parse_rule(line: str, *, is_strict: bool = False, has_braces: bool = True) -> IgnoreRule | None:
    """Parse a line of an ignore file; return None for a line without a rule.

    Args:
        line: Without its line end.
        is_strict: Whether an invalid glob is an error; otherwise its line has no rule.
        has_braces: Whether braces hold alternatives, as in ripgrep and fd; for git they are ordinary characters.

    Raises:
        BadGlob: The glob is invalid, and `is_strict`.
    """
    if line.startswith("#"):
        return None
    if not line.endswith("\\ "):
        line = line.rstrip()
    is_exception = line.startswith("!")
    pattern = line[1:] if is_exception else line
    is_anchored = pattern.startswith("/")
    is_for_folders = pattern.endswith("/")
    pattern = pattern.removesuffix("/").removeprefix("/")
    if not pattern:
        return None
    if not has_braces:
        pattern = pattern.replace("{", r"\{").replace("}", r"\}").replace(",", r"\,")
    if is_anchored or "/" in pattern:
        pattern = f"/{pattern}"
    try:
        return IgnoreRule(Glob(pattern, is_case_exact=True), is_for_folders, is_exception)
    except BadGlob:
        if is_strict:
            raise
        return None


def last_match(rules: Rules, path: str, *, is_folder: bool) -> bool | None:
    """Return whether the last rule that matches a path leaves it out; None if no rule matches."""
    for rule in reversed(rules):
        if (is_folder or not rule.is_for_folders) and rule.glob.matches(path):
            return not rule.is_exception
    return None


_MAX_BYTES: Final = 1024 * 1024
"""The length of an ignore file that is read; the rest is not."""

_GIT_FILE: Final = r'(?im)^\s*excludesfile\s*=\s*"?\s*(\S+?)\s*"?\s*$'


class FolderRules(NamedTuple):
    """The rules of one folder for the entries below it."""

    folder: str
    """Its absolute path."""
    own: Rules
    """Of the file that only the imitated program reads, e.g. `.rgignore`."""
    ignore: Rules
    git: Rules
    exclude: Rules
    is_repository: bool


class Overrides:
    """Globs of the command line: they take precedence over every ignore file, and the last match counts."""

    def __init__(self, globs: Iterable[str]) -> None:
        """Parse them: a glob with `!` leaves out; if there are others, only what they match is searched.

        Raises:
            BadGlob: One is invalid.
        """
        self._rules = [rule for glob in globs if (rule := parse_rule(glob, is_strict=True)) is not None]
        self._has_wanted = any(not rule.is_exception for rule in self._rules)

    def decision(self, path: str, *, is_folder: bool) -> bool | None:
        """Return whether an entry is searched; None if no glob decides that."""
        is_left_out = last_match(self._rules, path, is_folder=is_folder)
        if is_left_out is not None:
            return is_left_out
        return False if self._has_wanted and not is_folder else None


class IgnoreFiles:
    """The rules of a search."""

    def __init__(self, own_name: str, env: Mapping[str, str], *, needs_repository: bool, is_off: bool = False) -> None:
        """Read no folder yet.

        Args:
            own_name: The file that only the imitated program reads, e.g. `.rgignore`.
            env: The environment, which locates git's configuration.
            needs_repository: Whether `.gitignore` has no effect outside of a repository.
            is_off: Whether nothing is ignored.
        """
        self._own_name = own_name
        self._needs_repository = needs_repository
        self._is_off = is_off
        self._global = _global_rules(env)

    def above(self, folder: str) -> tuple[FolderRules, ...]:
        """Return the levels of the folders above one, from the nearest to the root."""
        levels: list[FolderRules] = []
        while (parent := os.path.dirname(folder)) != folder:
            folder = parent
            levels.append(self.level(folder))
        return tuple(levels)

    def level(self, folder: str) -> FolderRules:
        """Read the rules of one folder."""
        return FolderRules(
            folder,
            _read(os.path.join(folder, self._own_name)),
            _read(os.path.join(folder, ".ignore")),
            _read(os.path.join(folder, ".gitignore")),
            _read(os.path.join(folder, ".git", "info", "exclude")),
            os.path.lexists(os.path.join(folder, ".git")),
        )

    def ignores(self, path: str, levels: Sequence[FolderRules], root: str, *, is_folder: bool) -> bool:
        """Return whether an entry is ignored.

        Args:
            path: Its absolute path.
            levels: The folders above it, from the nearest on.
            root: The folder that is searched, which the user's global rules are relative to.
            is_folder: Whether it is a folder.
        """
        if self._is_off:
            return False
        has_git = not self._needs_repository or any(level.is_repository for level in levels)
        found: list[bool | None] = [None, None, None, None]
        saw_repository = False
        for level in levels:
            below = path[len(level.folder.rstrip("/")) :]
            kinds = (level.own, level.ignore, level.git, level.exclude)
            for index, rules in enumerate(kinds):
                if found[index] is None and rules and (index < 2 or (has_git and not saw_repository)):
                    found[index] = last_match(rules, below, is_folder=is_folder)
            saw_repository = saw_repository or level.is_repository
        if has_git and self._global:
            found.append(last_match(self._global, path[len(root.rstrip("/")) :], is_folder=is_folder))
        return next((each for each in found if each is not None), False)


def _read(path: str) -> Rules:
    text = _text(path)
    return () if not text else tuple(_rules(text))


def _rules(text: str) -> Iterator[IgnoreRule]:
    for line in text.split("\n"):
        if (rule := parse_rule(line)) is not None:
            yield rule


def _text(path: str) -> str:
    """Return the content of a regular file; empty for any other, and if it can't be read."""
    try:
        if not os.path.isfile(path):
            return ""
        with open(path, "rb") as file:
            return file.read(_MAX_BYTES).removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    except OSError:
        return ""


def _global_rules(env: Mapping[str, str]) -> Rules:
    """Return the rules of the user's global file: the one in git's configuration, else the default one."""
    home = env.get("HOME", "")
    configuration = env.get("XDG_CONFIG_HOME") or (os.path.join(home, ".config") if home else "")
    places = [os.path.join(home, ".gitconfig")] if home else []
    places += [os.path.join(configuration, "git", "config")] if configuration else []
    for place in places:
        if (named := re.search(_GIT_FILE, _text(place))) is not None:
            path = named[1]
            return _read(os.path.join(home, path[2:]) if path.startswith("~/") else path)
    return _read(os.path.join(configuration, "git", "ignore")) if configuration else ()
