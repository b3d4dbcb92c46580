"""The campaigns: each generates cases of one kind and lets the observers judge them."""

from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from pinnace_fuzz.conform.campaigns.arguments import arguments
from pinnace_fuzz.conform.campaigns.faults import faults
from pinnace_fuzz.conform.campaigns.framing import framing
from pinnace_fuzz.conform.campaigns.interleavings import interleavings
from pinnace_fuzz.conform.campaigns.sequences import sequences
from pinnace_fuzz.conform.campaigns.trails import trails

if TYPE_CHECKING:
    from pinnace_fuzz.conform.hunting import Hunt
    from pinnace_fuzz.conform.pool import Pool

Campaign = Callable[["Hunt", "Pool", Random, Callable[[], bool]], None]
"""Plays cases until it has no more, or the function says that its time is over."""


class Row(NamedTuple):
    """A campaign and its share of the time; 0: all that is left."""

    campaign: Campaign
    share: float


CAMPAIGNS: Mapping[str, Row] = {
    "interleavings": Row(interleavings, 0.25),
    "arguments": Row(arguments, 0.15),
    "framing": Row(framing, 0.15),
    "faults": Row(faults, 0.12),
    "trails": Row(trails, 0.08),
    "sequences": Row(sequences, 0.0),
}

__all__ = ["CAMPAIGNS", "Campaign", "Row"]
