"""The policy of a sandbox: what commands may read, write and reach.

Pure. Combines the flags, the user's settings and a trusted project's: a flag takes precedence over the user's settings
unless they are enforced, a project only tightens. Has no knowledge of mechanisms, and never reads the disk.
"""

from dataclasses import dataclass, replace
from typing import Final

from pinnace_agent.config.sandbox_settings import (
    SandboxEscalation,
    SandboxMechanism,
    SandboxMode,
    SandboxSettings,
    SandboxSwitch,
)
from pinnace_agent.files.protected import STARTUP_AT_HOME, is_inside

_STRICTNESS: Final[dict[SandboxMode, int]] = {"off": 0, "workspace-write": 1, "read-only": 2}


@dataclass(slots=True, frozen=True)
class SandboxPolicy:
    """What commands may do. All paths are as the user wrote them, absolute, `~` expanded, links not resolved."""

    mode: SandboxMode = "off"
    network: bool = False
    """Whether commands have the network of the machine; else they have a loopback of their own."""
    writable: tuple[str, ...] = ()
    """Folders that are writable beside the working folder; none while the mode is read-only."""
    readable: tuple[str, ...] = ()
    """Paths that are shown although they are hidden by default."""
    hide: tuple[str, ...] = ()
    """Paths that are hidden in addition."""
    new_repository: bool = False
    """Whether commands may make a repository of the working folder, if it is none."""
    environment: tuple[str, ...] = ()
    """Names of variables that commands get although they hold keys."""
    unix_sockets: bool = False
    """Whether commands may open sockets of the family UNIX."""
    escalation: SandboxEscalation = "ask"
    mechanism: SandboxMechanism | None = None
    """The mechanism that the user's settings demand; None: the first one that works."""
    is_enforced: bool = False
    """Whether nothing may loosen it."""

    @property
    def is_active(self) -> bool:
        """Whether there is a sandbox."""
        return self.mode != "off"

    @property
    def may_escalate(self) -> bool:
        """Whether the user may be asked to run a command outside."""
        return self.escalation == "ask" and not self.is_enforced


def policy_of(
    mode: SandboxMode | None,
    network: SandboxSwitch | None,
    user: SandboxSettings,
    project: SandboxSettings | None = None,
) -> SandboxPolicy:
    """Return the policy of a process.

    Args:
        mode: `--sandbox`; None: not given.
        network: `--sandbox-network`; None: not given.
        user: The user's settings.
        project: A trusted project's.
    """
    chosen = SandboxPolicy(
        mode=user.mode or "off",
        network=user.network == "on",
        writable=user.writable,
        readable=user.readable,
        hide=user.hide,
        environment=user.environment,
        unix_sockets=bool(user.unix_sockets),
        new_repository=bool(user.new_repository),
        escalation=user.escalation or "ask",
        mechanism=user.mechanism,
        is_enforced=bool(user.is_enforced) and user.mode not in {None, "off"},
    )
    if chosen.is_enforced:
        # A fixed mode without a word about the network is one without a network.
        flags = SandboxSettings(mode=mode, network=network)
        return _tightened(_tightened(chosen, flags), project or SandboxSettings())
    if mode is not None:
        chosen = replace(chosen, mode=mode)
    if network is not None:
        chosen = replace(chosen, network=network == "on")
    return _tightened(chosen, project or SandboxSettings())


def _tightened(policy: SandboxPolicy, by: SandboxSettings) -> SandboxPolicy:
    """Return the policy with what these settings take away. What they would add is ignored."""
    mode = by.mode or "off"
    return replace(
        policy,
        mode=mode if _STRICTNESS[mode] > _STRICTNESS[policy.mode] else policy.mode,
        network=policy.network and by.network != "off",
        hide=(*policy.hide, *(each for each in by.hide if each not in policy.hide)),
        unix_sockets=policy.unix_sockets and by.unix_sockets is not False,
        new_repository=policy.new_repository and by.new_repository is not False,
        escalation="never" if by.escalation == "never" else policy.escalation,
    )


def is_as_strict(policy: SandboxPolicy, other: SandboxPolicy) -> bool:
    """Return whether a policy allows nothing that the other one does not."""
    return (
        _STRICTNESS[policy.mode] >= _STRICTNESS[other.mode]
        and policy.network <= other.network
        and set(policy.writable) <= set(other.writable)
        and set(policy.readable) <= set(other.readable)
        and set(policy.hide) >= set(other.hide)
        and set(policy.environment) <= set(other.environment)
        and policy.unix_sockets <= other.unix_sockets
        and policy.new_repository <= other.new_repository
        and policy.may_escalate <= other.may_escalate
    )


def ignored_settings(project: SandboxSettings) -> tuple[str, ...]:
    """Return the settings of a project that have no effect, since only the user may loosen."""
    found = {
        "writable": project.writable,
        "readable": project.readable,
        "environment": project.environment,
        "mechanism": project.mechanism,
        "enforced": project.is_enforced,
        "network": project.network == "on",
        "unixSockets": project.unix_sockets,
        "newRepository": project.new_repository,
        "escalation": project.escalation == "ask",
    }
    return tuple(f"sandbox.{name}" for name, value in found.items() if value)


def folder_refusal(mode: SandboxMode, folder: str, home: str, agent_dir: str) -> str | None:
    """Return why a working folder can't be made writable; None: it can. All paths are resolved."""
    if mode != "workspace-write" or (place := refused_place(folder, home, agent_dir)) is None:
        return None
    return (
        f"--sandbox workspace-write makes the working folder writable, and {folder} is {place}: start in the folder of "
        "a project, or use --sandbox read-only"
    )


def refused_place(folder: str, home: str, agent_dir: str) -> str | None:
    """Return what a folder is that is never made writable, for texts; None: it may be. All paths are resolved."""
    if folder == "/":
        return "the root of the file system"
    if folder == home:
        return "the home folder"
    if is_inside(home, folder):
        return "a folder above the home folder"
    if is_inside(folder, agent_dir):
        return "the agent folder"
    if is_inside(agent_dir, folder):
        return "a folder above the agent folder"
    # What shells, editors and git run by themselves is changed by no command, whatever the mode.
    starting = [f"{home.rstrip('/')}/{each}" for each in STARTUP_AT_HOME]
    if any(is_inside(folder, each) or is_inside(each, folder) for each in starting):
        return "a place of files that shells and other programs run when they start"
    return None
