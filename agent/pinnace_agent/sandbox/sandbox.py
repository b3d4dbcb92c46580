"""The sandbox of one process: set up at the start, or the process does not start.

Chooses the mechanism: the one that the settings name, or bubblewrap, or Landlock where that is not available and the
mode is `read-only`. Nothing falls back to no sandbox. Blocking.
"""

import atexit
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence

from pinnace_agent.config.sandbox_settings import SandboxMode, SandboxSettings, SandboxSwitch
from pinnace_agent.config.settings import Settings
from pinnace_agent.core.ports.confinement import Confinement
from pinnace_agent.files.paths import agent_dir, expand_home, home_dir
from pinnace_agent.sandbox.file_helper import FileHelpers
from pinnace_agent.sandbox.landlock import LIMITS, LandlockConfinement, landlock_refusal
from pinnace_agent.sandbox.landlock_program import landlock_abi
from pinnace_agent.sandbox.launcher import BubblewrapConfinement
from pinnace_agent.sandbox.layout import SandboxPlaces, Unprotectable, check_places
from pinnace_agent.sandbox.policy import SandboxPolicy, ignored_settings, policy_of
from pinnace_agent.sandbox.private_folder import PrivateFolder
from pinnace_agent.sandbox.probe import Unavailable, find_bubblewrap, probe
from pinnace_agent.session.conversation import Session
from pinnace_agent.shell.child_processes import CHILDREN, Child
from pinnace_agent.tools.base import Tool
from pinnace_agent.tools.bash import BashTool, SandboxFacts
from pinnace_agent.tools.local.file_calls import FILE_CALLS

__all__ = ["Sandbox", "Unavailable", "expanded", "places_of", "set_up", "start_sandbox"]


class Sandbox:
    """A sandbox that works: a probe has run in it."""

    def __init__(  # each is another fact
        self,
        policy: SandboxPolicy,
        places: SandboxPlaces,
        confinement: BubblewrapConfinement | LandlockConfinement,
        private: PrivateFolder,
        *,
        mechanism: str,
        version: str,
        limits: Sequence[str] = (),
    ) -> None:
        """Take what `set_up` has made."""
        self.policy = policy
        self.places = places
        self.mechanism = mechanism
        self.version = version
        """Of the mechanism."""
        self.limits = tuple(limits)
        """What the mechanism does not enforce, or what does not work inside."""
        self._confinement = confinement
        self._private = private

    @property
    def confinement(self) -> Confinement:
        """What starts programs inside."""
        return self._confinement

    def view(self) -> object:
        """Return what a program that is started now would see; a value to compare.

        Raises:
            OSError: Something can't be protected.
        """
        return self._confinement.layout()

    @property
    def may_escalate(self) -> bool:
        """Whether the user may be asked to run a command outside."""
        return self.policy.may_escalate

    @property
    def writable(self) -> list[str]:
        """The folders that commands can write, beside their temporary files."""
        if self.policy.mode != "workspace-write":
            return []
        return [self.places.folder, *map(os.path.realpath, self.policy.writable)]

    def record(self) -> dict[str, object]:
        """Return what `hello` and `get_state` say."""
        record: dict[str, object] = {
            "mode": self.policy.mode,
            "network": "on" if self.policy.network else "off",
            "mechanism": self.mechanism,
            "version": self.version,
            "writable": self.writable,
        }
        if self.limits:
            record["limits"] = list(self.limits)
        if (problem := self._confinement.problem) is not None:
            record["problem"] = problem
        return record

    def line(self) -> str:
        """Return the line about it on stderr."""
        network = "the network of this machine" if self.policy.network else "no network"
        where = ", ".join(self.writable) or "nothing"
        return (
            f"commands run in a sandbox ({self.policy.mode}, {self.mechanism} {self.version}): {network}, "
            f"{where} is writable" + "".join(f"; {each}" for each in self.limits)
        )

    def tools(self, tools: Mapping[str, Tool]) -> dict[str, Tool]:
        """Return tools with those that know of the sandbox in their places."""
        facts = SandboxFacts(self.policy.mode, tuple(self.writable), self.policy.network, self.may_escalate)
        return {**tools, "bash": BashTool(sandbox=facts)}

    def close(self) -> None:
        """End what the mechanism keeps, and remove the private folder."""
        self._confinement.close()
        self._private.close()


def start_sandbox(  # what options and settings hold
    mode: SandboxMode | None,
    network: SandboxSwitch | None,
    extensions: Sequence[str],
    settings: Settings,
    session: Session,
    notice: Callable[[str], None],
) -> Sandbox | None:
    """Set up the sandbox of a process, and start all its programs inside from now on; None: there is to be none.

    Args:
        mode: `--sandbox`.
        network: `--sandbox-network`.
        extensions: Paths of extensions of the command line.
        settings: The user's, and a trusted project's.
        session: The session of the start.
        notice: Reports to the user.

    Raises:
        Unavailable: It can't be enforced.
    """
    user, project = (each or SandboxSettings() for each in (settings.sandbox, settings.project_sandbox))
    policy = policy_of(mode, network, user, project)
    if not policy.is_active:
        if network is not None:
            raise Unavailable("--sandbox-network needs a sandbox: add --sandbox")
        return None
    if ignored := ignored_settings(project):
        notice(f"a project can't loosen the sandbox: {', '.join(ignored)} of its settings has no effect")
    session_dir = None if session.path is None else os.path.dirname(session.path)
    places = places_of(os.environ, session.cwd, session_dir, extensions)
    try:
        sandbox = set_up(expanded(policy, os.environ), places, os.environ)
    except Unavailable as error:
        raise Unavailable(f"the sandbox ({policy.mode}) can't be enforced, so nothing is started: {error}") from None
    atexit.register(sandbox.close)
    CHILDREN.confinement = sandbox.confinement
    FILE_CALLS.use(_file_helpers(sandbox))
    notice(sandbox.line())
    if os.geteuid() == 0:
        notice("the sandbox is weaker for root, who can read what all users can; start as an ordinary user")
    return sandbox


