"""What a prompt can name after a slash, in the words of both generations at once.

`location` and `path` are the older one's, `sourceInfo` the newer one's. Must not know how they are found or expanded.
"""

from collections.abc import Mapping
from typing import Final

from pinnace_agent.host import Host
from pinnace_agent.resources.resource_origin import Origin, Scope

_LOCATIONS: Final[Mapping[Scope, str]] = {"user": "user", "project": "project", "temporary": "path"}


def get_commands(host: Host) -> Mapping[str, object]:
    """Prompt templates, then skills, each in the order in which they go before each other."""
    resources = host.profile.resources.of(host.session.cwd)
    templates = [
        _command(each.name, each.description, "prompt", each.path, each.origin) for each in resources.templates.values()
    ]
    # Hidden ones, too: they are hidden from models.
    skills = [
        _command(f"skill:{each.name}", each.description, "skill", each.path, each.origin)
        for each in resources.skills.values()
    ]
    return {"commands": [*templates, *skills]}


def _command(name: str, description: str, source: str, path: str, origin: Origin) -> Mapping[str, object]:
    info: dict[str, object] = {
        "path": path,
        "source": origin.source,
        "scope": origin.scope,
        "origin": "top-level",
    }
    if origin.base_dir is not None:
        info["baseDir"] = origin.base_dir
    return {
        "name": name,
        "description": description,
        "source": source,
        "location": _LOCATIONS[origin.scope],
        "path": path,
        "sourceInfo": info,
    }
