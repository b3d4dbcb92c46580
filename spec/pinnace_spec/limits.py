"""The limits that end a run by themselves, by the names that records and settings use. Rules R-LIM-01, R-LIM-02."""

from typing import Final, Literal, get_args

LimitName = Literal["maxTurns", "maxCost", "maxRunSeconds"]

LIMIT_NAMES: Final[tuple[LimitName, ...]] = get_args(LimitName)
