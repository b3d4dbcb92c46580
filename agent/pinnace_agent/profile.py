"""What an agent process is configured with: models, tools, prompt and shell.

Data that outlives sessions. Made once at start from flags and files; only the registry is asked later.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pinnace_agent.llm.base import IDLE_TIMEOUT_S
from pinnace_agent.resources.model_scope import ScopedModel
from pinnace_agent.resources.models import ModelRegistry
from pinnace_agent.resources.settings import CompactionSettings
from pinnace_agent.tools.base import Tool


@dataclass(slots=True, frozen=True)
class AgentProfile:
    """The configuration of one process.

    `system_prompt` is a function of the working folder, and the prompt carries the day. `tools` holds the active tools
    in the order in which a model sees them.
    """

    registry: ModelRegistry
    tools: Mapping[str, Tool]
    system_prompt: Callable[[str], str]
    shell_path: str | None = None
    shell_command_prefix: str | None = None
    compaction: CompactionSettings = field(default_factory=CompactionSettings)
    """What a compaction keeps and leaves free; whether it is automatic is the chart's to know."""
    idle_timeout_s: float | None = IDLE_TIMEOUT_S
    """How long a model's server may be silent; None: for ever."""
    scope: tuple[ScopedModel, ...] = ()
    """The models to cycle between; empty: all that are available."""
