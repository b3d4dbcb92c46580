"""The resources in the folder of a package: those of the `pi` field of its package.json, or of its usual folders.

The usual folders are `extensions`, `skills`, `prompts` and `themes`; they count if the field lists no resources. A
filter of settings narrows what the package declares. The results are pi's, in its order. Reads names and package.json,
runs nothing.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, Literal, NamedTuple

from pinnace_agent.core.json_values import is_list
from pinnace_agent.files.relaxed_json import ConfigurationFileError, JsonObject, is_object
from pinnace_agent.packages import filters
from pinnace_agent.packages.manifest import read_manifest
from pinnace_agent.search.glob_match import BadGlob, Glob
from pinnace_agent.search.resource_files import (
    ENTRY_NAMES,
    FOUND_SCRIPTS,
    INDEX_NAMES,
    MAX_NAMES,
    IgnoreRules,
    TooManyNames,
    skill_files,
    template_files,
)

Kind = Literal["extensions", "skills", "prompts", "themes"]
KINDS: Final[tuple[Kind, ...]] = ("extensions", "skills", "prompts", "themes")
_MEMBERS: Final = frozenset({"source", "autoload", *KINDS})
# An unknown member that is not as similar to a known one is most probably that of a later release of pi.
_RESEMBLING: Final = 0.75
Report = Callable[[str], None]
"""Takes a problem, as a sentence without its subject, that costs one element alone."""


class Choice(NamedTuple):
    """The filter of one package in settings."""

    patterns: Mapping[Kind, Sequence[str]]
    """By kind; a kind that is missing is as the package declares it."""
    is_delta: bool = False
    """Whether only what it mentions counts (`autoload` is false)."""


def read_choice(entry: JsonObject, report: Report) -> Choice:
    """Read the filter of an object in settings; a list of a wrong type is reported, and loads nothing of its kind."""
    patterns: dict[Kind, Sequence[str]] = {}
    for kind in KINDS:
        value = entry.get(kind)
        if value is None:
            continue
        if not is_list(value):
            report(f"{kind} must be a list of patterns, so none of them is loaded")
            patterns[kind] = ()
            continue
        patterns[kind] = [each for each in value if isinstance(each, str)]
        if len(patterns[kind]) < len(value):
            report(f"{kind} must be a list of strings; the others are left out")
            # With nothing left, an empty list says the same as pi's: none of this kind.
    return Choice(patterns, entry.get("autoload") is False)


def unclear_filter(entry: JsonObject) -> str | None:
    """Return why it is not clear what an object in settings lets a package load; None: it is.

    A member that was misspelt would leave nothing out, and load code that was not to be loaded.
    """
    if not isinstance(entry.get("autoload"), bool | None):
        return "autoload must be true or false"
    for name in sorted(entry.keys() - _MEMBERS):
        from pinnace_spec.nearest import did_you_mean  # with the first unknown member

        if hint := did_you_mean(name, sorted(_MEMBERS), _RESEMBLING):
            return f"{name} is not known{hint}"
    return None


class PackageFolder:
    """The folder of one package."""

    def __init__(self, root: str, report: Report) -> None:
        """Read its package.json."""
        self._root = root
        self._report = report
        self._lists = self._manifest()

    def resources(self, choice: Choice | None) -> dict[Kind, dict[str, bool]] | None:
        """Return the files of each kind and whether each is loaded, in their order; None: it declares nothing."""
        if choice is not None:
            return {kind: self._filtered(kind, choice) for kind in KINDS}
        if self._lists:
            return {kind: self._declared(kind) for kind in KINDS}
        if not any(os.path.exists(os.path.join(self._root, kind)) for kind in KINDS):
            return None
        return {kind: dict.fromkeys(self._usual(kind), True) for kind in KINDS}

    def declared_extensions(self) -> list[str]:
        """Return the paths of `pi.extensions` that exist, as they are written: of an extension in a folder."""
        paths = [os.path.normpath(os.path.join(self._root, each)) for each in self._lists.get("extensions", ())]
        return [path for path in paths if os.path.exists(path)]

    def _filtered(self, kind: Kind, choice: Choice) -> dict[str, bool]:
        patterns = choice.patterns.get(kind)
        if patterns is None:
            if choice.is_delta:
                return {}
            return self._declared(kind) if kind in self._lists else dict.fromkeys(self._usual(kind), True)
        files = self._kept(kind) if self._lists.get(kind) else self._usual(kind)
        if choice.is_delta:
            return dict(filters.changed(files, patterns, self._root, self._bad_glob))
        kept = set(filters.chosen(files, patterns, self._root, self._bad_glob)) if patterns else frozenset[str]()
        return {file: file in kept for file in files}

    def _declared(self, kind: Kind) -> dict[str, bool]:
        """Return the files that the manifest lists and does not leave out, in the order of the list."""
        kept = set(self._kept(kind))
        return {file: True for file in self._listed(kind) if file in kept}

    def _kept(self, kind: Kind) -> list[str]:
        """Return the same, with what `+` takes back in at the end."""
        signed = [entry for entry in self._lists.get(kind, ()) if filters.is_signed(entry)]
        return filters.chosen(self._listed(kind), signed, self._root, self._bad_glob)

    def _listed(self, kind: Kind) -> list[str]:
        """Return the files that the manifest lists."""
        entries = self._lists.get(kind, ())
        paths: list[str] = []
        for entry in entries:
            if filters.is_signed(entry):
                continue
            if filters.is_wild(entry):
                paths += self._expanded(entry)
            else:
                paths.append(os.path.normpath(os.path.join(self._root, entry)))
        files: dict[str, None] = {}
        for path in paths:
            if os.path.isfile(path):
                files[path] = None
            elif os.path.isdir(path):
                files.update(dict.fromkeys(self._in(path, kind)))
        return list(files)

    def _usual(self, kind: Kind) -> list[str]:
        folder = os.path.join(self._root, kind)
        return self._in(folder, kind) if os.path.isdir(folder) else []

    def _in(self, folder: str, kind: Kind) -> list[str]:
        """Return the files of a kind in a folder."""
        try:
            match kind:
                case "extensions":
                    return list(dict.fromkeys(_extensions(folder)))
                case "skills":
                    return [each.path for each in skill_files(folder, takes_files=True)]
                case "prompts":
                    return [each.path for each in template_files(folder, is_recursive=True)]
                case "themes":
                    return [each.path for each in template_files(folder, is_recursive=True, suffix=".json")]
        except TooManyNames:
            self._report(f"{folder} holds more than {MAX_NAMES} files, so nothing in it is loaded")
            return []
        except OSError as error:
            self._report(f"{error.filename or folder} can't be read: {error.strerror or error}")
            return []

    def _expanded(self, entry: str) -> list[str]:
        """Return what a glob of the manifest matches: no names that begin with a dot, in the order of their paths."""
        parts = entry.removeprefix("./").split("/")
        literal = next(place for place, part in enumerate(parts) if filters.is_wild(part) or "{" in part or "[" in part)
        base = os.path.normpath(os.path.join(self._root, *parts[:literal]))
        try:
            glob = Glob(f"/{'/'.join(parts[literal:])}", is_case_exact=True)
        except BadGlob:
            self._bad_glob(entry)
            return []
        depth = None if "**" in parts[literal:] else len(parts) - literal
        found = list(islice(_below(base, depth), MAX_NAMES + 1))
        if len(found) > MAX_NAMES:
            self._report(f"{base} holds more than {MAX_NAMES} files, so {entry} of its package.json is left out")
            return []
        return sorted(path for path in found if glob.matches(f"/{os.path.relpath(path, base)}"))

    def _manifest(self) -> dict[Kind, Sequence[str]]:
        """Return the lists of the `pi` field that are lists of paths, as pi takes them."""
        path = os.path.join(self._root, "package.json")
        if not os.path.isfile(path):
            return {}
        try:
            content = read_manifest(self._root)
        except ConfigurationFileError as error:
            self._report(f"{path} can't be read ({error}), so only its usual folders count")
            return {}
        pi = content.get("pi")
        if not is_object(pi):
            return {}
        lists: dict[Kind, Sequence[str]] = {}
        for kind in KINDS:
            value = pi.get(kind)
            if is_list(value) and all(isinstance(each, str) for each in value):
                lists[kind] = [str(each) for each in value]
            elif value is not None:
                self._report(f"{path}: pi.{kind} must be a list of paths, so it is left out")
        return lists

    def _bad_glob(self, pattern: str) -> None:
        effect = "so everything of its kind is left out" if pattern.startswith("!") else "and left out"
        self._report(f"the pattern {pattern} is damaged, {effect}")


def _below(base: str, depth: int | None) -> Iterator[str]:
    """Yield what is below a folder, folders included, without names that begin with a dot; links are not followed."""
    for place, folders, names in os.walk(base):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for name in (*folders, *names):
            if not name.startswith("."):
                yield os.path.join(place, name)
        if depth is not None and os.path.relpath(place, base).count("/") + (place != base) + 1 >= depth:
            folders.clear()


def _extensions(folder: str) -> list[str]:
    """Return the extensions of a folder: its own entry, or the files and folders in it.

    A file in Python is one where there is none in TypeScript or JavaScript: otherwise it is a part of one.
    """
    if own := extension_entries(folder):
        return own
    scripts: list[str] = []
    python: list[str] = []
    names = sorted(os.listdir(folder))
    rules = IgnoreRules().entered(folder, frozenset(names))
    for name in names:
        path = os.path.join(folder, name)
        if name.startswith(".") or name == "node_modules":
            continue
        is_folder = os.path.isdir(path)
        if rules.ignores(path, is_folder=is_folder):
            continue
        if is_folder:
            scripts += extension_entries(path)
        elif os.path.isfile(path) and not name.endswith(".d.ts"):
            if name.endswith(FOUND_SCRIPTS):
                scripts.append(path)
            elif name.endswith(".py") and not name.startswith("_"):
                python.append(path)
    return scripts or python


def extension_entries(folder: str) -> list[str]:
    """Return the entries of an extension's folder: its file in Python, those of its package.json, or its index."""
    named = [os.path.join(folder, name) for name in ENTRY_NAMES]
    listed = PackageFolder(folder, lambda _problem: None).declared_extensions()
    indexes = [os.path.join(folder, name) for name in INDEX_NAMES]
    return (
        [path for path in named if os.path.isfile(path)][:1]
        or listed
        or [path for path in indexes if os.path.isfile(path)][:1]
    )
