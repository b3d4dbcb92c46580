"""The sandbox of one process: set up at the start, or the process does not start.

Chooses the mechanism: the one that the settings name, or bubblewrap, or Landlock where that is not available and the
mode is `read-only`. Nothing falls back to no sandbox. The folder that commands may write is that of the session: with a
session of another folder the sandbox moves there, or the session is refused. Blocking.
"""

import atexit
import os
import pwd
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple, Protocol

import trio

from pinnace_agent.config.path_entries import PathEntries
from pinnace_agent.config.sandbox_settings import SandboxMode, SandboxSettings, SandboxSwitch
from pinnace_agent.config.settings import Settings
from pinnace_agent.core.ports.confinement import Access, Confinement, FolderRefused, HasSession
from pinnace_agent.core.ports.emitter import Emitter, extension_error
from pinnace_agent.files.paths import agent_dir, expand_home, home_dir
from pinnace_agent.files.places_of_keys import keys_named_by
from pinnace_agent.files.protected import HIDDEN, PROJECT_FOLDERS, WRITABLE, is_inside
from pinnace_agent.sandbox.bubblewrap import Layout
from pinnace_agent.sandbox.environment import withheld_variables
from pinnace_agent.sandbox.file_helper import FileHelpers
from pinnace_agent.sandbox.landlock import LandlockConfinement, landlock_refusal, limits_of
from pinnace_agent.sandbox.landlock_program import landlock_abi
from pinnace_agent.sandbox.landlock_supervisor import Supervisor
from pinnace_agent.sandbox.launcher import Bubblewrap, BubblewrapConfinement
from pinnace_agent.sandbox.layout import SESSION_VARIABLE, SandboxPlaces, check_places
from pinnace_agent.sandbox.policy import SandboxPolicy, ignored_settings, policy_of
from pinnace_agent.sandbox.private_folder import PrivateFolder
from pinnace_agent.sandbox.probe import Unavailable, find_bubblewrap, probe, probe_as_child
from pinnace_agent.sandbox.protections import Protections
from pinnace_agent.sandbox.repositories import Unprotectable
from pinnace_agent.sandbox.witness import marks_of, news_text
from pinnace_agent.shell.child_processes import Child, children
from pinnace_agent.shell.environment import WITHHELD
from pinnace_agent.tools.base import Tool
from pinnace_agent.tools.bash import BashTool, SandboxFacts
from pinnace_agent.tools.local.file_calls import FILE_CALLS

__all__ = ["Sandbox", "Unavailable", "expanded", "places_of", "set_up", "start_sandbox"]


class Mechanism(NamedTuple):
    """What enforces a sandbox."""

    name: str
    version: str
    confinement: "Callable[[SandboxPlaces], SandboxConfinement]"
    """Makes what starts programs, for a folder."""
    limits: Sequence[str] = ()
    """What it does not enforce, or what does not work inside."""


class SandboxConfinement(Confinement, Protocol):
    """What starts programs in a sandbox, as its owner uses it."""

    report: Callable[[str], None] | None
    """Takes what was found after a program: a change of something protected."""
    loaded: Callable[[], Sequence[str]]
    """Returns what this process has loaded code from since the start."""
    protections: Protections
    """What is protected as long as this process lives."""

    def layout(self, access: Access = "policy", session_file: str | None = None) -> Layout:
        """Resolve the policy on the disk of this moment.

        Raises:
            OSError: Something can't be protected.
        """
        ...

    def close(self) -> None:
        """End what the mechanism keeps beside its programs, which go on."""
        ...


