"""The process that refreshes one login and stores it: `login_refresh` starts it, and leaves it the lock.

A refresh token may be good once. Between its use and the file no end of the agent may come, so the exchange is made
here, in a session of its own: neither a kill of the agent nor that of its process group ends it, and signals that end
programs in order are ignored for the seconds that it takes.

Its arguments are the provider, the path of auth.json and the descriptors of the lock. It writes why it has failed to
stdout, as a JSON string without a token; nothing, if the login was stored. The reader may be gone.
"""

import json
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import trio

from pinnace_agent.config.credentials.auth_file import LockedAuth
from pinnace_agent.config.credentials.login_methods import device_login_of
from pinnace_agent.config.credentials.login_refresh import REFRESH_LIMIT_S, exchange
from pinnace_agent.config.credentials.logins import LoginFailed
from pinnace_agent.config.credentials.vendor_logins import LoginSettingsWrong
from pinnace_agent.llm.transport.client import close_clients
from pinnace_agent.shell.protection import protect


def main(arguments: Sequence[str]) -> None:
    """Refresh, store, release the lock, and say what has failed."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    protect()
    provider, path, *descriptors = arguments
    lock = LockedAuth(Path(path), descriptors=[int(each) for each in descriptors])
    try:
        trio.run(_refresh, provider, Path(path), lock)
    except Exception as error:  # the boundary: the process that waits reports it
        with suppress(OSError):  # it waits no longer
            sys.stdout.write(json.dumps(str(error) or type(error).__name__))
            sys.stdout.flush()
    finally:
        lock.release()


async def _refresh(provider: str, path: Path, lock: LockedAuth) -> None:
    """Refresh the login of a provider; it has expired, and others may want it, too."""
    try:
        method = device_login_of(provider, path.parent)
    except LoginSettingsWrong as why:
        raise LoginFailed(str(why)) from None
    login = lock.login(provider)
    if method is None or login is None:
        raise LoginFailed(f"there is no login for {provider} that can be refreshed")
    try:
        with trio.fail_after(REFRESH_LIMIT_S):
            await exchange(provider, login, method, lock)
    finally:
        await close_clients()


if __name__ == "__main__":
    main(sys.argv[1:])
