"""The user of a login that an extension performs: its questions as dialogs, its address as `login_start`.

The first address or code is announced, as that of a login of our own is; what else the extension says is shown.
Imported with the first of these logins. Shows no token.
"""

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pinnace_agent.config.credentials.logins import Login, LoginCancelled, OwnLogin
from pinnace_agent.core.loop_thread import LoopThread, usable_from_any_thread
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
        return await method.log_in(_Asking(provider, method.name, announce, dialogs, emitter))
    except LoginCancelled as error:
        return errors.ClientError(str(error), errors.ErrorCode.ABORTED)
    except ValueError as error:
        return errors.ClientError(f"{method.name}: {error}", errors.ErrorCode.AUTHENTICATION_FAILED)


@usable_from_any_thread()
class _Asking:
    """The callbacks of a login. Async methods raise in another thread than the event loop's."""

    def __init__(
        self, provider: str, name: str, announce: "Announce", dialogs: DialogTable, emitter: "Emitter"
    ) -> None:
        self._provider = provider
        self._name = name
        self._announce = announce
        self._dialogs = dialogs
        self._emitter = emitter
        self._is_announced = False
        self._thread = LoopThread()

    @property
    def __loop_thread__(self) -> LoopThread:
        return self._thread

    def on_auth(self, url: str, instructions: str | None = None) -> None:
        """Show the address at which the user logs in."""
        self._show(url, None, None, f"To log in to {self._name}, open {url}")
        if instructions:
            self.on_progress(instructions)

    def on_device_code(self, user_code: str, verification_uri: str, expires_in_s: float | None = None) -> None:
        """Show the code that the user enters at an address."""
        limit = "" if expires_in_s is None else f" within {expires_in_s:g} s"
        text = f"To log in to {self._name}, enter the code {user_code} at {verification_uri}{limit}"
        self._show(verification_uri, user_code, expires_in_s, text)

    def on_progress(self, message: str) -> None:
        """Show the progress."""
        texts = shown_texts("notify", {"message": message})
        record = {"type": "extension_ui_request", "id": str(uuid.uuid4()), "method": "notify", **texts}
        self._emitter.emit({**record, "notifyType": "info"})

    async def on_prompt(self, message: str, placeholder: str | None = None, *, allow_empty: bool = False) -> str:
        """Let the user enter a line."""
        text = await self._dialogs.input(message, placeholder, timeout_s=None, extra=self._extra)
        if text is None or (not text.strip() and not allow_empty):
            raise LoginCancelled("the login was cancelled")
        return text.strip()

    async def on_manual_code_input(self) -> str:
        """Let the user paste the code."""
        return await self.on_prompt("Paste the authorization code, or the address to which the browser was sent")

    async def on_select(self, message: str, options: Mapping[str, str]) -> str | None:
        """Let the user choose one of the options."""
        chosen = await self._dialogs.select(message, list(options.values()), timeout_s=None, extra=self._extra)
        return next((each for each, label in options.items() if label == chosen), None)

    @property
    def _extra(self) -> Mapping[str, object]:
        return {"loginProvider": self._provider}

    def _show(self, url: str, user_code: str | None, expires_in_s: float | None, text: str) -> None:
        if self._is_announced or not url or user_code == "":
            self.on_progress(text)
            return
        texts = shown_texts("login_start", {"url": url, **({} if user_code is None else {"code": user_code})})
        self._is_announced = True
        self._announce(str(texts["url"]), None if user_code is None else str(texts["code"]), expires_in_s)