class Sandbox:
    """A sandbox that works: a probe has run in it."""

    def __init__(self, policy: SandboxPolicy, places: SandboxPlaces, made: Mechanism, private: PrivateFolder) -> None:
        """Take what `set_up` has chosen."""
        self.policy = policy
        self.places = places
        self.mechanism = made.name
        self.version = made.version
        """Of the mechanism."""
        self.limits = tuple(made.limits)
        """What the mechanism does not enforce, or what does not work inside."""
        self._make = made.confinement
        self._private = private
        self._code: tuple[str, ...] = ()
        self._protections = Protections()
        self._protections.came = self._distrust
        self._agent: HasSession | None = None
        self._confinement = self._confined(places)
        self._problem: str | None = None
        self._emitter: Emitter | None = None
        self._bash: BashTool | None = None

    @property
    def confinement(self) -> SandboxConfinement:
        """What starts programs inside."""
        return self._confinement

    @property
    def session_file(self) -> str | None:
        """The file of the current session, which is shown; None: there is none."""
        return None if self._agent is None else self._agent.session.path

    def view(self) -> object:
        """Return what a program that is started now would see; a value to compare.

        Another one where a mount point may have been replaced: the mount of a program that runs has ended then.

        Raises:
            OSError: Something can't be protected.
        """
        path = self.session_file
        layout = self._confinement.layout("tools", path)
        if news := news_text(self._protections.unreported()):  # of the call before
            self._found(news)
        return layout, marks_of(layout), _file_of(path)

    def follow(self, agent: HasSession, emitter: Emitter) -> None:
        """Show the file of an agent's session, and report to its client that something protected has changed."""
        self._agent, self._emitter = agent, emitter

    async def prepare_folder(self, folder: str, session_file: str | None) -> "PreparedMove":
        """Find out whether the sandbox can be enforced for a session of another folder: a probe runs there.

        Cancelled, it changes nothing.

        Raises:
            FolderRefused: It can't; the text is for the user.
        """
        try:
            places = await trio.to_thread.run_sync(self._places_in, folder, session_file)
            if places.folder != self.places.folder:
                await probe_as_child(children(), self._made(places), places.folder)
        except (OSError, Unavailable) as error:
            reason = error.strerror or error if isinstance(error, OSError) else error
            raise FolderRefused(
                f"the sandbox ({self.policy.mode}) can't be enforced for a session in {folder}: {reason}"
            ) from None
        return PreparedMove(self, places)

    def _places_in(self, folder: str, session_file: str | None) -> SandboxPlaces:
        own = () if session_file is None else (os.path.realpath(os.path.dirname(session_file)),)
        dirs = tuple(dict.fromkeys((*self.places.session_dirs, *own)))
        places = self.places._replace(folder=os.path.realpath(folder), session_dirs=dirs)
        check_places(self.policy, places)
        return places

    def move(self, places: SandboxPlaces) -> None:
        """Confine what is started from now on to other places, in which a probe has run."""
        if places == self.places:
            return
        self.places = places
        _run_nothing_from(self.writable)
        self._confinement = self._confined(places)
        children().confinement = self._confinement
        if self._bash is not None:
            self._bash.use_sandbox(self._facts())

    def _made(self, places: SandboxPlaces) -> SandboxConfinement:
        if self.policy.mode == "workspace-write":
            self._private.uses(places.folder, *map(os.path.realpath, self.policy.writable))
        made = self._make(places)
        made.loaded = self._loaded
        made.protections = self._protections
        return made

    def _loaded(self) -> Sequence[str]:
        """Return the files of all extensions that were loaded; a reload that is under way loads them again."""
        extensions = None if self._agent is None else self._agent.extensions
        if extensions is not None:
            self._code = tuple(dict.fromkeys((*self._code, *map(os.path.realpath, extensions.files))))
        return self._code

    def _confined(self, places: SandboxPlaces) -> SandboxConfinement:
        made = self._made(places)
        made.report = self._found
        return made

    def _distrust(self, paths: Sequence[str]) -> None:
        """Let no trust in a folder above include what configures agents and has come since the start.

        A decision that the user makes for the folder itself counts, also an earlier one.
        """
        # Hardly ever needed, and not at the start.
        from pinnace_agent.config.trust import distrust, trust_file
        from pinnace_agent.files.file_lock import LockHeld
        from pinnace_agent.files.relaxed_json import ConfigurationFileError

        folders = {os.path.dirname(each) for each in paths if os.path.basename(each) in PROJECT_FOLDERS}
        for folder in sorted(folders - {self.places.folder}):
            try:
                distrust(trust_file(agent_dir(os.environ)), Path(folder))
            except (ConfigurationFileError, LockHeld, OSError) as error:
                self._found(f"{folder} has come since the start and is trusted with the folder above it: {error}")

    def _found(self, problem: str) -> None:
        """Report something to the client, from any thread."""
        try:
            trio.from_thread.run_sync(self._report, problem)
        except RuntimeError:  # in the event loop itself, or without one
            self._report(problem)

    def _report(self, problem: str) -> None:
        self._problem = problem
        if self._emitter is not None and self._agent is not None:
            # The record that every generation has for failures beside its commands.
            self._emitter.emit(extension_error(self._agent.session.cwd, "sandbox", problem))

    @property
    def may_escalate(self) -> bool:
        """Whether the user may be asked to run a command outside."""
        return self.policy.may_escalate

    @property
    def has_network(self) -> bool:
        """Whether commands have the network of the machine."""
        return self.policy.network

    @property
    def is_enforced(self) -> bool:
        """Whether nothing may loosen it."""
        return self.policy.is_enforced

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
        if limits := (*self.limits, *self._protections.limits, *_of_variables()):
            record["limits"] = list(limits)
        if self._problem is not None:
            record["problem"] = self._problem
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
        self._bash = BashTool(sandbox=self._facts())
        return {**tools, "bash": self._bash}

    def _facts(self) -> SandboxFacts:
        mode, has_mounts = self.policy.mode, self.mechanism == "bubblewrap"
        return SandboxFacts(mode, tuple(self.writable), self.policy.network, self.may_escalate, has_mounts)

    def close(self) -> None:
        """End what the mechanism keeps, and remove the private folder."""
        self._protections.news()  # what the last call has made
        self._confinement.close()
        self._private.close()


