"""settings.json of the user and of a trusted project: the settings that this program uses, with their defaults.

Read only. A value of the wrong type is reported with its file and key, and the next source is used: the user's setting,
then the default. A damaged file is reported and counts as empty. Unknown keys are reported as hints, except at the top,
where a key that resembles no known one may belong to an extension. Whether a project's file is read at all is decided
elsewhere.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeVar, get_args

from pinnace_agent.config.models.thinking import is_level
from pinnace_agent.config.settings_reader import (
    BUDGETED_LEVELS,
    GUARDED_MEMBERS,
    MAX_INTEGER,
    Scope,
    SettingsReader,
    read_scope,
    texts_of,
    whole_number,
)
from pinnace_agent.core.diagnostics import Diagnostic
from pinnace_agent.files.relaxed_json import JsonObject, is_object
from pinnace_agent.redaction.policy import Secret
from pinnace_spec.records.messages import QUEUE_MODES, THINKING_LEVELS, Model, QueueMode, ThinkingLevel

if TYPE_CHECKING:  # loaded with the first of them
    from pinnace_agent.config.sandbox_settings import SandboxSettings

_T = TypeVar("_T")

ProjectTrust = Literal["ask", "always", "never"]
PROJECT_TRUST: Final[tuple[ProjectTrust, ...]] = get_args(ProjectTrust)
CacheWarming = Literal["off", "streaming", "idle"]
CACHE_WARMING: Final[tuple[CacheWarming, ...]] = get_args(CacheWarming)


class TokenOverride(NamedTuple):
    """The limits of one model in place of the general ones; None: the general one."""

    reserve_tokens: int | None = None
    keep_recent_tokens: int | None = None


@dataclass(slots=True, frozen=True)
class CompactionSettings:
    """When the context is summarised, and how much of it stays."""

    is_enabled: bool = True
    reserve_tokens: int = 16_384
    keep_recent_tokens: int = 20_000
    model_overrides: Mapping[str, TokenOverride] = field(default_factory=dict[str, TokenOverride])
    """By `provider/id`."""

    def for_model(self, model: Model | None) -> "CompactionSettings":
        """Return the settings for a model."""
        own = self.model_overrides.get(f"{model['provider']}/{model['id']}") if model is not None else None
        if own is None:
            return self
        reserve = self.reserve_tokens if own.reserve_tokens is None else own.reserve_tokens
        keep = self.keep_recent_tokens if own.keep_recent_tokens is None else own.keep_recent_tokens
        return CompactionSettings(self.is_enabled, reserve, keep)


@dataclass(slots=True, frozen=True)
class RetrySettings:
    """How failed requests are repeated."""

    is_enabled: bool = True
    max_retries: int = 3
    base_delay_ms: int = 2_000
    max_delay_ms: int = 60_000
    """The longest wait between two attempts of a run."""
    timeout_ms: int | None = None
    """How long a provider may be silent, in place of `http_idle_timeout_ms`."""
    max_server_delay_ms: int | None = None
    """The longest wait that a server may ask for; 0: any, None: `max_delay_ms`."""

    @property
    def delays(self) -> tuple[int, float, float]:
        """How many attempts there are; the first delay and the longest one, in seconds."""
        return self.max_retries, self.base_delay_ms / 1000, self.max_delay_ms / 1000


class RunLimits(NamedTuple):
    """The limits of one run; None: unlimited."""

    max_turns: int | None = None
    max_cost: float | None = None
    """In USD, by the prices of the models."""
    max_run_s: float | None = None


class ResourceSettings(NamedTuple):
    """The resources that one settings.json names, as written: the loaders resolve the patterns."""

    folder: Path
    """What relative paths are relative to."""
    is_project: bool
    packages: tuple[str | JsonObject, ...] = ()
    """Sources, or objects with a source and patterns."""
    extensions: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    themes: tuple[str, ...] = ()


@dataclass(slots=True, frozen=True)
class Settings:
    """The current settings."""

    default_provider: str | None = None
    default_model: str | None = None
    default_thinking_level: ThinkingLevel = "medium"
    model_thinking_levels: Mapping[str, ThinkingLevel] = field(default_factory=dict[str, ThinkingLevel])
    """The level that a process starts with, by `provider/id`; takes precedence over the default."""
    thinking_budgets: Mapping[ThinkingLevel, int] = field(default_factory=dict[ThinkingLevel, int])
    """Thinking tokens by level; a missing level has the provider's own budget."""
    enabled_models: tuple[str, ...] = ()
    default_tools: tuple[str, ...] | None = None
    """Names, or changes of the default tools; None: the default tools."""
    steering_mode: QueueMode = "one-at-a-time"
    follow_up_mode: QueueMode = "one-at-a-time"
    session_dir: str | None = None
    """Where session files are stored, by the user's file."""
    project_session_dir: str | None = None
    """The same by the project's file."""
    shell_path: str | None = None
    shell_command_prefix: str | None = None
    shell_provider_keys: bool = False
    """Whether commands see the variables that hold the providers' keys."""
    compaction: CompactionSettings = field(default_factory=CompactionSettings)
    retry: RetrySettings = field(default_factory=RetrySettings)
    http_idle_timeout_ms: int = 300_000
    """How long a provider may be silent within a response; 0: forever."""
    http_proxy: Secret | None = None
    """An address, which may contain a password; the environment takes precedence over it."""
    resizes_images: bool = True
    blocks_images: bool = False
    """Whether images are withheld from models."""
    # DEVIATION D-95: nothing is spent for an agent that may have no user in front of it.
    cache_warming: CacheWarming = "off"
    """Whether the provider's cache of a conversation is kept alive: never, while a run goes on, or for a while after it
    too."""
    limits: RunLimits = RunLimits()
    """The limits of one run; flags take precedence over them."""
    tool_timeout_s: float | None = None
    """The timeout of a tool call without one of its own; None: none."""
    max_subagents: int | None = None
    """How many agents that this one starts may work at the same time; None: the usual number."""
    max_subagent_depth: int | None = None
    """How many agents may be below each other; None: the usual number."""
    default_project_trust: ProjectTrust = "ask"
    rechecks_project_trust: bool = False
    """Whether a project that has changed since it was trusted loses its trust."""
    enables_skill_commands: bool = True
    sandbox: "SandboxSettings | None" = None
    """By the user's file."""
    project_sandbox: "SandboxSettings | None" = None
    """The same by the project's file, which may only tighten."""
    resources: tuple[ResourceSettings, ...] = ()
    """Of the project, then of the user; without files that name none."""

    @property
    def max_retry_after_s(self) -> float | None:
        """The longest wait that a server may ask for; None: `retry.max_delay_ms`."""
        wanted = self.retry.max_server_delay_ms
        return inf if wanted == 0 else None if wanted is None else wanted / 1000

    @property
    def idle_timeout_s(self) -> float | None:
        """How long a model's server may be silent; None: forever."""
        own = self.retry.timeout_ms
        return (self.http_idle_timeout_ms if own is None else own) / 1000 or None

    def thinking_level_of(self, model: Model | None) -> ThinkingLevel:
        """Return the level that a process starts with unless a flag or the session names one."""
        name = f"{model['provider']}/{model['id']}" if model is not None else ""
        return self.model_thinking_levels.get(name, self.default_thinking_level)


