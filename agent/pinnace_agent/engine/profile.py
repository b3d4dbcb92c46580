"""What an agent process is configured with: models, tools, prompt and shell.

Data that outlives sessions. Made at the start from flags and files; a reload replaces what `use` takes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pinnace_agent.config.credentials.known_keys import keyless_environment
from pinnace_agent.config.models.models import ModelRegistry
from pinnace_agent.config.models.scope import ScopedModel
from pinnace_agent.config.settings import CacheWarming, CompactionSettings, RetrySettings, RunLimits, Settings
from pinnace_agent.core.user_warnings import Notice, Warnings
from pinnace_agent.llm.request import IDLE_TIMEOUT_S, THINKING_BUDGETS, ToolSpec
from pinnace_agent.prompting.prompt_resources import PromptResources
from pinnace_agent.tools.base import Tool
from pinnace_spec.records.messages import ApprovalMode, ThinkingLevel

if TYPE_CHECKING:  # loaded with a sandbox
    from pinnace_agent.core.ports.children import ChildAgents
    from pinnace_agent.core.ports.confinement import SandboxReport
    from pinnace_agent.core.trace_context import CallTrace

UseFiles = Callable[["AgentProfile"], Sequence[Notice]]
"""Makes what was read current in an agent, and returns what the user has to know about it."""


def _nothing_to_read() -> UseFiles:
    """Read nothing: there are no files."""
    return lambda _profile: ()


@dataclass(slots=True)
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
    """What a compaction keeps and leaves free; the statechart decides whether it is automatic."""
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
    resources: PromptResources = field(default_factory=PromptResources)
    """What the open conversation's folder adds."""
    limits: RunLimits = RunLimits()
    """What one run may take."""
    asks_servers: bool = False
    """Whether servers of models may be asked for more than answers; not with `--offline`."""
    approval: ApprovalMode = "never"
    """Of tool calls, at the start."""
    sandbox: "SandboxReport | None" = None
    """The sandbox of commands; None: there is none."""
    children: "ChildAgents | None" = None
    """The agents that this one starts; None: no tool starts any, and no client has started one."""
    make_children: "Callable[[], ChildAgents] | None" = None
    """Makes them for the first one that a client starts; None: clients start none."""
    has_user: bool = False
    """Whether a client can answer questions."""
    draws_surfaces: bool = False
    """Whether the client draws surfaces of extensions from the start."""
    cache_warming: CacheWarming = "off"
    """When the provider's cache of a conversation is kept alive."""
    tool_timeout_s: float | None = None
    """How long a tool call may take that says nothing about it; None: for ever."""
    trace_call: "CallTrace | None" = None
    """Traces calls of tools; None: nothing does."""
    warnings: Warnings = field(default_factory=Warnings)
    """What the user has to know."""

    retry: RetrySettings = field(default_factory=RetrySettings)
    """How failed requests are repeated; the statechart has its own copy."""
    model_patterns: Sequence[str] = ()
    """What narrows the models to cycle between; empty: nothing does."""
    read_again: Callable[[], UseFiles] = _nothing_to_read
    """Reads the user's files again, changes nothing, and raises a `ClientError` if one has a mistake."""

    def use(
        self,
        settings: Settings,
        *,
        environment: Mapping[str, str],
        shell_path: str | None,
        limits: RunLimits,
        model_patterns: Sequence[str],
    ) -> None:
        """Use these settings for what begins from now on; the other arguments are what options leave of them."""
        self.environment = environment
        self.shell_path = shell_path
        self.shell_command_prefix = settings.shell_command_prefix
        self.compaction = settings.compaction
        self.idle_timeout_s = settings.idle_timeout_s
        self.max_retry_after_s = settings.max_retry_after_s
        self.thinking_budgets = {**THINKING_BUDGETS, **settings.thinking_budgets}
        self.resizes_images = settings.resizes_images
        self.blocks_images = settings.blocks_images
        self.limits = limits
        self.cache_warming = settings.cache_warming
        self.tool_timeout_s = settings.tool_timeout_s
        self.retry = settings.retry
        self.model_patterns = model_patterns

    def tool_specs(self) -> tuple[ToolSpec, ...]:
        """Return the active tools as a model sees them."""
        tools = self.tools.values()
        return tuple(ToolSpec(t.name, t.description, t.parameters, getattr(t, "prefers_strict", False)) for t in tools)
