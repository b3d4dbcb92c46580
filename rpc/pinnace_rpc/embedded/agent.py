"""`open_agent`: an agent in this process, with the methods of a client."""

import os
from collections.abc import Mapping, Sequence

from pinnace_agent.core.surroundings import Surroundings
from pinnace_rpc.client.client import EXIT_TIMEOUT_S, checked_command
from pinnace_rpc.client.connection.lifetime import Lifetime
from pinnace_rpc.client.conversation import Conversation
from pinnace_rpc.client.dialogs import Dialogs
from pinnace_rpc.embedded.log import redact_log
from pinnace_rpc.embedded.thread import AgentThread


class Agent(Conversation):
    """An agent in a thread of this process, from the beginning of `async with` to its end; see `open_agent`."""

    def __init__(
        self, flags: Sequence[str], surroundings: Surroundings, dialogs: Dialogs, exit_timeout_s: float
    ) -> None:
        """Prepare; `open_agent` does this."""
        super().__init__()
        self._flags = checked_command(flags)
        self._surroundings = surroundings
        self._dialogs = dialogs
        self._exit_timeout_s = exit_timeout_s

    async def _begin(self) -> Lifetime:
        redact_log()
        thread = AgentThread(self._flags, self._surroundings)
        lifetime = await Lifetime.serve(thread, self._dialogs, self._exit_timeout_s)
        try:
            await thread.started()
        except BaseException:
            await lifetime.leave()
            raise
        return lifetime


def open_agent(
    flags: Sequence[str] = (),
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    dialogs: Dialogs | None = None,
    exit_timeout_s: float = EXIT_TIMEOUT_S,
) -> Agent:
    """Prepare an agent in this process; `async with` starts it, under trio or asyncio, and ends it.

    Entering raises `StartFailed` if a flag, a file or a setting is wrong, and OSError if no descriptors are left. When
    the block is left, or cancelled, the agent's run is aborted, its commands are killed and its session is saved.

    Args:
        flags: Those of `pinnace --mode rpc`, but for what belongs to a process: logs, results, the sandbox.
        cwd: The folder that it works in; None: this process'. The process' own is left as it is.
        env: The environment for its settings, keys and commands; None: a copy of this process'. Proxies and
            certificates are always those of the process.
        dialogs: Answers the dialogs of its extensions; by default the answer is no.
        exit_timeout_s: How long a run may go on after the block was left, with the flag `--on-eof drain`.
    """
    folder = os.path.abspath(os.getcwd() if cwd is None else cwd)
    environment = dict(os.environ if env is None else env)
    return Agent(flags, Surroundings(environment, folder), dialogs or Dialogs(), exit_timeout_s)
