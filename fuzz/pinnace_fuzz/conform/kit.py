"""What every case of a run shares."""

from pathlib import Path
from typing import NamedTuple

from pinnace_fuzz.conform.adapter import Adapter
from pinnace_fuzz.conform.load import LoadMeter
from pinnace_spec.generations import Generation


class Kit(NamedTuple):
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
    """The agent has promised to keep the rules of origin `ours`."""
    is_strict: bool = False
    """What is allowed but not recommended fails, too."""

    @property
    def binds_ours(self) -> bool:
        """The agent is held to the rules of origin `ours`: it has promised, or everybody is to keep them."""
        return self.is_ours or self.is_strict
