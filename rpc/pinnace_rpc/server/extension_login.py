"""The user of a login that an extension performs: its questions as dialogs, its address as `login_start`.

The first address or code is announced, as that of a login of our own is; what else the extension says is shown.
Imported with the first of these logins. Shows no token.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pinnace_agent.config.credentials.logins import Login, LoginCancelled, OwnLogin
from pinnace_agent.core.loop_thread import usable_from_any_thread
from pinnace_agent.core.surroundings import random_uuid
from pinnace_agent.extensions.providers.login import DialogCallbacks
from pinnace_agent.extensions.services.dialogs import DialogTable, shown_texts
from pinnace_spec.rules import errors

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.core.ports.emitter import Emitter
    from pinnace_rpc.server.logins import Announce


async def log_in_by_extension(
    provider: str, method: OwnLogin, announce: "Announce", dialogs: DialogTable, emitter: "Emitter"
) -> Login | errors.ProtocolError:
    """Let the user log in as the extension of a provider does; cancelling gives up.

    Args:
        provider: Its id.
        method: Of the extension.
        announce: Shows where to log in.
        dialogs: Asks the user.
        emitter: Shows other texts.
    """
    try:
        return await method.log_in(_Announcing(method.name, announce, _Dialogs(provider, dialogs, emitter)))
    except LoginCancelled as error:
        return errors.ClientError(str(error), errors.ErrorCode.ABORTED)
    except ValueError as error:
        return errors.ClientError(f"{method.name}: {error}", errors.ErrorCode.AUTHENTICATION_FAILED)


class _Dialogs:
    """The dialogs of a login, which name its provider."""

    def __init__(self, provider: str, table: DialogTable, emitter: "Emitter") -> None:
        self._table = table
        self._emitter = emitter
        self._extra = {"loginProvider": provider}

    def notify(self, message: str, kind: str | None = None) -> None:
        texts = shown_texts("notify", {"message": message})
        record = {"type": "extension_ui_request", "id": random_uuid(), "method": "notify", **texts}
        self._emitter.emit({**record, "notifyType": kind})

    async def input(self, title: str, placeholder: str | None = None) -> str | None:
        return await self._table.input(title, placeholder, timeout_s=None, extra=self._extra)

    async def select(self, title: str, options: Sequence[str]) -> str | None:
        return await self._table.select(title, list(options), timeout_s=None, extra=self._extra)


@usable_from_any_thread()
class _Announcing(DialogCallbacks):
    """Announces the first address or code; asks by dialogs."""

    def __init__(self, name: str, announce: "Announce", dialogs: _Dialogs) -> None:
        super().__init__(dialogs, name)
        self._announce = announce
        self._is_announced = False

    def on_auth(self, url: str, instructions: str | None = None) -> None:
        """Show the address at which the user logs in."""
        if not self._announce_once(url, None, None):
            super().on_auth(url)
        if instructions:
            self.on_progress(instructions)

    def on_device_code(self, user_code: str, verification_uri: str, expires_in_s: float | None = None) -> None:
        """Show the code that the user enters at an address."""
        if user_code == "" or not self._announce_once(verification_uri, user_code, expires_in_s):
            super().on_device_code(user_code, verification_uri, expires_in_s)

    def _announce_once(self, url: str, user_code: str | None, expires_in_s: float | None) -> bool:
        """Announce where to log in, if there is an address and nothing was announced; return whether that was done."""
        if self._is_announced or not url:
            return False
        texts = shown_texts("login_start", {"url": url, **({} if user_code is None else {"code": user_code})})
        self._is_announced = True
        self._announce(str(texts["url"]), None if user_code is None else str(texts["code"]), expires_in_s)
        return True
