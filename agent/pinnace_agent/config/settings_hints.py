"""Hints about settings.json: keys that neither this program nor pi knows, and values that can't work.

Hints cost nothing: every known value is used. An unknown key at the top that resembles no known one may be that of an
extension, and is reported by `pinnace doctor` alone. Loaded with the first setting.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pinnace_agent.config.settings_reader import BUDGETED_LEVELS, GUARDED_MEMBERS, Scope, SettingsReader
from pinnace_agent.files.relaxed_json import is_object

if TYPE_CHECKING:  # it loads this module
    from pinnace_agent.config.settings import Settings

# An unknown key at the top that is not as similar to a known one is most probably that of an extension.
_RESEMBLING: Final = 0.75
# Longer names of keys are cut.
_MAX_SHOWN: Final = 100

# Of other objects whose members are all known, those of pi among them: an unknown member has no effect, no more.
_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "branchSummary": ("reserveTokens", "skipPrompt"),
    "codemode": ("mode", "inlineBudget"),
    "images": ("autoResize", "blockImages"),
    "logins": ("kimi-coding", "xai"),
    "markdown": ("codeBlockIndent", "mermaid"),
    "mcp": ("startupWaitSeconds", "maxTools"),
    "terminal": (
        "clearOnShrink",
        "hyperlinks",
        "imageWidthCells",
        "images",
        "showImages",
        "showTerminalProgress",
        "trueColor",
    ),
    "thinkingBudgets": BUDGETED_LEVELS,
    "warnings": ("anthropicExtraUsage",),
}
KNOWN_KEYS: Final = frozenset(
    """
    $schema autocompleteMaxVisible cacheWarming collapseChangelog defaultModel defaultProjectTrust defaultProvider
    defaultThinkingLevel defaultTools deviceId doubleEscapeAction editorPaddingX enableAnalytics
    enableInstallTelemetry enableSkillCommands enabledModels extensionChangelogVersions extensions externalEditor
    followUpMode fullscreenCopyOnSelect fullscreenExitOutput fullscreenScrollbar fullscreenWheelScrollLines
    hideThinkingBlock httpIdleTimeoutMs httpProxy lastChangelogVersion modelThinkingLevels npmCommand outputPad
    packages prompts queueMode quietStartup recheckProjectTrust selfUpdateCommand sessionDir sessionShareDestination
    shellCommandPrefix shellPath shellProviderKeys showCacheMissNotices showHardwareCursor skills steeringMode theme
    themes trackingId transport treeFilterMode tuiMode websocketConnectTimeoutMs websockets
    """.split()
    + [group for group in (*GUARDED_MEMBERS, *_MEMBERS) if "." not in group]
)
"""Every key at the top that this program or pi knows."""


def add_hints(reader: SettingsReader, settings: "Settings") -> None:
    """Add the hints about the files that were read to the problems in them."""
    for scope in reader.scopes:
        _add_unknown(reader, scope)
    _find_useless(reader, settings)


def _add_unknown(reader: SettingsReader, scope: Scope) -> None:
    unknown = [name for name in sorted(scope.content.keys() - KNOWN_KEYS) if not reader.is_reported(scope, name)]
    members = {
        f"{group}.{name}": known
        for group, known in sorted(_MEMBERS.items())
        if is_object(value := scope.content.get(group))
        for name in sorted(value.keys() - set(known))
    }
    if not unknown and not members:
        return
    from pinnace_spec.nearest import did_you_mean, nearest  # imported only after a mistake

    for name in unknown:
        if (near := nearest(name, KNOWN_KEYS, _RESEMBLING)) is None:
            reader.leave(scope, name[:_MAX_SHOWN])
        else:
            reader.hint(scope, name[:_MAX_SHOWN], f"is not known; did you mean {near}?")
    for path, known in members.items():
        group, _, name = path.partition(".")
        reader.hint(scope, f"{group}.{name[:_MAX_SHOWN]}", f"is not known{did_you_mean(name, known)}")


def _hint(reader: SettingsReader, name: str, message: str) -> None:
    if (scope := reader.source(name)) is not None:
        reader.hint(scope, name, message)


def _find_useless(reader: SettingsReader, settings: "Settings") -> None:
    """Report values of the right type that can't work, as hints: what uses them fails."""
    if settings.shell_path is not None and (problem := _shell_problem(settings.shell_path)) is not None:
        _hint(reader, "shellPath", f"{problem}, so that commands will fail")
    if settings.http_proxy is not None:
        from pinnace_agent.llm.transport.proxies import proxy_problem

        if (problem := proxy_problem(settings.http_proxy.reveal())) is not None:
            _hint(reader, "httpProxy", f"{problem}, so that requests to models will fail")
    if (settings.default_model is None) != (settings.default_provider is None):
        given, missing = ("defaultModel", "defaultProvider")[:: 1 if settings.default_model is not None else -1]
        _hint(reader, given, f"has no effect without {missing}")


def _shell_problem(path: str) -> str | None:
    """Return why a shell can't be started; None: it probably can."""
    path = os.path.expanduser(path)
    if not os.path.exists(path):
        return "no such file" if "/" in path else "must be a path, such as /bin/bash; there is no such file here"
    if os.path.isdir(path):
        return "is a folder"
    return None if os.access(path, os.X_OK) else "is not executable"