class PreparedMove(NamedTuple):
    """A session's folder in which a probe has run."""

    sandbox: Sandbox
    places: SandboxPlaces

    def enter(self) -> None:
        """Have the sandbox there. The places are those of the probe: no link is followed again."""
        self.sandbox.move(self.places)


def _of_variables() -> list[str]:
    """Return the line about variables that commands do not get, if there are any."""
    if not WITHHELD:
        return []
    return [f"not passed to commands, since they hold keys (sandbox.environment): {', '.join(sorted(WITHHELD))}"]


def _file_of(path: str | None) -> tuple[int, int] | None:
    """Return which file is at a path: the mount of a program that runs is that of the file before."""
    try:
        status = os.stat(path or "")
    except OSError:
        return None
    return status.st_dev, status.st_ino


def start_sandbox(  # what options and settings hold
    mode: SandboxMode | None,
    network: SandboxSwitch | None,
    extensions: Sequence[str],
    settings: Settings,
    folder: str,
    session_file: str | None,
    *,
    notice: Callable[[str], None],
    warn: Callable[[str], None],
) -> Sandbox | None:
    """Set up the sandbox of a process, and start all its programs inside from now on; None: there is to be none.

    Args:
        mode: `--sandbox`.
        network: `--sandbox-network`.
        extensions: Paths of extensions of the command line; those of the settings are known.
        settings: The user's, and a trusted project's.
        folder: The folder of the session of the start.
        session_file: Its file; None: it is not kept.
        notice: Reports to the user that there is one.
        warn: Reports what the user has to know about it.

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
        warn(f"a project can't loosen the sandbox: {', '.join(ignored)} of its settings has no effect")
    session_dir = None if session_file is None else os.path.dirname(session_file)
    try:
        sandbox = _made(policy, settings, folder, session_dir, extensions)
    except Unavailable as error:
        raise Unavailable(f"the sandbox ({policy.mode}) can't be enforced, so nothing is started: {error}") from None
    for each in _run_nothing_from(sandbox.writable):
        warn(f"nothing is imported from {each}, since commands can write there")
    HIDDEN[:] = sandbox.policy.hide
    WITHHELD.clear()
    WITHHELD.update(withheld_variables(os.environ, policy.environment))
    atexit.register(sandbox.close)
    children().confinement = sandbox.confinement
    FILE_CALLS.use(_file_helpers(sandbox))
    notice(sandbox.line())
    for line in _of_variables():
        notice(line)
    if os.geteuid() == 0:
        warn("as root, commands can read files of root that are not hidden; start as an ordinary user")
    return sandbox


def tried_sandbox(settings: Settings, folder: str) -> str:
    """Set up the sandbox that settings ask for, or `workspace-write` where they ask for none, and remove it again.

    Returns:
        A line about the sandbox that works.

    Raises:
        Unavailable: It can't be enforced.
    """
    user, project = (each or SandboxSettings() for each in (settings.sandbox, settings.project_sandbox))
    policy = policy_of(None, None, user, project)
    if not policy.is_active:
        policy = policy_of("workspace-write", None, user, project)
    sandbox = _made(policy, settings, folder, None, ())
    try:
        return sandbox.line()
    finally:
        sandbox.close()


def asks_for_sandbox(settings: Settings) -> bool:
    """Return whether settings ask for a sandbox."""
    user, project = (each or SandboxSettings() for each in (settings.sandbox, settings.project_sandbox))
    return policy_of(None, None, user, project).is_active


def _made(
    policy: SandboxPolicy, settings: Settings, folder: str, session_dir: str | None, extensions: Sequence[str]
) -> Sandbox:
    named = (PathEntries(each.extensions, str(each.folder), os.environ).paths for each in settings.resources)
    places = places_of(os.environ, folder, session_dir, (*extensions, *chain.from_iterable(named)))
    return set_up(expanded(policy, os.environ), places, os.environ)


def _run_nothing_from(roots: Sequence[str]) -> list[str]:
    """Run no program and import nothing any more from folders that commands can write; return those of the module path.

    Much is imported late, and so was what a command has written there. What holds this program's own packages stays.
    """
    WRITABLE[:] = roots
    own = {os.path.dirname(os.path.realpath(each)) for each in _own_packages()}
    prefix = os.path.realpath(sys.prefix)
    left_out: list[str] = []
    for entry in sys.path:
        real = os.path.realpath(entry)
        if any(is_inside(real, root) for root in roots) and real not in own and not is_inside(real, prefix):
            left_out.append(entry)
    sys.path[:] = [entry for entry in sys.path if entry not in left_out]
    return left_out


def _own_packages() -> list[str]:
    return [
        path
        for name, module in list(sys.modules.items())
        if name.startswith("pinnace") and "." not in name
        for path in getattr(module, "__path__", ())
    ]


def _file_helpers(sandbox: Sandbox) -> FileHelpers:
    """Return what performs the calls of the file tools inside."""

    async def start(arguments: list[str], *, stdin: int, stdout: int, stderr: int) -> Child:
        # Of the environment a helper needs nothing, and the keys in it are none of its business.
        path = sandbox.session_file
        env = {} if path is None else {SESSION_VARIABLE: path}
        return await children().start(
            arguments, stdin=stdin, stdout=stdout, stderr=stderr, env=env, cwd="/", access="tools"
        )

    has_mounts = sandbox.mechanism == "bubblewrap"
    return FileHelpers(start, sandbox.policy.mode, view=sandbox.view, has_mounts=has_mounts)


def expanded(policy: SandboxPolicy, env: Mapping[str, str]) -> SandboxPolicy:
    """Return a policy whose paths are absolute."""

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
        extensions: Paths of extensions, whose code this process runs.
    """
    code = [sys.prefix, *_own_packages(), *(each for each in extensions if os.path.exists(each))]
    home = os.path.realpath(home_dir(env))
    return SandboxPlaces(
        folder=os.path.realpath(folder),
        home=home,
        agent_dir=os.path.realpath(agent_dir(env)),
        session_dirs=() if session_dir is None else (os.path.realpath(session_dir),),
        code=tuple(dict.fromkeys(map(os.path.realpath, code))),
        runtime=_runtime(),
        outputs=_output_folders(),
        keys=_named_keys(env, os.path.realpath(folder), home),
        account_home=_account_home(home),
    )


