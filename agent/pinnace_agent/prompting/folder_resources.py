"""The resources of a working folder: its context files, prompt templates, skills, and texts for the system prompt.

Read when a conversation begins and fixed until the next one: a prompt that changes in between would invalidate a
provider's cache. Trust in a project is decided for each folder anew; the decision of the command line applies to the
folder that the process was started in. A folder without resources costs a few checks of the file system. Writes
nothing.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from pinnace_agent.config.configuration import trust_recheck
from pinnace_agent.config.settings import ResourceSettings, Settings, settings_in
from pinnace_agent.config.settings_reader import read_scope
from pinnace_agent.config.trust import decide, trust_file
from pinnace_agent.files.paths import (
    agent_dir,
    expand_home,
    gated_project_files,
    home_dir,
    nested_prompts,
    project_dir,
)
from pinnace_agent.files.regular_file import is_regular
from pinnace_agent.files.text_file import TextFileError, read_text_file
from pinnace_agent.prompting.context_files import ContextFile, project_reach, read_context_files
from pinnace_spec.printable import printable

if TYPE_CHECKING:  # loaded where there are any
    from pinnace_agent.prompting.discovery import ScopeSources
    from pinnace_agent.prompting.skills import Skill
    from pinnace_agent.prompting.templates import PromptTemplate


class ResourceChoice(NamedTuple):
    """The choice of the command line."""

    skills: Sequence[str] = ()
    """Paths of additional skills."""
    templates: Sequence[str] = ()
    has_usual_skills: bool = True
    """Whether folders and settings are searched as well."""
    has_usual_templates: bool = True
    has_context_files: bool = True
    directories: Sequence[str] = ()
    """Real paths of additional folders: named in the prompt, with their own context files."""
    base: str | None = None
    """Replaces every other system prompt."""
    appended: Sequence[str] = ()
    """Replaces every other text after the system prompt."""
    added: str | None = None
    """A text of the client's behind those, whichever they are."""
    approved: bool | None = None
    """Whether the project is trusted; None: the command line leaves that open."""
    packages: Sequence[str] = ()
    """What `-e` names: packages may have skills and templates, too."""


class FolderResources(NamedTuple):
    """What the working folder adds to prompts: system prompts, context files, templates and skills."""

    base: str | None = None
    appended: Sequence[str] = ()
    context_files: Sequence[ContextFile] = ()
    directories: Sequence[str] = ()
    """Real paths of the additional folders, whichever folder this is."""
    templates: "Mapping[str, PromptTemplate]" = MappingProxyType({})
    """By name, in their order."""
    skills: "Mapping[str, Skill]" = MappingProxyType({})
    notices: Sequence[str] = ()
    """Problems in any of them, for stderr."""
    is_trusted: bool = True
    """Whether the project in the folder was trusted when its resources were read."""
    trust_notice: str | None = None
    """The one of the notices that the project is not trusted; None: there is none."""


