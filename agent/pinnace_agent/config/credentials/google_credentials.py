"""The tokens of Google's application default credentials, which requests carry.

`llm.google.location` finds the source, and `google_sources` asks for a token. A token is kept for the life of the
process until it expires. One that soon will is used while a new one is requested, so that no request waits for it. A
file is read for each new token, since it may have changed. No text has a secret.
"""

import time
from pathlib import Path
from typing import Final

import trio

from pinnace_agent.config.credentials.google_sources import token_of_file, token_of_machine
from pinnace_agent.config.credentials.logins import LoginFailed
from pinnace_agent.llm.google.location import GoogleSource

EARLY_S: Final = 240.0
"""How long before its end a token is replaced."""

# Between the check and the arrival of the request.
_MARGIN_S: Final = 10.0


class GoogleTokens:
    """The tokens of one source, for one process. All requests share a request for a new one."""

    def __init__(self, source: GoogleSource) -> None:
        """Read nothing yet."""
        self._source = source
        self._token = ""
        self._until_s = 0.0
        self._requested: trio.Event | None = None
        self._failure = ""

    async def token(self) -> str:
        """Return a token that is good now. Cancelling lets a request for a new one go on.

        Raises:
            LoginFailed: There is none; the text gives the reason, without a secret.
        """
        left_s = self._until_s - time.monotonic()
        if left_s < EARLY_S and self._requested is None:
            self._requested = trio.Event()
            trio.lowlevel.spawn_system_task(self._renew, self._requested, name="token of Google")
        if left_s > _MARGIN_S or self._requested is None:
            await trio.lowlevel.checkpoint()
            return self._token
        await self._requested.wait()
        if self._failure:
            raise LoginFailed(self._failure)
        return self._token

    async def _renew(self, done: trio.Event) -> None:
        """Request a token. Raises nothing but `trio.Cancelled`, at the end of the process."""
        try:
            begun_s = time.monotonic()
            if isinstance(self._source, Path):
                token = await token_of_file(self._source)
            else:
                token = await token_of_machine(self._source)
            self._token, self._failure = token.access, ""
            self._until_s = begun_s + token.life_s
        except LoginFailed as error:
            self._failure = str(error)
        except Exception as error:  # the boundary: nothing may end the event loop
            self._failure = f"no token: {type(error).__name__}"
        finally:
            self._requested = None
            done.set()