class LoadedSettings(NamedTuple):
    """The settings, and the problems in their files."""

    settings: Settings
    diagnostics: tuple[Diagnostic, ...] = ()
    refusals: tuple[str, ...] = ()
    """The problems in limits and guards; no run may start with them."""
    others: tuple[Diagnostic, ...] = ()
    """Keys that are not known and resemble none: an extension may read them, so that a start does not report them."""


def read_settings(path: Path, project: Path | None = None) -> LoadedSettings:
    """Read the settings of the user's file and of a trusted project's. A missing file counts as empty."""
    user = read_scope(path)
    return settings_in(user, None if project is None else read_scope(project, is_project=True))


def settings_in(user: Scope, project: Scope | None = None) -> LoadedSettings:
    """Build the settings from files that were read."""
    reader = SettingsReader([user] if project is None else [project, user])
    settings = _settings(reader)
    _find_misspelled(reader)
    if any(scope.content for scope in reader.scopes):
        from pinnace_agent.config.settings_hints import add_hints  # not at a start without settings

        add_hints(reader, settings)
    return LoadedSettings(settings, reader.diagnostics, reader.refusals, reader.others)


def _find_misspelled(reader: SettingsReader) -> None:
    """Report unknown keys of limits and guards."""
    for group, members in GUARDED_MEMBERS.items():
        reader.members(group, members)
    reader.misspelled({group: GUARDED_MEMBERS[group] for group in ("limits", "tools")}, (*GUARDED_MEMBERS,))


