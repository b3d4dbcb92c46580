"""What a prompt can name after a slash, in the words of both generations at once.

`location` and `path` are the older one's, `sourceInfo` the newer one's. Must not know how they are found or expanded.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pinnace_agent.host import Host
from pinnace_agent.resources.resource_origin import Origin

if TYPE_CHECKING:  # loaded with the first extension
    from pinnace_agent.extensions.host_view import CommandInfo

_LOCATIONS: Final[Mapping[str, str]] = {"user": "user", "project": "project", "temporary": "path"}


def get_commands(host: Host) -> Mapping[str, object]:
    """Commands of extensions, then templates, then skills, each in the order in which they go before each other."""
    resources = host.profile.resources.of(host.session.cwd)
    templates = [
        _command(each.name, each.description, "prompt", each.path, each.origin) for each in resources.templates.values()
    ]
    # Hidden ones, too: they are hidden from models.
    skills = [
        _command(f"skill:{each.name}", each.description, "skill", each.path, each.origin)
        for each in resources.skills.values()
    ]
    return {"commands": [*_extension_commands(host), *templates, *skills]}


def _extension_commands(host: Host) -> list[Mapping[str, object]]:
    if host.extensions is None:
        return []
    return [_extension_command(info) for info in host.extensions.commands.infos()]


def _extension_command(info: "CommandInfo") -> Mapping[str, object]:
    source = info.source_info
    command: dict[str, object] = {"name": info.name, "source": "extension", "path": source["path"]}
    if info.description is not None:
        command["description"] = info.description
    location = _LOCATIONS[str(source["scope"])]
    return {**command, "location": location, "sourceInfo": source}


def _command(name: str, description: str, source: str, path: str, origin: Origin) -> Mapping[str, object]:
    return {
        "name": name,
        "description": description,
        "source": source,
        "location": _LOCATIONS[origin.scope],
        "path": path,
        "sourceInfo": origin.source_info(path),
    }
