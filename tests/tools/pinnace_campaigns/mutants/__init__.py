"""Faults for our own agent, and what finds each: they show that the checks bite.

`python -P -m pinnace_campaigns.mutants` tries them all in a private copy of a checkout.
"""

from pinnace_campaigns.mutants.catalogue import AGENT_MUTANTS, AgentMutant
from pinnace_campaigns.mutants.seen_on_the_wire import WIRE_MUTANTS

__all__ = ["AGENT_MUTANTS", "WIRE_MUTANTS", "AgentMutant"]
