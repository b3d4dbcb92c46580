"""The rules of `rules.toml`, and which of them bind an agent."""

import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

OURS: Final = "ours"
"""The origin of rules that the protocol leaves open."""


class AcpRule(NamedTuple):
    """One rule."""

    level: str
    origin: str
    text: str


@cache
def rules() -> Mapping[str, AcpRule]:
    """Read the rules."""
    table = tomllib.loads(files("pinnace_fuzz.acp").joinpath("rules.toml").read_text(encoding="utf-8"))
    return {id_: AcpRule(rule["level"], rule["origin"], rule["text"]) for id_, rule in table.items()}


def is_bound(cited: Iterable[str], *, binds_ours: bool) -> bool:
    """Return whether rules bind an agent: what rests on several rests on all of them.

    Args:
        cited: Ids of rules.
        binds_ours: The agent must follow rules of this project's own, too.
    """
    return binds_ours or all(rules()[rule].origin != OURS and rules()[rule].level == "MUST" for rule in cited)
