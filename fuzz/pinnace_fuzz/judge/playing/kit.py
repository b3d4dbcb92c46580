"""What every case of a run shares."""

from pathlib import Path
from typing import NamedTuple

from pinnace_fuzz.judge.adapter import Adapter
from pinnace_fuzz.judge.playing.load import LoadMeter
from pinnace_spec.profiles.generations import Generation


class AgentUnderTest(NamedTuple):
    """The agent under judgement and how it is handled."""

    command: tuple[str, ...]
    adapter: Adapter
    capabilities: frozenset[str]
    generation: Generation
    root: Path
    """Folders of cases are made in it."""
    meter: LoadMeter
    patience: float = 1.0
    """Every deadline is multiplied by it."""
    is_ours: bool = False
    """The agent claims to follow the rules of origin `ours`."""
    is_sandboxed: bool = False
    """It says that it runs in a sandbox, of whose weakness here it may warn in every case."""
    is_strict: bool = False
    """Violations of recommendations (SHOULD) fail as well."""

    @property
    def binds_ours(self) -> bool:
        """The agent must follow the rules of origin `ours`: it claims to, or the options require it of all agents."""
        return self.is_ours or self.is_strict
