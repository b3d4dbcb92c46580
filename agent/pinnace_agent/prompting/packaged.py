"""The prompt templates and skills in packages. Loaded where settings or the command line name a package."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pinnace_agent.config.settings import ResourceSettings
from pinnace_agent.packages.resolution import PackageFile, resolve_named, resolve_settings
from pinnace_agent.prompting.discovery import Packages
from pinnace_agent.prompting.origin import Origin, Resource
from pinnace_agent.search.resource_files import SKILL_FILE

if TYPE_CHECKING:  # loaded where a project brings something
    from pinnace_agent.files.project_reach import ProjectReach
    from pinnace_agent.prompting.folder_resources import ResourceChoice


class PackagedResources(NamedTuple):
    """What packages bring to prompts."""

    prompts: Packages
    skills: Packages
    notices: Sequence[str]
    """What is wrong with packages of settings; those of the command line are reported with its extensions."""


def packaged(
    choice: "ResourceChoice",
    named: Sequence[ResourceSettings],
    env: Mapping[str, str],
    cwd: Path,
    reach: "ProjectReach | None",
) -> PackagedResources:
    """Find the templates and skills in packages.

    Args:
        choice: What the command line says.
        named: The settings of a trusted project, and the user's.
        env: The environment.
        cwd: The working folder of the process at its start.
        reach: Where links of the project may lead; None: it brings nothing.
    """
    configured = resolve_settings(named, env)
    own = resolve_named(choice.packages, env, cwd)

    def resource(file: PackageFile) -> Resource:
        origin = Origin(file.scope, file.source, file.base_dir, "package")
        if file.scope == "temporary":
            origin = Origin("temporary", "cli")
        bound = reach.of_named(file.base_dir) if reach is not None and file.owner == "project" else None
        return Resource(file.path, origin, os.path.basename(file.path) == SKILL_FILE, bound)

    prompts = map(resource, configured.files["prompts"] if choice.has_usual_templates else ())
    skills = map(resource, configured.files["skills"] if choice.has_usual_skills else ())
    return PackagedResources(
        Packages(list(map(resource, own.files["prompts"])), list(prompts)),
        Packages(list(map(resource, own.files["skills"])), list(skills)),
        configured.notices,
    )
