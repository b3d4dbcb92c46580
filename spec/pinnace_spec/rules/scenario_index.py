"""Maps rules to scenarios: read from the heads of the scenarios, without a YAML parser.

Only the lines `id:`, `title:` and `rules: [...]` of each entry are read, in the form that all scenarios use.
"""

import re
from functools import cache
from typing import Final, NamedTuple

from pinnace_spec import data

FOLDER: Final = "scenarios"

_ID: Final = re.compile(r"^(?:  )?- id: *([\w/${}.-]+) *$")
_TITLE: Final = re.compile(r"^ +title: *(.+?) *$")
_RULES: Final = re.compile(r"^ +rules: *\[([^]]*)\] *$")


class ScenarioHead(NamedTuple):
    """What a scenario is called and about."""

    id: str
    """May hold `${name}`: one of several that differ in it."""
    title: str
    rules: tuple[str, ...]
    """And invariants."""


@cache
def scenario_heads() -> tuple[ScenarioHead, ...]:
    """Return the heads of all scenarios, in their order; none where there are no scenarios."""
    heads: list[ScenarioHead] = []
    for name in data.names(FOLDER):
        if not name.endswith(".yaml"):
            continue
        for line in data.text(name).splitlines():
            if found := _ID.match(line):
                heads.append(ScenarioHead(found[1], "", ()))
            elif heads and not heads[-1].title and (found := _TITLE.match(line)):
                heads[-1] = heads[-1]._replace(title=found[1].strip("\"'"))
            elif heads and not heads[-1].rules and (found := _RULES.match(line)):
                heads[-1] = heads[-1]._replace(rules=tuple(found[1].replace(",", " ").split()))
    return tuple(heads)


def scenarios_of(rule: str) -> tuple[ScenarioHead, ...]:
    """Return the scenarios that name a rule or an invariant."""
    return tuple(head for head in scenario_heads() if rule in head.rules)