class FolderReader:
    """Reads the resources of folders."""

    def __init__(
        self,
        choice: ResourceChoice,
        settings: Settings,
        env: Mapping[str, str],
        cwd: Path,
        *,
        is_trusted: bool = True,
    ) -> None:
        """Read nothing yet; `cwd` is the folder that the process was started in, `is_trusted` its decision about it."""
        self._choice = self._chosen = choice
        self._settings = settings
        self._env = env
        self._cwd = cwd
        self._is_trusted = is_trusted
        self._decided: dict[Path, bool] = {}

    def add(self, skills: Sequence[str], templates: Sequence[str]) -> None:
        """Read these paths as well from now on, in place of those that were added before."""
        self._choice = self._chosen._replace(
            skills=(*self._chosen.skills, *skills), templates=(*self._chosen.templates, *templates)
        )

    def use_directories(self, directories: Sequence[str]) -> None:
        """Read the context files of these additional folders from now on, in place of all others."""
        self._chosen = self._chosen._replace(directories=directories)
        self._choice = self._choice._replace(directories=directories)

    def decide(self, folder: Path, is_trusted: bool) -> None:
        """Set the decision about a project, for the life of the process."""
        self._decided[folder] = is_trusted

    def trusts(self, folder: Path) -> bool:
        """Return whether a project is trusted."""
        gated = gated_project_files(folder, self._env)
        return not gated or bool(self._trusted_files(folder, []))

    def resource_settings(self, folder: Path) -> Sequence[ResourceSettings]:
        """Return the resources that settings name for a folder: those of a trusted project, then the user's."""
        return self._named(folder, self._trusted_files(folder, []), [])

    def use_settings(self, settings: Settings) -> None:
        """Replace the settings."""
        self._settings = settings

    def read(self, cwd: str) -> FolderResources:
        """Read the resources of a folder."""
        folder = Path(cwd)
        notices: list[str] = []
        gated = self._trusted_files(folder, notices)
        trust_notice = notices[0] if notices else None
        base = self._choice.base
        if base is None:
            base = self._first_text("SYSTEM.md", folder, gated, notices)
        appended = self._choice.appended
        if not appended:
            text = self._first_text("APPEND_SYSTEM.md", folder, gated, notices)
            appended = () if text is None else (text,)
        if self._choice.added is not None:
            appended = (*appended, self._choice.added)
        directories = self._choice.directories
        context = None
        if self._choice.has_context_files:
            context = read_context_files(agent_dir(self._env), folder, self._env, [Path(each) for each in directories])
        templates, skills = self._commands(folder, gated, notices)
        if context is not None:
            notices += context.notices
        files = context.files if context else ()
        is_trusted = self._is_folder_trusted(folder, gated)
        return FolderResources(base, appended, files, directories, templates, skills, notices, is_trusted, trust_notice)

    def _trusted_files(self, folder: Path, notices: list[str]) -> frozenset[Path]:
        """Return the files of a trusted project that existed at the decision; empty for an untrusted one."""
        gated = gated_project_files(folder, self._env)
        if not gated:
            return frozenset()
        is_own = folder == self._cwd
        approved = self._decided.get(folder, self._choice.approved if is_own else None)
        decisions = trust_file(agent_dir(self._env))
        has_changed = trust_recheck(self._settings, folder, gated, self._env)
        default = self._settings.default_project_trust
        trust = decide(decisions, folder, gated, approved, default, has_changed=has_changed)
        if trust.is_trusted:
            return frozenset(gated)
        if not is_own:  # the start of the process reports its own folder
            notices.append(printable(f"{folder}: this project is not trusted, so what it brings is not read"))
        return frozenset()

    def _is_folder_trusted(self, folder: Path, trusted: frozenset[Path]) -> bool:
        """Return whether the project of these trusted files is trusted."""
        if trusted or folder in self._decided:
            return bool(trusted) or self._decided[folder]
        if gated_project_files(folder, self._env):
            return False
        if folder == self._cwd:
            return self._is_trusted
        default = self._settings.default_project_trust
        return decide(trust_file(agent_dir(self._env)), folder, (), None, default).is_trusted

    def _first_text(self, name: str, folder: Path, gated: frozenset[Path], notices: list[str]) -> str | None:
        """Return the text of the project's file, else of the user's."""
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
        # One that is a file brings an extension and nothing else; what reads packages is not loaded for it.
        given = (os.path.join(self._cwd, expand_home(word, self._env)) for word in choice.packages)
        has_packages = not all(map(os.path.isfile, given)) or any(each.packages for each in named)
        if not (has_templates or has_skills or has_packages or choice.templates or choice.skills):
            return {}, {}
        from pinnace_agent.prompting.discovery import Packages, ResourceDiscovery

        prompts_in_packages = skills_in_packages = Packages()
        if has_packages:
            from pinnace_agent.prompting.packaged import packaged

            reach = project_reach(folder, self._env) if gated else None
            found_in = packaged(choice, named, self._env, self._cwd, reach)
            prompts_in_packages, skills_in_packages = found_in.prompts, found_in.skills
            notices += found_in.notices
        discovery = ResourceDiscovery(self._env, str(self._cwd))
        templates = self._sources("prompts", folder, gated, named) if has_templates else ()
        discovery.templates(templates, choice.templates, prompts_in_packages)
        skills = self._sources("skills", folder, gated, named) if has_skills else ()
        discovery.skills(skills, choice.skills, skills_in_packages)
        found = discovery.found
        notices += found.notices
        return {each.name: each for each in found.templates}, {each.name: each for each in found.skills}

    def _sources(
        self, kind: str, folder: Path, gated: frozenset[Path], named: Sequence[ResourceSettings]
    ) -> "list[ScopeSources]":
        from pinnace_agent.prompting.discovery import Root, ScopeSources, project_skill_roots

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
        sources: list[ScopeSources] = []
        for is_project, path, roots in ((True, own, project_roots), (False, user, user_roots)):
            entries = next((each for each in named if each.is_project == is_project), None)
            words = () if entries is None else entries.skills if kind == "skills" else entries.prompts
            source = ScopeSources("project" if is_project else "user", words, str(path), roots)
            sources.append(source._replace(reach_of=reach.of_named) if is_project and reach is not None else source)
        return sources

    def _named(self, folder: Path, gated: frozenset[Path], notices: list[str]) -> list[ResourceSettings]:
        """Return the resources that settings name: those of a trusted project, and the user's."""
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
