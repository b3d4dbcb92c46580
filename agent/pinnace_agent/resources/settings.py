"""settings.json in the agent folder: what this release uses of it, with its defaults.

Read only: nothing is written back, so a file of another program stays as it is. A value of the wrong type is
told and its default used; a damaged file is told and all defaults are used. Unknown keys are other programs'
business. The project's own settings.json needs the user's trust, which can't be given in this release: it is
not read.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from pinnace_agent.resources.diagnostics import Diagnostic, Problem
from pinnace_agent.resources.relaxed_json import (
    ConfigurationFileError,
    is_list,
    is_object,
    read_object,
)
from pinnace_agent.resources.thinking import is_level
from pinnace_spec.messages import QUEUE_MODES, THINKING_LEVELS, QueueMode, ThinkingLevel

_T = TypeVar("_T")

# More than a year of milliseconds, and more tokens than any model takes: a number above it is a slip.
_MAX_INTEGER: Final = 2**35


@dataclass(slots=True, frozen=True)
class CompactionSettings:
    """When the context is summarised, and how much of it stays."""

    is_enabled: bool = True
    reserve_tokens: int = 16_384
    keep_recent_tokens: int = 20_000


@dataclass(slots=True, frozen=True)
class RetrySettings:
    """How failed requests are repeated."""

    is_enabled: bool = True
    max_retries: int = 3
    base_delay_ms: int = 2_000
    max_delay_ms: int = 60_000
    """The longest wait between two attempts of a run."""


@dataclass(slots=True, frozen=True)
class Settings:
    """The user's settings."""

    default_provider: str | None = None
    default_model: str | None = None
    default_thinking_level: ThinkingLevel = "medium"
    enabled_models: tuple[str, ...] = ()
    steering_mode: QueueMode = "one-at-a-time"
    follow_up_mode: QueueMode = "one-at-a-time"
    session_dir: str | None = None
    """Where session files are kept. The user's own choice alone: a project's would let it collect them."""
    shell_path: str | None = None
    shell_command_prefix: str | None = None
    compaction: CompactionSettings = field(default_factory=CompactionSettings)
    retry: RetrySettings = field(default_factory=RetrySettings)
    http_idle_timeout_ms: int = 300_000
    """How long a provider may be silent within an answer; 0: for ever."""
    blocks_images: bool = False
    """Whether pictures are kept from models."""


class LoadedSettings(NamedTuple):
    """The settings, and what was wrong with their file."""

    settings: Settings
    diagnostics: tuple[Diagnostic, ...] = ()


def read_settings(path: Path) -> LoadedSettings:
    """Read the settings in a file. A missing file means the defaults."""
    try:
        content = read_object(path, is_relaxed=False)
    except ConfigurationFileError as error:
        problem = Problem("", str(error))
        return LoadedSettings(Settings(), (Diagnostic(str(path), (problem,), "default settings are used"),))
    if content is None:
        return LoadedSettings(Settings())
    reader = _Reader(content)
    settings = _settings(reader)
    if not reader.problems:
        return LoadedSettings(settings)
    return LoadedSettings(
        settings, (Diagnostic(str(path), tuple(reader.problems), "the default is used in its place"),)
    )


def _settings(reader: "_Reader") -> Settings:
    default = Settings()
    compaction, retry = default.compaction, default.retry
    return Settings(
        default_provider=reader.text("defaultProvider"),
        default_model=reader.text("defaultModel"),
        default_thinking_level=reader.level("defaultThinkingLevel", default.default_thinking_level),
        enabled_models=reader.texts("enabledModels"),
        # Older releases knew one mode, under the second name.
        steering_mode=reader.mode(reader.present("steeringMode", "queueMode"), default.steering_mode),
        follow_up_mode=reader.mode("followUpMode", default.follow_up_mode),
        session_dir=reader.text("sessionDir"),
        shell_path=reader.text("shellPath"),
        shell_command_prefix=reader.text("shellCommandPrefix"),
        compaction=CompactionSettings(
            reader.flag("compaction.enabled", compaction.is_enabled),
            reader.integer("compaction.reserveTokens", compaction.reserve_tokens),
            reader.integer("compaction.keepRecentTokens", compaction.keep_recent_tokens),
        ),
        retry=RetrySettings(
            reader.flag("retry.enabled", retry.is_enabled),
            reader.integer("retry.maxRetries", retry.max_retries),
            reader.integer("retry.baseDelayMs", retry.base_delay_ms),
            reader.integer("retry.maxAgentDelayMs", retry.max_delay_ms),
        ),
        http_idle_timeout_ms=reader.integer("httpIdleTimeoutMs", default.http_idle_timeout_ms),
        blocks_images=reader.flag("images.blockImages", default.blocks_images),
    )


class _Reader:
    """Takes values out of the file by their dotted name, and collects what is wrong with them."""

    def __init__(self, content: Mapping[str, object]) -> None:
        self.problems: list[Problem] = []
        self._content = content

    def present(self, *names: str) -> str:
        """Return the first of these names that the file has, or else the first."""
        return next((name for name in names if self._find(name) is not None), names[0])

    def text(self, name: str) -> str | None:
        return self._take(name, lambda value: value if isinstance(value, str) else None, None, "a text") or None

    def flag(self, name: str, default: bool) -> bool:
        return self._take(name, lambda value: value if isinstance(value, bool) else None, default, "true or false")

    def integer(self, name: str, default: int) -> int:
        return self._take(name, _whole_number, default, f"a whole number from 0 to {_MAX_INTEGER}")

    def level(self, name: str, default: ThinkingLevel) -> ThinkingLevel:
        expected = f"one of {', '.join(THINKING_LEVELS)}"
        return self._take(name, lambda value: value if is_level(value) else None, default, expected)

    def mode(self, name: str, default: QueueMode) -> QueueMode:
        expected = " or ".join(QUEUE_MODES)
        return self._take(
            name, lambda value: next((mode for mode in QUEUE_MODES if mode == value), None), default, expected
        )

    def texts(self, name: str) -> tuple[str, ...]:
        def convert(value: object) -> tuple[str, ...] | None:
            texts = [item for item in value if isinstance(item, str)] if is_list(value) else []
            return tuple(texts) if is_list(value) and len(texts) == len(value) else None

        return self._take(name, convert, (), "a list of texts")

    def _take(self, name: str, convert: Callable[[object], _T | None], default: _T, expected: str) -> _T:
        value = self._find(name)
        if value is None:
            return default
        converted = convert(value)
        if converted is None:
            self.problems.append(Problem(name, f"must be {expected}"))
            return default
        return converted

    def _find(self, name: str) -> object:
        """Return a value, or None if it is absent; null is as good as absent."""
        group, _, member = name.rpartition(".")
        if not group:
            return self._content.get(member)
        inner = self._content.get(group)
        if is_object(inner):
            return inner.get(member)
        problem = Problem(group, "must be an object")
        if inner is not None and problem not in self.problems:
            self.problems.append(problem)
        return None


def _whole_number(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value == int(value) and 0 <= value <= _MAX_INTEGER else None
