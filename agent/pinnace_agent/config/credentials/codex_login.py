"""The logins of ChatGPT plans, which Codex and pi make too: with a code, but not as RFC 8628 has it.

The server gives a code for the user and an id; asked with both, it gives an authorisation code with its verifier (RFC
7636), which buys tokens. It answers 403 or 404 until the user has entered the code. A login also has the account that
the access token names, as pi writes it; `llm.openai_responses.codex` sends it. No text has a token or a code but the
one that the user is to enter.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import trio

from pinnace_agent.config.credentials.authorization_servers import Answer, ask_json, refusal, seconds
from pinnace_agent.config.credentials.device_login import DeviceCode, DeviceLogin, slower
from pinnace_agent.config.credentials.logins import Login, LoginFailed
from pinnace_agent.files.relaxed_json import is_object
from pinnace_agent.llm.openai_responses.codex import account_of

_CODE_S: Final = 900.0
_INTERVAL_S: Final = 5.0
_SLOWER_S: Final = 5.0
_PENDING: Final = "deviceauth_authorization_pending"
# Where users enter the code, and what the server takes for the client's own address.
_ENTRY_PATH: Final = "/codex/device"
_REDIRECT_PATH: Final = "/deviceauth/callback"
_POLL_PATH: Final = "/api/accounts/deviceauth/token"


class CodexLogin(DeviceLogin):
    """The logins of a ChatGPT plan: a `LoginMethod`."""

    async def log_in(self, show: Callable[[DeviceCode], None]) -> Login:
        """Let the user log in, and return the login. As `DeviceLogin.log_in`."""
        vendor = self._vendor
        answer = await ask_json(vendor.name, self._url(vendor.device_path), {"client_id": vendor.client_id})
        if answer.status != 200:
            raise refusal(vendor.name, "does not begin the login", answer)
        device = {name: self._text(answer.body, name) for name in ("device_auth_id", "user_code")}
        interval_s = _interval_s(answer.body.get("interval"))
        deadline = trio.current_time() + _CODE_S
        show(DeviceCode(device["user_code"], self._url(_ENTRY_PATH), _CODE_S))
        while True:
            await trio.sleep(interval_s)
            polled = await self._polled(deadline, partial(ask_json, vendor.name, self._url(_POLL_PATH), device))
            if polled is None:
                interval_s = slower(interval_s)
                continue
            if polled.status == 200:
                bought, verifier = (self._text(polled.body, name) for name in ("authorization_code", "code_verifier"))
                return await self.exchange(bought, verifier, self._url(_REDIRECT_PATH))
            match _code_of(polled):
                case "slow_down":
                    interval_s += _SLOWER_S
                case code if code != _PENDING and polled.status not in {403, 404}:
                    raise refusal(vendor.name, "refuses the login", polled)
                case _:
                    pass

    def _login(self, body: Mapping[str, object], former_refresh: str) -> Login:
        """Read the tokens of an answer, as pi writes them: with the account."""
        login = super()._login(body, former_refresh)
        account_id = account_of(login.access)
        if account_id is None:
            raise LoginFailed(f"{self._vendor.name} sent an access_token that names no account")
        return Login({**login.reveal(), "accountId": account_id})


def _interval_s(value: object) -> float:
    """Read how long to wait between two questions: the server writes the number as a text."""
    try:
        return seconds(float(value) if isinstance(value, str) else value, _INTERVAL_S)
    except ValueError:
        return _INTERVAL_S


def _code_of(answer: Answer) -> object:
    error = answer.body.get("error")
    return error.get("code") if is_object(error) else error