def _settings(reader: SettingsReader) -> Settings:
    default = Settings()
    session_dirs = reader.each("sessionDir", _text, "a string")
    sandboxes: dict[Scope, SandboxSettings] = {}
    if any("sandbox" in scope.content for scope in reader.scopes):
        from pinnace_agent.config.sandbox_settings import sandboxes_in

        sandboxes = sandboxes_in(reader)
    return Settings(
        default_provider=reader.text("defaultProvider"),
        default_model=reader.text("defaultModel"),
        default_thinking_level=reader.choice("defaultThinkingLevel", THINKING_LEVELS, default.default_thinking_level),
        model_thinking_levels=reader.table(
            "modelThinkingLevels",
            lambda value: value if is_level(value) else None,
            f"one of {', '.join(THINKING_LEVELS)}",
        ),
        thinking_budgets=_thinking_budgets(reader),
        enabled_models=reader.texts("enabledModels"),
        default_tools=_default_tools(reader),
        steering_mode=reader.choice("steeringMode", QUEUE_MODES, default.steering_mode),
        follow_up_mode=reader.choice("followUpMode", QUEUE_MODES, default.follow_up_mode),
        session_dir=next((text for scope, text in session_dirs.items() if not scope.is_project), None) or None,
        project_session_dir=next((text for scope, text in session_dirs.items() if scope.is_project), None) or None,
        shell_path=reader.text("shellPath"),
        shell_command_prefix=reader.text("shellCommandPrefix"),
        shell_provider_keys=reader.flag("shellProviderKeys", default.shell_provider_keys),
        compaction=_compaction(reader),
        retry=_retry(reader),
        http_idle_timeout_ms=_timeout(reader, "httpIdleTimeoutMs", default.http_idle_timeout_ms),
        http_proxy=None if (proxy := reader.text("httpProxy")) is None else Secret(proxy),
        resizes_images=reader.flag("images.autoResize", default.resizes_images),
        blocks_images=reader.flag("images.blockImages", default.blocks_images),
        cache_warming=reader.choice("cacheWarming", CACHE_WARMING, default.cache_warming),
        limits=RunLimits(
            _limit(reader, "limits.maxTurns", whole_number, "a whole number"),
            _limit(reader, "limits.maxCost", _amount, "a number of USD"),
            _limit(reader, "limits.maxRunSeconds", _amount, "a number of seconds"),
        ),
        tool_timeout_s=_limit(reader, "tools.timeoutSeconds", _amount, "a number of seconds"),
        max_subagents=reader.take("tools.maxSubagents", whole_number, None, "a whole number"),
        max_subagent_depth=reader.take("tools.maxSubagentDepth", whole_number, None, "a whole number"),
        default_project_trust=reader.choice("defaultProjectTrust", PROJECT_TRUST, default.default_project_trust),
        rechecks_project_trust=reader.flag("recheckProjectTrust", default.rechecks_project_trust),
        enables_skill_commands=reader.flag("enableSkillCommands", default.enables_skill_commands),
        sandbox=next((each for scope, each in sandboxes.items() if not scope.is_project), None),
        project_sandbox=next((each for scope, each in sandboxes.items() if scope.is_project), None),
        resources=_resources(reader),
    )


