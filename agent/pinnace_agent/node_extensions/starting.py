"""Begins the extensions in Node of a session instance, with what is installed on this machine.

Decides whether an instance goes on with the process of the one before it, and what becomes of such extensions where no
node can run them: those that the command line names are failures, since one may be a gate; the others are left out with
one notice.
"""

import math
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, Protocol

from pinnace_agent.extensions.loading.discovery import DiscoveredExtensions
from pinnace_agent.extensions.loading.folders import LoadFailure
from pinnace_agent.extensions.loading.loading import Loader
from pinnace_agent.extensions.registration.registrations import ErrorSink
from pinnace_agent.node_extensions.host import NodeHost, NodeInstance
from pinnace_agent.node_extensions.launch import Launch, Limits
from pinnace_agent.node_extensions.program import NoNode, find_node, installed_pi

HANG_VARIABLE: Final = "PINNACE_NODE_HANG_S"
"""The seconds after which a process that does not respond is ended."""
PI_VERSION: Final = "1.5.2"
"""The release of pi whose names extensions find here."""


class StartJob(Protocol):
    """Starts a task of the agent under the name of the host's."""

    def __call__(
        self, work: Callable[[], Awaitable[None]], ended: Callable[[bool, BaseException | None], None], /
    ) -> None:
        """Start `work`; `ended` is called when it has unwound."""
        ...


class Scripts:
    """The extensions in Node of one agent, for one session instance after another."""

    def __init__(
        self,
        env: Mapping[str, str],
        start: Callable[[int], StartJob],
        report: ErrorSink,
        settings: Callable[[], Mapping[str, object]] = dict,
        trusted_folder: Callable[[], str | None] = lambda: None,
    ) -> None:
        """Start nothing yet.

        Args:
            env: The environment, which extensions have as a whole: they are programs of the user.
            start: Returns what starts the task of a process, by its number.
            report: Takes errors of extensions.
            settings: Reads the merged settings, which extensions may need while they load.
            trusted_folder: Returns the folder of the session, if its project is trusted by then.
        """
        self._env = env
        self._start = start
        self._report = report
        self._settings = settings
        self._trusted_folder = trusted_folder
        self._host: NodeHost | None = None
        self._hosts = 0

    async def run(
        self, found: DiscoveredExtensions, loader: Loader, cwd: str, *, draws: bool = False
    ) -> DiscoveredExtensions:
        """Let a loader run the scripts among what was found; without a node they are taken out of it, and reported.

        Cancelling ends the process.

        Args:
            found: What was found. Changed in place, and returned.
            loader: Gets what runs them.
            cwd: The working folder of the session.
            draws: Whether the client draws surfaces.
        """
        scripts = [each for each in found.candidates if each.is_script]
        if not scripts:
            return found
        try:
            loader.scripts = instance = await self._begun(cwd, draws=draws)
            instance.settings, instance.trusted_folder = self._settings, self._trusted_folder
        except NoNode as error:
            found.candidates = [each for each in found.candidates if not each.is_script]
            left_out: list[LoadFailure] = []
            for each in scripts:
                failure = LoadFailure(each.source["path"], f"is written in TypeScript or JavaScript, and {error}")
                (found.failures if each.source["scope"] == "temporary" else left_out).append(failure)
            found.left_out += left_out
            if left_out:
                more = f" and {len(left_out) - 1} more" if len(left_out) > 1 else ""
                text = f"extensions in TypeScript or JavaScript are left out: {left_out[0].path}{more}; {error}"
                found.notices.append(text)
        return found

    async def _begun(self, cwd: str, *, draws: bool) -> NodeInstance:
        """Begin an instance, in the process that runs where it was started in the same way.

        Raises:
            NoNode: There is no node that can run extensions, or a variable for it is wrong.
        """
        env = self._env
        limits, node = _limits(env), find_node(env)
        launch = Launch(node, cwd, dict(env), _cache_folder(env), installed_pi(env) or "", PI_VERSION, limits, draws)
        host = self._host
        if host is None or host.launch != launch or not await host.can_go_on():
            self.end()
            self._hosts += 1
            start = self._start(self._hosts)
            host = self._host = NodeHost(launch, lambda work: start(work, _ended), self._report)
        try:
            return await host.begin()
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """End the process, if one runs. Never waits."""
        if self._host is not None:
            self._host.end()
            self._host = None


def _ended(_is_cancelled: bool, _failure: BaseException | None) -> None:
    """Do nothing: the host reports its end itself."""


def _limits(env: Mapping[str, str]) -> Limits:
    given = env.get(HANG_VARIABLE, "")
    if not given:
        return Limits()
    try:
        hang_s = float(given)
    except ValueError:
        hang_s = math.nan
    if not 0 < hang_s < math.inf:
        raise NoNode(f"{HANG_VARIABLE} must be a number of seconds above 0, not {given!r}")
    return Limits(hang_s, min(hang_s, Limits().cancelled_s))


def _cache_folder(env: Mapping[str, str]) -> str:
    """Return the folder for what node has compiled, made for this user alone; empty: it can't be made."""
    root = env.get("XDG_CACHE_HOME") or (os.path.join(env["HOME"], ".cache") if env.get("HOME") else "")
    if not os.path.isabs(root):
        return ""
    folder = Path(root) / "pinnace" / "node"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError:
        return ""
    # What lies there is run: no other user may write it.
    return str(folder) if status.st_uid == os.getuid() and not status.st_mode & 0o022 else ""