def _file_helpers(sandbox: Sandbox) -> FileHelpers:
    """Return what performs the calls of the file tools inside."""

    async def start(arguments: list[str], *, stdin: int, stdout: int, stderr: int) -> Child:
        # Of the environment a helper needs nothing, and the keys in it are none of its business.
        return await CHILDREN.start(arguments, stdin=stdin, stdout=stdout, stderr=stderr, env={}, cwd="/")

    has_mounts = sandbox.mechanism == "bubblewrap"
    return FileHelpers(start, sandbox.policy.mode, view=sandbox.view, has_mounts=has_mounts)


def expanded(policy: SandboxPolicy, env: Mapping[str, str]) -> SandboxPolicy:
    """Return a policy whose paths are absolute."""
    from dataclasses import replace

    def each(paths: Sequence[str]) -> tuple[str, ...]:
        return tuple(expand_home(path, env) for path in paths)

    return replace(policy, writable=each(policy.writable), readable=each(policy.readable), hide=each(policy.hide))


def places_of(
    env: Mapping[str, str], folder: str, session_dir: str | None = None, extensions: Sequence[str] = ()
) -> SandboxPlaces:
    """Return the folders of this process and its user.

    Args:
        env: The environment.
        folder: The working folder.
        session_dir: The folder of session files; None: there is none.
        extensions: Paths of extensions of the command line, whose code this process runs.
    """
    packages = [
        path
        for name, module in list(sys.modules.items())
        if name.startswith("pinnace") and "." not in name
        for path in getattr(module, "__path__", ())
    ]
    code = [sys.prefix, *packages, *(each for each in extensions if os.path.exists(each))]
    return SandboxPlaces(
        folder=os.path.realpath(folder),
        home=os.path.realpath(home_dir(env)),
        agent_dir=os.path.realpath(agent_dir(env)),
        session_dir=None if session_dir is None else os.path.realpath(session_dir),
        code=tuple(dict.fromkeys(map(os.path.realpath, code))),
        outputs=(os.path.join(os.path.realpath(tempfile.gettempdir()), f"pinnace-{os.geteuid()}"),),
    )


def set_up(policy: SandboxPolicy, places: SandboxPlaces, env: Mapping[str, str]) -> Sandbox:
    """Find a mechanism that works, and run a probe in it.

    Raises:
        Unavailable: There is none, or the policy can't be enforced here; the text says what would help.
    """
    if policy.mechanism not in {None, "bubblewrap", "landlock"}:
        raise Unavailable(
            f"sandbox.mechanism: {policy.mechanism} is not supported by this version, only bubblewrap and landlock are"
        )
    try:
        check_places(policy, places)
    except Unprotectable as error:
        raise Unavailable(str(error)) from None
    try:
        private = PrivateFolder(places.folder)
    except OSError as error:
        raise Unavailable(
            f"the private folder of commands can't be made in {tempfile.gettempdir()}: {error}. "
            "TMPDIR names another folder for temporary files"
        ) from None
    try:
        return _chosen(policy, places, env, private)
    except BaseException:
        private.close()
        raise


def _chosen(policy: SandboxPolicy, places: SandboxPlaces, env: Mapping[str, str], private: PrivateFolder) -> Sandbox:
    if policy.mechanism == "landlock":
        return _with_landlock(policy, places, env, private)
    try:
        return _with_bubblewrap(policy, places, env, private)
    except Unavailable as error:
        # With Landlock too much of `workspace-write` does not work to be chosen without being asked for.
        if policy.mechanism is not None or policy.mode != "read-only":
            raise
        try:
            return _with_landlock(policy, places, env, private)
        except Unavailable as second:
            raise Unavailable(f"{error}. Landlock in its place: {second}") from None


def _with_bubblewrap(
    policy: SandboxPolicy, places: SandboxPlaces, env: Mapping[str, str], private: PrivateFolder
) -> Sandbox:
    bubblewrap = find_bubblewrap(env)
    confinement = BubblewrapConfinement(policy, places, bubblewrap, private)
    probe(confinement, env, places.folder)
    version = bubblewrap.version
    return Sandbox(policy, places, confinement, private, mechanism="bubblewrap", version=version)


def _with_landlock(
    policy: SandboxPolicy, places: SandboxPlaces, env: Mapping[str, str], private: PrivateFolder
) -> Sandbox:
    if (reason := landlock_refusal()) is not None:
        raise Unavailable(reason)
    confinement = LandlockConfinement(policy, places, private)
    probe(confinement, env, places.folder)
    version = f"ABI {landlock_abi()}"
    return Sandbox(policy, places, confinement, private, mechanism="landlock", version=version, limits=LIMITS)