def _compaction(reader: SettingsReader) -> CompactionSettings:
    default = CompactionSettings()
    return CompactionSettings(
        reader.flag("compaction.enabled", default.is_enabled),
        reader.integer("compaction.reserveTokens", default.reserve_tokens),
        reader.integer("compaction.keepRecentTokens", default.keep_recent_tokens),
        reader.table(
            "compaction.modelOverrides",
            _token_override,
            "an object whose reserveTokens and keepRecentTokens are whole numbers",
            lambda user, project: TokenOverride(
                *(mine if theirs is None else theirs for mine, theirs in zip(user, project, strict=True))
            ),
        ),
    )


def _retry(reader: SettingsReader) -> RetrySettings:
    default = RetrySettings()
    return RetrySettings(
        reader.flag("retry.enabled", default.is_enabled),
        reader.integer("retry.maxRetries", default.max_retries),
        reader.integer("retry.baseDelayMs", default.base_delay_ms),
        reader.integer("retry.maxAgentDelayMs", default.max_delay_ms),
        _timeout(reader, "retry.provider.timeoutMs", default.timeout_ms),
        reader.integer("retry.provider.maxRetryDelayMs", default.max_server_delay_ms),
    )


def _timeout(reader: SettingsReader, name: str, default: _T) -> int | _T:
    def convert(value: object) -> int | None:
        return 0 if value == "disabled" else whole_number(value)

    return reader.take(name, convert, default, f'a whole number from 0 to {MAX_INTEGER}, or "disabled"')


def _limit(reader: SettingsReader, name: str, convert: Callable[[object], _T | None], expected: str) -> _T | None:
    """Read a limit; 0: unlimited."""
    return reader.take(name, convert, None, expected) or None


def _amount(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= MAX_INTEGER else None


def _thinking_budgets(reader: SettingsReader) -> dict[ThinkingLevel, int]:
    budgets: dict[ThinkingLevel, int] = {}
    for level in BUDGETED_LEVELS:
        tokens = reader.integer(f"thinkingBudgets.{level}", None)
        if tokens is not None:
            budgets[level] = tokens
    return budgets


def _default_tools(reader: SettingsReader) -> tuple[str, ...] | None:
    """Return the list of tools; a project whose list holds only changes changes the user's list."""
    lists = reader.each("defaultTools", texts_of, "a list of strings")
    user = next((words for scope, words in lists.items() if not scope.is_project), None)
    project = next((words for scope, words in lists.items() if scope.is_project), None)
    if project and all(word[:1] in {"+", "-"} for word in project):
        return (*(user or ()), *project) if user != () else ("-*", *project)
    return user if project is None else project


def _resources(reader: SettingsReader) -> tuple[ResourceSettings, ...]:
    source = "with a source"
    packages: dict[Scope, tuple[str | JsonObject, ...]] = reader.items(
        "packages", _package, f"string or object {source}", f"strings and objects {source}"
    )
    names = ("extensions", "skills", "prompts", "themes")
    extensions, skills, prompts, themes = (reader.items(name, _text, "string", "strings") for name in names)
    return tuple(
        ResourceSettings(
            scope.path.parent,
            scope.is_project,
            packages.get(scope, ()),
            extensions.get(scope, ()),
            skills.get(scope, ()),
            prompts.get(scope, ()),
            themes.get(scope, ()),
        )
        for scope in reader.scopes
        if any(scope in named for named in (packages, extensions, skills, prompts, themes))
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _token_override(value: object) -> TokenOverride | None:
    if not is_object(value) or not value.keys() <= {"reserveTokens", "keepRecentTokens"}:
        return None
    figures = [value.get(name) for name in ("reserveTokens", "keepRecentTokens")]
    numbers = [None if figure is None else whole_number(figure) for figure in figures]
    if any(number is None and figure is not None for number, figure in zip(numbers, figures, strict=True)):
        return None
    return TokenOverride(*numbers)


def _package(value: object) -> str | JsonObject | None:
    if isinstance(value, str):
        return value
    return value if is_object(value) and isinstance(value.get("source"), str) else None
