"""The group `sandbox` of settings.json: its values, and how each file is read by itself.

Which of them applies is decided in `sandbox`: a project's value takes no precedence here.
"""

from typing import Final, Literal, NamedTuple, get_args

from pinnace_agent.config.settings_reader import Scope, SettingsReader, among, texts_of
from pinnace_agent.files.relaxed_json import is_object

SandboxMode = Literal["off", "workspace-write", "read-only"]
SandboxSwitch = Literal["on", "off"]
SandboxEscalation = Literal["ask", "never"]
SandboxMechanism = Literal["bubblewrap", "landlock", "seatbelt"]

SANDBOX_MODES: Final[tuple[SandboxMode, ...]] = get_args(SandboxMode)
SANDBOX_SWITCH: Final[tuple[SandboxSwitch, ...]] = get_args(SandboxSwitch)
SANDBOX_ESCALATIONS: Final[tuple[SandboxEscalation, ...]] = get_args(SandboxEscalation)
SANDBOX_MECHANISMS: Final[tuple[SandboxMechanism, ...]] = get_args(SandboxMechanism)


class SandboxSettings(NamedTuple):
    """What one settings.json says of the sandbox; None: nothing. Which of it applies is decided in `sandbox`."""

    mode: SandboxMode | None = None
    network: SandboxSwitch | None = None
    writable: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    hide: tuple[str, ...] = ()
    unix_sockets: bool | None = None
    escalation: SandboxEscalation | None = None
    mechanism: SandboxMechanism | None = None
    is_enforced: bool | None = None
    new_repository: bool | None = None
    environment: tuple[str, ...] = ()


def sandboxes_in(reader: SettingsReader) -> dict[Scope, SandboxSettings]:
    """Read the group of each file by itself: a project's value takes no precedence."""
    scopes = reader.each("sandbox", lambda value: value if is_object(value) else None, "an object")
    if not scopes:
        return {}
    modes: dict[Scope, SandboxMode] = reader.each(
        "sandbox.mode", among(SANDBOX_MODES), f"one of {', '.join(SANDBOX_MODES)}"
    )
    networks: dict[Scope, SandboxSwitch] = reader.each(
        "sandbox.network", among(SANDBOX_SWITCH), " or ".join(SANDBOX_SWITCH)
    )
    lists = {
        name: reader.each(f"sandbox.{name}", _paths, "a list of absolute paths, or paths that begin with ~/")
        for name in ("writable", "readable", "hide")
    }
    flags = {
        name: reader.each(f"sandbox.{name}", lambda value: value if isinstance(value, bool) else None, "true or false")
        for name in ("unixSockets", "enforced", "newRepository")
    }
    variables = reader.each("sandbox.environment", _names, "a list of names of variables, in which * may stand")
    escalations: dict[Scope, SandboxEscalation] = reader.each(
        "sandbox.escalation", among(SANDBOX_ESCALATIONS), " or ".join(SANDBOX_ESCALATIONS)
    )
    mechanisms: dict[Scope, SandboxMechanism] = reader.each(
        "sandbox.mechanism", among(SANDBOX_MECHANISMS), f"one of {', '.join(SANDBOX_MECHANISMS)}"
    )
    for scope, is_enforced in flags["enforced"].items():
        if is_enforced and modes.get(scope) in {None, "off"} and not scope.is_project:
            reader.report(scope, "sandbox.enforced", "needs sandbox.mode, which is to be fixed")
    return {
        scope: SandboxSettings(
            modes.get(scope),
            networks.get(scope),
            lists["writable"].get(scope, ()),
            lists["readable"].get(scope, ()),
            lists["hide"].get(scope, ()),
            flags["unixSockets"].get(scope),
            escalations.get(scope),
            mechanisms.get(scope),
            flags["enforced"].get(scope),
            flags["newRepository"].get(scope),
            variables.get(scope, ()),
        )
        for scope in scopes
    }


def _names(value: object) -> tuple[str, ...] | None:
    texts = texts_of(value)
    return texts if texts is not None and all(each and "=" not in each and "\0" not in each for each in texts) else None


def _paths(value: object) -> tuple[str, ...] | None:
    texts = texts_of(value)
    is_valid = texts is not None and all(each.startswith(("/", "~/")) and "\0" not in each for each in texts)
    return texts if is_valid else None