def _named_keys(env: Mapping[str, str], folder: str, home: str) -> tuple[str, ...]:
    """Return the places of keys that variables name, without those in which the work itself would be hidden."""
    found = (os.path.realpath(each) for each in keys_named_by(env))
    return tuple(dict.fromkeys(each for each in found if not is_inside(folder, each) and not is_inside(home, each)))


def _runtime() -> tuple[str, ...]:
    """Return what the file helper and searches are run from, without folders below others of them."""
    found = {os.path.realpath(each) for each in (sys.prefix, sys.base_prefix, sys.base_exec_prefix, *_own_packages())}
    return tuple(sorted(each for each in found if not any(each != other and is_inside(each, other) for other in found)))


def _account_home(home: str) -> str | None:
    try:
        found = os.path.realpath(pwd.getpwuid(os.geteuid()).pw_dir)
    except KeyError:  # a number without an account, as in containers
        return None
    return found if found not in (home, "/") and os.path.isdir(found) else None


def _output_folders() -> tuple[str, ...]:
    try:
        base = tempfile.gettempdir()
    except FileNotFoundError:  # no place for temporary files can be written, and the private folder can't be made
        return ()
    return (os.path.join(os.path.realpath(base), f"pinnace-{os.geteuid()}"),)


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
    policy = _with_real_paths(policy)
    try:
        private = PrivateFolder(places.folder)
    except OSError as error:
        raise Unavailable(
            f"the private folder of commands can't be made: {error}. TMPDIR names another folder for temporary files"
        ) from None
    try:
        return _chosen(policy, places, env, private)
    except BaseException:
        private.close()
        raise


