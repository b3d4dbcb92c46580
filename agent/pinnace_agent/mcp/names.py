"""The names that models call tools of servers by: those of the original, so that sessions of both programs fit.

A name has letters, digits and underscores and at most 64 characters, which every provider takes.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Container, Iterable
from typing import Final

_MOST_CHARS: Final = 64
_HASH_CHARS: Final = 8
_OTHER: Final = re.compile(r"[^A-Za-z0-9_]")


def plain_name(server: str, tool: str) -> str:
    """Return the name of a tool, if it is short enough and no other has it."""
    return _OTHER.sub("_", f"mcp__{server}__{tool}")


def tool_names(server: str, tools: Iterable[str], taken: Container[str] = ()) -> dict[str, str]:
    """Return the names of a server's tools, by what the server calls them.

    Tools whose names would be equal all get a suffix, so that none depends on the order.

    Args:
        server: Its name.
        tools: What it calls its tools, each once.
        taken: Names that others have.
    """
    plain = {tool: plain_name(server, tool) for tool in tools}
    shared = Counter(plain.values())
    return {
        tool: _hashed(server, tool, name) if shared[name] > 1 or name in taken or len(name) > _MOST_CHARS else name
        for tool, name in plain.items()
    }


def _hashed(server: str, tool: str, name: str) -> str:
    digest = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]
    return f"{name[: _MOST_CHARS - _HASH_CHARS - 1]}_{digest}"
