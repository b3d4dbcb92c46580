"""What an agent process is configured with: models, tools, prompt and shell.

Data that outlives sessions. Made once at start from flags and files; only the registry is asked later.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pinnace_agent.llm.base import IDLE_TIMEOUT_S, THINKING_BUDGETS, ToolSpec
from pinnace_agent.resources.model_scope import ScopedModel
from pinnace_agent.resources.models import ModelRegistry
from pinnace_agent.resources.resource_book import ResourceBook
from pinnace_agent.resources.settings import CompactionSettings, RunLimits
from pinnace_agent.shell_environment import keyless_environment
from pinnace_agent.tools.base import Tool
from pinnace_spec.messages import ThinkingLevel


@dataclass(slots=True, frozen=True)
class AgentProfile:
    """The configuration of one process.

    `system_prompt` is a function of the working folder, and the prompt carries the day. `tools` holds the active tools
    in the order in which a model sees them.
    """

    registry: ModelRegistry
    tools: Mapping[str, Tool]
    system_prompt: Callable[[str], str]
    environment: Mapping[str, str] = field(default_factory=keyless_environment)
    """Of shells and tools."""
    shell_path: str | None = None
    shell_command_prefix: str | None = None
    compaction: CompactionSettings = field(default_factory=CompactionSettings)
    """What a compaction keeps and leaves free; whether it is automatic is the chart's to know."""
    idle_timeout_s: float | None = IDLE_TIMEOUT_S
    """How long a model's server may be silent; None: for ever."""
    max_retry_after_s: float | None = None
    """The longest wait that a server gets when it asks for one, else it is the usual; None: as long as any wait."""
    thinking_budgets: Mapping[ThinkingLevel, int] = field(default_factory=lambda: THINKING_BUDGETS)
    """Tokens to think with, for providers that count them."""
    resizes_images: bool = True
    """Whether pictures are made smaller for models."""
    blocks_images: bool = False
    """Whether pictures are kept from models."""
    scope: tuple[ScopedModel, ...] = ()
    """The models to cycle between; empty: all that are available."""
    resources: ResourceBook = field(default_factory=ResourceBook)
    """What the open conversation's folder adds."""
    limits: RunLimits = RunLimits()
    """What one run may take."""
    asks_servers: bool = False
    """Whether servers of models may be asked for more than answers; not with `--offline`."""
    tool_timeout_s: float | None = None
    """How long a tool call may take that says nothing about it; None: for ever."""

    def tool_specs(self) -> tuple[ToolSpec, ...]:
        """Return the active tools as a model sees them."""
        return tuple(ToolSpec(tool.name, tool.description, tool.parameters) for tool in self.tools.values())