def _with_real_paths(policy: SandboxPolicy) -> SandboxPolicy:
    """Return a policy without links that lead elsewhere later: a command may be able to replace one."""
    writable, readable, hide = (
        tuple(map(os.path.realpath, each)) for each in (policy.writable, policy.readable, policy.hide)
    )
    return replace(policy, writable=writable, readable=readable, hide=tuple(dict.fromkeys((*policy.hide, *hide))))


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
    bubblewrap = find_bubblewrap(env, (places.folder, *policy.writable))
    make = partial(_bubblewrap, policy, bubblewrap, private)
    return _probed(Sandbox(policy, places, Mechanism("bubblewrap", bubblewrap.version, make), private), env)


def _with_landlock(
    policy: SandboxPolicy, places: SandboxPlaces, env: Mapping[str, str], private: PrivateFolder
) -> Sandbox:
    if (reason := landlock_refusal()) is not None:
        raise Unavailable(reason)
    if policy.unix_sockets:
        raise Unavailable(
            "Landlock does not keep commands from sockets of services, such as that of a container engine, so "
            "sandbox.unixSockets needs bubblewrap"
        )
    make = partial(_landlock, policy, private, Supervisor())
    return _probed(
        Sandbox(policy, places, Mechanism("landlock", f"ABI {landlock_abi()}", make, limits_of(policy.mode)), private),
        env,
    )


def _probed(sandbox: Sandbox, env: Mapping[str, str]) -> Sandbox:
    try:
        probe(sandbox.confinement, env, sandbox.places.folder)
    except BaseException:
        sandbox.confinement.close()
        raise
    return sandbox


def _bubblewrap(
    policy: SandboxPolicy, bubblewrap: Bubblewrap, private: PrivateFolder, places: SandboxPlaces
) -> SandboxConfinement:
    return BubblewrapConfinement(policy, places, bubblewrap, private)


def _landlock(
    policy: SandboxPolicy, private: PrivateFolder, supervisor: Supervisor, places: SandboxPlaces
) -> SandboxConfinement:
    return LandlockConfinement(policy, places, private, supervisor)
