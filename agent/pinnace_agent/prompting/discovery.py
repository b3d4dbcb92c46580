"""Finds prompt templates, skills and themes, in the order of their precedence.

Packages of the command line, the project's settings, the project's folders, the user's settings, the user's folders,
packages of settings, the command line; of two with the same name the first one counts. Problems in a file are reported
and never fatal. The caller decides which of these places are searched. Reads files, writes none.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from pinnace_agent.config.path_entries import PathEntries
from pinnace_agent.files.paths import expand_home
from pinnace_agent.files.regular_file import is_regular
from pinnace_agent.prompting.origin import Origin, Resource, Scope
from pinnace_agent.prompting.skills import Skill, read_skill
from pinnace_agent.prompting.templates import PromptTemplate, ResourceProblem, read_template
from pinnace_agent.search.resource_files import Enters, FoundFile, TooManyNames, skill_files, template_files
from pinnace_spec.printable import printable

if TYPE_CHECKING:  # loaded where a project brings something
    from pinnace_agent.files.opener import Reach
    from pinnace_agent.files.project_reach import ProjectReach

FilesOf = Callable[[str, Enters], Iterator[FoundFile]]
"""Finds the files of a folder."""
_Named = TypeVar("_Named", PromptTemplate, Skill)
_THEME: Final = ".json"
_KINDS: Final[Mapping[type, str]] = {PromptTemplate: "prompt template", Skill: "skill"}


def _anywhere(_path: str) -> None:
    """Set no bound: the path is the user's."""


class Root(NamedTuple):
    """A usual folder of resources."""

    path: str
    takes_files: bool = True
    """Whether Markdown files in it may be skills."""
    reach: "Reach | None" = None
    """Where links in it may lead; None: anywhere, since it is the user's."""

    @property
    def base_dir(self) -> str:
        """The base folder of its resources, for clients."""
        return os.path.dirname(self.path)


class ScopeSources(NamedTuple):
    """The places of one kind of resource in one scope."""

    scope: Scope
    entries: Sequence[str] = ()
    """Entries of its settings."""
    folder: str = ""
    """The folder that they are relative to."""
    roots: Sequence[Root] = ()
    reach_of: "Callable[[str], Reach | None]" = _anywhere
    """Returns where links of a path in the settings may lead."""


class Packages(NamedTuple):
    """The files of one kind in packages."""

    named: Sequence[Resource] = ()
    """Of the command line."""
    configured: Sequence[Resource] = ()
    """Of settings."""


@dataclass(slots=True)
class DiscoveredResources:
    """The resources found, and notices about them."""

    templates: list[PromptTemplate] = field(default_factory=list[PromptTemplate])
    skills: list[Skill] = field(default_factory=list[Skill])
    notices: list[str] = field(default_factory=list[str])


