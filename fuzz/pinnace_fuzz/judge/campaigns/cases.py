"""Makes the cases of campaigns: scenarios without expectations, which only the observers judge."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from pinnace_fuzz.judge.reports.identity import GENERATED_IDS
from pinnace_fuzz.judge.scenarios.reading import read_scenario
from pinnace_fuzz.judge.scenarios.scenario import Scenario

SETTINGS: Mapping[str, Any] = {
    "retry": {"enabled": True, "maxRetries": 2, "baseDelayMs": 30},
    "compaction": {"enabled": True, "reserveTokens": 1000, "keepRecentTokens": 1},
}
"""Settings with short retries and small compactions."""

ANSWER: Mapping[str, Any] = {"text": ["an ", "answer"], "repeat": -1}
"""The model's answer when a case's own lines are used up."""

Command = Mapping[str, Any]


def case(
    campaign: str,
    client: Sequence[Any],
    llm: Sequence[Mapping[str, Any]] = (),
    *,
    needs: Sequence[str] = (),
    exit: int | None = 0,
    has_session: bool = False,
    **fields: Any,
) -> Scenario:
    """Make a case."""
    source: dict[str, Any] = {
        "id": "",
        "title": "",
        "rules": ["R-ERR-02"],
        "client": list(client),
        "settings": SETTINGS,
        "exit": exit,
        **fields,
    }
    if needs:
        source["needs"] = list(needs)
    if "llm" in needs:
        source["llm"] = [*llm, ANSWER]
    if has_session:
        source["session"] = "new"
    return named(source, campaign)


def named(source: Mapping[str, Any], campaign: str) -> Scenario:
    """Give a case the id that follows from what it plays."""
    played = {key: value for key, value in source.items() if key not in ("id", "title", "rules")}
    digest = hashlib.sha256(json.dumps(played, sort_keys=True).encode()).hexdigest()[:10]
    return read_scenario(
        {**source, "id": f"{GENERATED_IDS}{campaign}-{digest}", "title": f"Found by the campaign {campaign}."}
    )


def numbered(commands: Sequence[Command]) -> list[Command]:
    """Give commands ids."""
    return [{"id": f"c{at}", **each} for at, each in enumerate(commands, 1)]
