"""Makes the host of extensions in Node for a session instance, from what is installed on this machine.

Decides what becomes of such extensions where no node can run them: those that the command line names are failures,
since one may be a gate; the others are left out with one notice.
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
from pinnace_agent.node_extensions.host import NodeHost
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


async def run_scripts(
    found: DiscoveredExtensions,
    loader: Loader,
    env: Mapping[str, str],
    cwd: str,
    start: StartJob,
    report: ErrorSink,
    *,
    settings: Callable[[], Mapping[str, object]] = dict,
    draws: bool = False,
) -> DiscoveredExtensions:
    """Let a loader run the scripts among what was found; without a node they are taken out of it, and reported.

    Args:
        found: What was found. Changed in place, and returned.
        loader: Gets the host.
        env: The environment.
        cwd: The working folder of the session.
        start: Starts the task of the host.
        report: Takes errors of extensions.
        settings: Reads the merged settings, which extensions may need while they load.
        draws: Whether the client draws surfaces.
    """
    try:
        loader.scripts = host = await node_host(env, cwd, start, report, draws=draws)
        host.settings = settings
    except NoNode as error:
        scripts = [each for each in found.candidates if each.is_script]
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


async def node_host(env: Mapping[str, str], cwd: str, start: StartJob, report: ErrorSink, *, draws: bool) -> NodeHost:
    """Return a host whose process is ready. Cancelling ends the process.

    Args:
        env: The environment, which extensions have as a whole: they are programs of the user.
        cwd: The working folder of the session.
        start: Starts the task of the host.
        report: Takes errors of extensions.
        draws: Whether the client draws surfaces.

    Raises:
        NoNode: There is no node that can run extensions, or a variable for it is wrong.
    """
    limits, node = _limits(env), find_node(env)
    launch = Launch(node, cwd, dict(env), _cache_folder(env), installed_pi(env) or "", PI_VERSION, limits, draws)
    host = NodeHost(launch, lambda work: start(work, _ended), report)
    try:
        await host.start()
    except BaseException:
        host.close()
        raise
    return host


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
