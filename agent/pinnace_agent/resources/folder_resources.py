"""What a working folder adds to an agent: its context files, prompt templates, skills, and words for the prompt.

Read when a conversation begins, and the same until the next one: a prompt that changes in between would cost a model's
cache. Whether a project is trusted is decided for each folder anew; what the command line says of it holds for the
folder that the process was started in. A folder that has nothing costs a few looks at the file system. Writes nothing.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from pinnace_agent.files.text_file import TextFileError, is_regular, printable, read_text_file
from pinnace_agent.resources.context_files import ContextFile, project_reach, read_context_files
from pinnace_agent.resources.paths import agent_dir, gated_project_files, home_dir, nested_prompts, project_dir
from pinnace_agent.resources.settings import ResourceSettings, Settings, settings_in
from pinnace_agent.resources.settings_reader import read_scope
from pinnace_agent.resources.trust import decide, trust_file

if TYPE_CHECKING:  # loaded where there are any
    from pinnace_agent.resources.prompt_templates import PromptTemplate
    from pinnace_agent.resources.resource_discovery import Shelf
    from pinnace_agent.resources.skills import Skill


class ResourceChoice(NamedTuple):
    """What the command line says."""

    skills: Sequence[str] = ()
    """Paths of more of them."""
    templates: Sequence[str] = ()
    has_usual_skills: bool = True
    """Whether folders and settings are asked as well."""
    has_usual_templates: bool = True
    has_context_files: bool = True
    base: str | None = None
    """In the place of every other prompt."""
    appended: Sequence[str] = ()
    """In the place of every other text behind it."""
    approved: bool | None = None
    """Whether the project is trusted, if it says so."""


class FolderResources(NamedTuple):
    """What a folder adds."""

    base: str | None = None
    appended: Sequence[str] = ()
    context_files: Sequence[ContextFile] = ()
    templates: "Mapping[str, PromptTemplate]" = MappingProxyType({})
    """By name, in their order."""
    skills: "Mapping[str, Skill]" = MappingProxyType({})
    notices: Sequence[str] = ()
    """What is wrong with any of it, for stderr."""
    is_trusted: bool = True
    """Whether the project in the folder is trusted, as it was decided when this was read."""


class FolderReader:
    """Reads what folders add."""

    def __init__(
        self,
        choice: ResourceChoice,
        settings: Settings,
        env: Mapping[str, str],
        cwd: Path,
        *,
        is_trusted: bool = True,
    ) -> None:
        """Read nothing yet; `cwd` is the folder that the process was started in, `is_trusted` what it has decided."""
        self._choice = self._chosen = choice
        self._settings = settings
        self._env = env
        self._cwd = cwd
        self._is_trusted = is_trusted
        self._decided: dict[Path, bool] = {}

    def add(self, skills: Sequence[str], templates: Sequence[str]) -> None:
        """Read these as well from now on, in the place of those that were added before."""
        self._choice = self._chosen._replace(
            skills=(*self._chosen.skills, *skills), templates=(*self._chosen.templates, *templates)
        )

    def decide(self, folder: Path, is_trusted: bool) -> None:
        """Take what was decided about a project, for the life of the process."""
        self._decided[folder] = is_trusted

    def trusts(self, folder: Path) -> bool:
        """Tell whether a project is trusted."""
        gated = gated_project_files(folder, self._env)
        return not gated or bool(self._trusted_files(folder, []))

    def resource_settings(self, folder: Path) -> Sequence[ResourceSettings]:
        """Return what settings name for sessions in a folder: the project's, if it is trusted, before the user's."""
        return self._named(folder, self._trusted_files(folder, []), [])

    def use_settings(self, settings: Settings) -> None:
        """Take other settings."""
        self._settings = settings

    def read(self, cwd: str) -> FolderResources:
        """Read what a folder adds."""
        folder = Path(cwd)
        notices: list[str] = []
        gated = self._trusted_files(folder, notices)
        base = self._choice.base
        if base is None:
            base = self._first_text("SYSTEM.md", folder, gated, notices)
        appended = self._choice.appended
        if not appended:
            text = self._first_text("APPEND_SYSTEM.md", folder, gated, notices)
            appended = () if text is None else (text,)
        context = (
            read_context_files(agent_dir(self._env), folder, self._env) if self._choice.has_context_files else None
        )
        templates, skills = self._commands(folder, gated, notices)
        if context is not None:
            notices += context.notices
        files = context.files if context else ()
        is_trusted = self._is_folder_trusted(folder, gated)
        return FolderResources(base, appended, files, templates, skills, notices, is_trusted)

    def _trusted_files(self, folder: Path, notices: list[str]) -> frozenset[Path]:
        """Return what the project brings and may be read: of what was there when that was decided."""
        gated = gated_project_files(folder, self._env)
        if not gated:
            return frozenset()
        is_own = folder == self._cwd
        approved = self._decided.get(folder, self._choice.approved if is_own else None)
        decisions = trust_file(agent_dir(self._env))
        settings = self._settings
        rechecks = self._env if settings.rechecks_project_trust else None
        trust = decide(decisions, folder, gated, approved, settings.default_project_trust, rechecks=rechecks)
        if trust.is_trusted:
            return frozenset(gated)
        if not is_own:  # of its own folder the process has said so
            notices.append(printable(f"{folder}: this project is not trusted, so what it brings is not read"))
        return frozenset()

    def _is_folder_trusted(self, folder: Path, trusted: frozenset[Path]) -> bool:
        """Tell whether a project is trusted, of which these files may be read."""
        if trusted or folder in self._decided:
            return bool(trusted) or self._decided[folder]
        if gated_project_files(folder, self._env):
            return False
        if folder == self._cwd:
            return self._is_trusted
        default = self._settings.default_project_trust
        return decide(trust_file(agent_dir(self._env)), folder, (), None, default).is_trusted

    def _first_text(self, name: str, folder: Path, gated: frozenset[Path], notices: list[str]) -> str | None:
        """Return the text of the project's file, or else of the user's."""
        own = project_dir(folder) / name
        for path in ((own,) if own in gated else ()) + (agent_dir(self._env) / name,):
            if not is_regular(str(path)):
                continue
            reach = project_reach(folder, self._env).of(folder) if path == own else None
            try:
                return read_text_file(str(path), reach)
            except TextFileError as error:
                notices.append(printable(f"{path}: {error.text}, so it is not used"))
        return None

    def _commands(
        self, folder: Path, gated: frozenset[Path], notices: list[str]
    ) -> "tuple[dict[str, PromptTemplate], dict[str, Skill]]":
        choice = self._choice
        named = self._named(folder, gated, notices)
        user = agent_dir(self._env)
        home = home_dir(self._env)
        usual_templates = [path for path in gated if path.name == "prompts"] + _folders(user / "prompts")
        usual_skills = [path for path in gated if path.name == "skills"]
        usual_skills += _folders(user / "skills", home / ".agents" / "skills")
        has_templates = choice.has_usual_templates and (usual_templates or any(each.prompts for each in named))
        has_skills = choice.has_usual_skills and (usual_skills or any(each.skills for each in named))
        if not (has_templates or has_skills or choice.templates or choice.skills):
            return {}, {}
        from pinnace_agent.resources.resource_discovery import Discovery

        discovery = Discovery(self._env, str(self._cwd))
        discovery.templates(self._shelves("prompts", folder, gated, named) if has_templates else (), choice.templates)
        discovery.skills(self._shelves("skills", folder, gated, named) if has_skills else (), choice.skills)
        found = discovery.found
        notices += found.notices
        return {each.name: each for each in found.templates}, {each.name: each for each in found.skills}

    def _shelves(
        self, kind: str, folder: Path, gated: frozenset[Path], named: Sequence[ResourceSettings]
    ) -> "list[Shelf]":
        from pinnace_agent.resources.resource_discovery import Root, Shelf, project_skill_roots

        user, own, home = agent_dir(self._env), project_dir(folder), home_dir(self._env)
        reach = project_reach(folder, self._env) if gated else None
        project_roots: list[Root] = []
        if reach is not None:
            places = [own / kind, *([nested_prompts(folder)] if kind == "prompts" else [])]
            project_roots = [Root(str(path), reach=reach.of(folder)) for path in places if path in gated]
            above = project_skill_roots(folder, os.path.realpath(home), reach) if kind == "skills" else ()
            project_roots += [root for root in above if Path(root.path) in gated]
        user_roots = [Root(str(user / kind))]
        if kind == "skills":
            user_roots.append(Root(str(home / ".agents" / kind), takes_files=False))
        shelves: list[Shelf] = []
        for is_project, path, roots in ((True, own, project_roots), (False, user, user_roots)):
            entries = next((each for each in named if each.is_project == is_project), None)
            words = () if entries is None else entries.skills if kind == "skills" else entries.prompts
            shelf = Shelf("project" if is_project else "user", words, str(path), roots)
            shelves.append(shelf._replace(reach_of=reach.of_named) if is_project and reach is not None else shelf)
        return shelves

    def _named(self, folder: Path, gated: frozenset[Path], notices: list[str]) -> list[ResourceSettings]:
        """Return what settings name: the user's, and the project's if it is trusted."""
        settings = project_dir(folder) / "settings.json"
        named = [each for each in self._settings.resources if not each.is_project]
        if settings not in gated:
            return named
        if folder == self._cwd:
            return [*(each for each in self._settings.resources if each.is_project), *named]
        read = settings_in(read_scope(settings, is_project=True))
        notices += map(str, read.diagnostics)
        return [*read.settings.resources, *named]


def _folders(*paths: Path) -> list[Path]:
    return [path for path in paths if os.path.isdir(path)]
