"""Whether there may be extensions: a few checks of the file system, before any code of an extension is loaded.

A process without extensions has no other cost. `may_find_extensions` loads nothing of the agent, for `--help` and for
unknown options: without these signs no extension can have registered them. In doubt the answer is yes. Reads no file.
"""

import os

TYPE_CHECKING = False  # typing has it too, and takes a while to load
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from pinnace_agent.config.configuration import Configuration
    from pinnace_agent.config.settings import ResourceSettings
    from pinnace_agent.prompting.folder_resources import FolderReader
    from pinnace_rpc.options.options import Options

_FOLDER = "extensions"
_SERVERS = "mcp.json"
# Copies of constants of the agent's modules, which take longer to load than these checks.
_FOLDER_VARIABLE = "PI_CODING_AGENT_DIR"
_USUAL_FOLDER = "~/.pi/agent"
_CLIENT_VARIABLE = "PINNACE_MCP_SERVERS"
_PROJECT_FOLDER = ".pi"


def may_find_extensions(env: "Mapping[str, str]") -> bool:
    """Return whether the user, or the project in the current folder, has a file that may name an extension."""
    folder = os.path.expanduser(env.get(_FOLDER_VARIABLE) or _USUAL_FOLDER)
    places = (os.path.join(folder, _FOLDER), os.path.join(folder, "settings.json"), _PROJECT_FOLDER)
    return any(os.path.exists(place) for place in places)


def in_load_order(resources: "Iterable[ResourceSettings]") -> "list[ResourceSettings]":
    """Return the entries of settings, the project's before the user's."""
    return sorted(resources, key=lambda each: not each.is_project)


def may_have_extensions(
    options: "Options", configuration: "Configuration", env: "Mapping[str, str]", cwd: "Path"
) -> bool:
    """Return whether the command line, the settings or a folder may name an extension, or an MCP server."""
    if options.extensions:
        return True
    if not options.no_mcp:
        from pinnace_agent.files.paths import agent_dir, project_dir

        files = [
            agent_dir(env) / _SERVERS,
            *([project_dir(cwd) / _SERVERS] if configuration.is_project_trusted else ()),
        ]
        if _CLIENT_VARIABLE in env or any(map(os.path.exists, files)):
            return True
    if options.no_extensions:
        return False
    if any(each.extensions or each.packages for each in configuration.settings.resources):
        return True
    from pinnace_agent.files.paths import agent_dir, project_dir

    if os.path.isdir(agent_dir(env) / _FOLDER):
        return True
    return configuration.is_project_trusted and os.path.isdir(project_dir(cwd) / _FOLDER)


def may_have_project_extensions(options: "Options", reader: "FolderReader", cwd: "Path") -> bool:
    """Return whether a trusted project may bring an extension: of a session in another folder than the first."""
    if not reader.trusts(cwd):
        return False
    from pinnace_agent.files.paths import project_dir

    if not options.no_mcp and os.path.exists(project_dir(cwd) / _SERVERS):
        return True
    if options.no_extensions:
        return False
    if os.path.isdir(project_dir(cwd) / _FOLDER):
        return True
    return any(each.extensions or each.packages for each in reader.resource_settings(cwd) if each.is_project)