class ResourceDiscovery:
    """One search."""

    def __init__(self, env: Mapping[str, str], cwd: str) -> None:
        """Prepare a search; paths of the command line are relative to `cwd`."""
        self.found = DiscoveredResources()
        self._env = env
        self._cwd = cwd

    def templates(self, sources: Sequence[ScopeSources], named: Sequence[str], packages: Packages) -> None:
        """Find and read prompt templates; `named` are paths of the command line."""
        resources = [
            *packages.named,
            *self._in_scopes(sources, _all_templates, _templates_in),
            *packages.configured,
            *self._of_command_line(named, _templates_of),
        ]
        self._keep(self.found.templates, resources, read_template)

    def skills(self, sources: Sequence[ScopeSources], named: Sequence[str], packages: Packages) -> None:
        """Find and read skills; `named` are paths of the command line."""
        resources = [
            *packages.named,
            *self._in_scopes(sources, _all_skills, _skills_in),
            *packages.configured,
            *self._of_command_line(named, _all_skills),
        ]
        self._keep(self.found.skills, resources, self._skill)

    def themes(self, sources: Sequence[ScopeSources], packaged: Sequence[Resource]) -> list[str]:
        """Return the files of themes, each once; those of packages come last. Reads none: a client does."""
        found: dict[str, str] = {}
        for resource in (*self._in_scopes(sources, _all_themes, _themes_in, _THEME), *packaged):
            if (identity := os.path.realpath(resource.path)) not in found and self._may_read(resource):
                found[identity] = resource.path
        return list(found.values())

    def _may_read(self, resource: Resource) -> bool:
        """Return whether a file is where the files of its place may lead; it reports a refusal."""
        if resource.reach is None:
            return True
        from pinnace_agent.files.opener import FileRefused, resolve

        try:
            resolve(resource.path, resource.reach)
        except FileRefused as error:
            self._report(resource.path, f"{error.text}, so it is not used")
            return False
        return True

    def _in_scopes(
        self,
        sources: Sequence[ScopeSources],
        named_files: FilesOf,
        usual_files: Callable[[Root, Enters], Iterator[FoundFile]],
        suffix: str = ".md",
    ) -> Iterator[Resource]:
        for source in sources:
            patterns = PathEntries(source.entries, source.folder, self._env)
            for problem in patterns.problems:
                self._report(os.path.join(source.folder, "settings.json"), problem)
            origin = Origin(source.scope, "local")
            for path in patterns.paths:
                reach = source.reach_of(path)
                for found in self._files(path, named_files, reach, suffix):
                    if patterns.keeps_named(found.path):
                        yield Resource(found.path, origin, found.is_declared, reach)
            for root in source.roots:
                origin = Origin(source.scope, "auto", root.base_dir)
                for found in self._until_too_many(root.path, usual_files(root, self._enters(root.reach))):
                    if patterns.keeps_found(found.path):
                        yield Resource(found.path, origin, found.is_declared, root.reach)

    def _of_command_line(self, words: Sequence[str], files: FilesOf) -> Iterator[Resource]:
        for word in words:
            path = os.path.normpath(os.path.join(self._cwd, expand_home(word, self._env)))
            if not os.path.exists(path):
                self._report(path, "does not exist")
            elif not os.path.isdir(path) and not path.endswith(".md"):
                self._report(path, "is not a Markdown file")
            else:
                for found in self._files(path, files):
                    origin = Origin("temporary", "local", os.path.dirname(found.path))
                    yield Resource(found.path, origin, found.is_declared)

    def _files(
        self, path: str, files: FilesOf, reach: "Reach | None" = None, suffix: str = ".md"
    ) -> Iterator[FoundFile]:
        """Yield the named file, or the files in the named folder."""
        if path.endswith(suffix) and is_regular(path):
            yield FoundFile(path)
        elif os.path.isdir(path):
            yield from self._until_too_many(path, files(path, self._enters(reach)))
        elif suffix == _THEME:
            self._report(path, "is no .json file, so it is not used" if os.path.exists(path) else "does not exist")

    def _enters(self, reach: "Reach | None") -> Enters:
        """Return the predicate for entering a folder; it reports refusals."""
        if reach is None:
            return lambda _folder: True
        from pinnace_agent.files.opener import FileRefused, resolve

        def may_enter(folder: str) -> bool:
            try:
                resolve(folder, reach)
            except FileRefused as error:
                self._report(folder, f"{error.text}, so what is in it is not used")
                return False
            return True

        return may_enter

    def _until_too_many(self, path: str, files: Iterator[FoundFile]) -> Iterator[FoundFile]:
        try:
            yield from files
        except TooManyNames:
            self._report(path, "contains too many files, so not all of them were read")

    def _keep(
        self, kept: list[_Named], resources: Sequence[Resource], read: Callable[[Resource], _Named | None]
    ) -> None:
        """Read resources: each file once, and of equal names the first."""
        known: set[tuple[str, str]] = set()
        names: dict[str, _Named] = {}
        for resource in resources:
            # A template is named by its path, so a link has another name.
            name = "" if kept is self.found.skills else os.path.basename(resource.path)
            identity = os.path.realpath(resource.path), name
            if identity in known:
                continue
            known.add(identity)
            try:
                item = read(resource)
            except ResourceProblem as error:
                self._report(resource.path, f"{error.text}, so it is not used")
                continue
            if item is None:
                continue
            if (first := names.get(item.name)) is not None:
                self._report(item.path, f"is not used: the {_KINDS[type(item)]} {item.name} is {first.path}")
                continue
            names[item.name] = item
            kept.append(item)

    def _skill(self, resource: Resource) -> Skill | None:
        read = read_skill(resource)
        if read is None:
            return None
        for warning in read.warnings:
            self._report(resource.path, warning)
        return read.skill

    def _report(self, path: str, text: str) -> None:
        self.found.notices.append(printable(f"{path}: {text}"))


def project_skill_roots(cwd: Path, home: str, reach: "ProjectReach") -> list[Root]:
    """Return `.agents/skills` of a folder and of those above it, up to its repository's root; not the user's own."""
    roots: list[Root] = []
    for folder in (cwd, *cwd.parents):
        if os.path.realpath(folder) != home:
            roots.append(Root(str(folder / ".agents" / "skills"), takes_files=False, reach=reach.of_skills(folder)))
        if os.path.lexists(folder / ".git"):
            break
    return roots


def _all_templates(folder: str, enters: Enters) -> Iterator[FoundFile]:
    return template_files(folder, is_recursive=True, enters=enters)


def _templates_of(folder: str, enters: Enters) -> Iterator[FoundFile]:
    return template_files(folder, is_recursive=False, enters=enters)


def _all_skills(folder: str, enters: Enters) -> Iterator[FoundFile]:
    return skill_files(folder, takes_files=True, enters=enters)


def _templates_in(root: Root, enters: Enters) -> Iterator[FoundFile]:
    return template_files(root.path, is_recursive=False, enters=enters)


def _all_themes(folder: str, enters: Enters) -> Iterator[FoundFile]:
    return template_files(folder, is_recursive=True, enters=enters, suffix=_THEME)


def _themes_in(root: Root, enters: Enters) -> Iterator[FoundFile]:
    return template_files(root.path, is_recursive=False, enters=enters, suffix=_THEME)


def _skills_in(root: Root, enters: Enters) -> Iterator[FoundFile]:
    return skill_files(root.path, takes_files=root.takes_files, enters=enters)
