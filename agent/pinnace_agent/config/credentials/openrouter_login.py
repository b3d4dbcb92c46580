"""The logins of OpenRouter, which pi makes too: a browser brings a code, which buys a key of the account.

The key does not expire, and nothing refreshes it: the user removes it at OpenRouter. The page knows no clients and
returns no state, so the path of the redirect takes its place (`Browser.has_state`). No text has the key or a code.
"""

from collections.abc import Mapping
from typing import Final

from pinnace_agent.config.credentials.authorization_servers import ask_json, refusal
from pinnace_agent.config.credentials.device_login import DeviceLogin
from pinnace_agent.config.credentials.logins import Login, LoginFailed, is_token, new_login

_NEVER_MS: Final = 2**53 - 1  # as pi writes it


class OpenRouterLogin(DeviceLogin):
    """The logins of OpenRouter: a `LoginMethod`."""

    async def exchange(self, code: str, verifier: str, redirect_uri: str) -> Login:
        """Exchange the code for a key. As `DeviceLogin.exchange`."""
        fields = {"code": code, "code_verifier": verifier, "code_challenge_method": "S256"}
        answer = await ask_json(self._vendor.name, self._url(self._vendor.token_path), fields)
        if answer.status != 200:
            raise refusal(self._vendor.name, "refuses the login", answer)
        if not is_token(key := answer.body.get("key")):
            raise LoginFailed(f"{self._vendor.name} sent no usable key")
        return new_login({"type": "oauth", "access": key, "refresh": "", "expires": _NEVER_MS})

    def page_fields(self, redirect_uri: str, state: str, challenge: str) -> Mapping[str, str]:
        """Return the parameters of the page. As `DeviceLogin.page_fields`."""
        return {"callback_url": redirect_uri, "code_challenge": challenge, "code_challenge_method": "S256"}
