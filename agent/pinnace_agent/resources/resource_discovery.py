"""Looks for prompt templates and skills, in the order in which they go before each other.

The project's settings, the project's folders, the user's settings, the user's folders, the command line; of two with
the same name the first one counts. What is wrong with a file is told and never fatal. Who is asked for is decided
elsewhere. Reads files, writes none.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from pinnace_agent.files.text_file import is_regular, printable
from pinnace_agent.resources.paths import expand_home
from pinnace_agent.resources.prompt_templates import PromptTemplate, ResourceProblem, read_template
from pinnace_agent.resources.resource_origin import Origin, Resource, Scope
from pinnace_agent.resources.resource_patterns import ResourcePatterns
from pinnace_agent.resources.resource_tree import Enters, FoundFile, TooManyNames, skill_files, template_files
from pinnace_agent.resources.skills import Skill, read_skill

if TYPE_CHECKING:  # loaded where a project brings something
    from pinnace_agent.files.opener import Reach
    from pinnace_agent.resources.project_reach import ProjectReach

FilesOf = Callable[[str, Enters], Iterator[FoundFile]]
"""Finds the files of a folder."""
_Named = TypeVar("_Named", PromptTemplate, Skill)
_KINDS: Final[Mapping[type, str]] = {PromptTemplate: "prompt template", Skill: "skill"}


def _anywhere(_path: str) -> None:
    """Bound nothing: it is the user's."""


class Root(NamedTuple):
    """A usual folder of resources."""

    path: str
    takes_files: bool = True
    """Whether Markdown files in it may be skills."""
    reach: "Reach | None" = None
    """Where what is in it may lead; None: anywhere, it is the user's."""

    @property
    def base_dir(self) -> str:
        """The folder that clients are told it belongs to."""
        return os.path.dirname(self.path)


class Shelf(NamedTuple):
    """Where one scope keeps one kind of resource."""

    scope: Scope
    entries: Sequence[str] = ()
    """Of its settings."""
    folder: str = ""
    """What they are relative to."""
    roots: Sequence[Root] = ()
    reach_of: "Callable[[str], Reach | None]" = _anywhere
    """Says where a path that settings name may lead."""


@dataclass(slots=True)
class Found:
    """What was found, and what to tell about it."""

    templates: list[PromptTemplate] = field(default_factory=list[PromptTemplate])
    skills: list[Skill] = field(default_factory=list[Skill])
    notices: list[str] = field(default_factory=list[str])


class Discovery:
    """One search."""

    def __init__(self, env: Mapping[str, str], cwd: str) -> None:
        """Prepare; words of the command line are relative to `cwd`."""
        self.found = Found()
        self._env = env
        self._cwd = cwd

    def templates(self, shelves: Sequence[Shelf], named: Sequence[str]) -> None:
        """Find and read prompt templates; `named` are those of the command line."""
        resources = [
            *self._on(shelves, _all_templates, _templates_in),
            *self._of_command_line(named, _templates_of),
        ]
        self._keep(self.found.templates, resources, read_template)

    def skills(self, shelves: Sequence[Shelf], named: Sequence[str]) -> None:
        """Find and read skills; `named` are those of the command line."""
        resources = [*self._on(shelves, _all_skills, _skills_in), *self._of_command_line(named, _all_skills)]
        self._keep(self.found.skills, resources, self._skill)

    def _on(
        self, shelves: Sequence[Shelf], named_files: FilesOf, usual_files: Callable[[Root, Enters], Iterator[FoundFile]]
    ) -> Iterator[Resource]:
        for shelf in shelves:
            patterns = ResourcePatterns(shelf.entries, shelf.folder, self._env)
            for problem in patterns.problems:
                self._tell(os.path.join(shelf.folder, "settings.json"), problem)
            origin = Origin(shelf.scope, "local")
            for path in patterns.paths:
                reach = shelf.reach_of(path)
                for found in self._files(path, named_files, reach):
                    if patterns.keeps_named(found.path):
                        yield Resource(found.path, origin, found.is_declared, reach)
            for root in shelf.roots:
                origin = Origin(shelf.scope, "auto", root.base_dir)
                for found in self._until_too_many(root.path, usual_files(root, self._enters(root.reach))):
                    if patterns.keeps_found(found.path):
                        yield Resource(found.path, origin, found.is_declared, root.reach)

    def _of_command_line(self, words: Sequence[str], files: FilesOf) -> Iterator[Resource]:
        for word in words:
            path = os.path.normpath(os.path.join(self._cwd, expand_home(word, self._env)))
            if not os.path.exists(path):
                self._tell(path, "is not there")
            elif not os.path.isdir(path) and not path.endswith(".md"):
                self._tell(path, "is no Markdown file")
            else:
                for found in self._files(path, files):
                    origin = Origin("temporary", "local", os.path.dirname(found.path))
                    yield Resource(found.path, origin, found.is_declared)

    def _files(self, path: str, files: FilesOf, reach: "Reach | None" = None) -> Iterator[FoundFile]:
        """Return the file that is named, or those in the folder that is."""
        if path.endswith(".md") and is_regular(path):
            yield FoundFile(path)
        elif os.path.isdir(path):
            yield from self._until_too_many(path, files(path, self._enters(reach)))

    def _enters(self, reach: "Reach | None") -> Enters:
        """Return what decides whether a folder is looked into; a refusal is told."""
        if reach is None:
            return lambda _folder: True
        from pinnace_agent.files.opener import FileRefused, resolve

        def may_enter(folder: str) -> bool:
            try:
                resolve(folder, reach)
            except FileRefused as error:
                self._tell(folder, f"{error.text}, so what is in it is not used")
                return False
            return True

        return may_enter

    def _until_too_many(self, path: str, files: Iterator[FoundFile]) -> Iterator[FoundFile]:
        try:
            yield from files
        except TooManyNames:
            self._tell(path, "holds too many files, so not all were looked at")

    def _keep(
        self, kept: list[_Named], resources: Sequence[Resource], read: Callable[[Resource], _Named | None]
    ) -> None:
        """Read what is not there yet: one file is taken once, and of equal names the first."""
        known: set[tuple[str, str]] = set()
        names: dict[str, _Named] = {}
        for resource in resources:
            # A link gives a template another name.
            name = "" if kept is self.found.skills else os.path.basename(resource.path)
            identity = os.path.realpath(resource.path), name
            if identity in known:
                continue
            known.add(identity)
            try:
                item = read(resource)
            except ResourceProblem as error:
                self._tell(resource.path, f"{error.text}, so it is not used")
                continue
            if item is None:
                continue
            if (first := names.get(item.name)) is not None:
                self._tell(item.path, f"is not used: the {_KINDS[type(item)]} {item.name} is {first.path}")
                continue
            names[item.name] = item
            kept.append(item)

    def _skill(self, resource: Resource) -> Skill | None:
        read = read_skill(resource)
        if read is None:
            return None
        for warning in read.warnings:
            self._tell(resource.path, warning)
        return read.skill

    def _tell(self, path: str, text: str) -> None:
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


def _skills_in(root: Root, enters: Enters) -> Iterator[FoundFile]:
    return skill_files(root.path, takes_files=root.takes_files, enters=enters)
