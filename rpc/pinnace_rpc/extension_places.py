"""Whether there may be extensions at all: a few looks at the file system, before anything of theirs is loaded.

A process without any pays for nothing else. Reads no file.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from pinnace_agent.resources.configuration import Configuration
from pinnace_agent.resources.folder_resources import FolderReader
from pinnace_agent.resources.paths import agent_dir, project_dir
from pinnace_agent.resources.settings import ResourceSettings
from pinnace_rpc.options import Options

_FOLDER = "extensions"


def in_load_order(resources: Iterable[ResourceSettings]) -> list[ResourceSettings]:
    """Return what settings name, the project's before the user's."""
    return sorted(resources, key=lambda each: not each.is_project)


def may_have_extensions(options: Options, configuration: Configuration, env: Mapping[str, str], cwd: Path) -> bool:
    """Tell whether the command line, the settings or a folder may name an extension."""
    if options.extensions or options.tool_approval != "never":
        return True
    if options.no_extensions:
        return False
    if any(each.extensions or each.packages for each in configuration.settings.resources):
        return True
    if os.path.isdir(agent_dir(env) / _FOLDER):
        return True
    return configuration.is_project_trusted and os.path.isdir(project_dir(cwd) / _FOLDER)


def may_have_project_extensions(options: Options, reader: FolderReader, cwd: Path) -> bool:
    """Tell whether a project that is trusted may bring an extension: of a session in another folder than the first."""
    if options.no_extensions or not reader.trusts(cwd):
        return False
    if os.path.isdir(project_dir(cwd) / _FOLDER):
        return True
    return any(each.extensions or each.packages for each in reader.resource_settings(cwd) if each.is_project)
