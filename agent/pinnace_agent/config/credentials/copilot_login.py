"""The logins of GitHub Copilot, which pi makes too: a code as RFC 8628 has it, and a token of GitHub for a short one.

The token of GitHub is the refresh token of the login, and stays the same; the access token is one of Copilot's, good
for about half an hour, for which the former is exchanged. A login also has the models of the account, and the domain of
a company's server, as pi writes them. GitHub answers 200 also to a code that was not entered yet. A server on this
machine stands for all of GitHub's. No text has a token or a code but the one that the user is to enter.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

import trio

from pinnace_agent.config.credentials.authorization_servers import Answer, ask_for, refusal
from pinnace_agent.config.credentials.device_login import DeviceCode, DeviceLogin
from pinnace_agent.config.credentials.logins import Login, LoginFailed, is_token, new_login
from pinnace_agent.core.json_access import as_amount, as_array, as_object, as_text
from pinnace_agent.files.relaxed_json import JsonObject
from pinnace_agent.llm.copilot import DOMAIN_VARIABLE, EDITOR_HEADERS, base_url, domain_of

_TOKEN_PATH: Final = "/copilot_internal/v2/token"
_API_VERSION: Final = "2026-06-01"
_OWN_DOMAIN: Final = "github.com"
_MODELS_LIMIT_S: Final = 5.0
"""For the list of models, which a login can do without."""
_MAX_MODELS_BYTES: Final = 1024 * 1024
_LATEST_S: Final = 1e11
"""Some three thousand years from now: a server may send any number, and no reader of JSON takes one of any length."""
MODELS_MEMBER: Final = "availableModelIds"


class CopilotLogin(DeviceLogin):
    """The logins of GitHub Copilot: a `LoginMethod`."""

    async def log_in(self, show: Callable[[DeviceCode], None]) -> Login:
        """Let the user log in, and return the login. As `DeviceLogin.log_in`."""
        token = (await self._granted(show)).get("access_token")
        if not is_token(token):
            raise LoginFailed(f"{self._vendor.name} sent no usable access_token")
        return await self._exchanged(str(token), self._company(), None)

    def _is_grant(self, answer: Answer) -> bool:
        return super()._is_grant(answer) and answer.body.get("error") is None

    async def refresh(self, credentials: JsonObject) -> object:
        """Return new credentials in place of expired ones. As `DeviceLogin.refresh`.

        Models that can't be listed stay as they were.
        """
        domain = domain_of(str(credentials.get(DOMAIN_VARIABLE) or ""))
        former = credentials.get(MODELS_MEMBER)
        return (await self._exchanged(str(credentials.get("refresh", "")), domain, former)).reveal()

    async def _exchanged(self, github_token: str, domain: str | None, former_models: object) -> Login:
        """Exchange the token of GitHub for one of Copilot, and list the models of the account."""
        name = self._vendor.name
        if not is_token(github_token):
            raise LoginFailed("the login has no token of GitHub; log in again")
        answer = await ask_for(name, self._api_url(domain), _headers(github_token))
        if answer.status != 200:
            if answer.is_temporary:
                raise refusal(name, "has a temporary failure: no token refresh", answer)
            raise refusal(name, "gives no token for Copilot; log in again, or check the plan", answer)
        token, expires_s = answer.body.get("token"), as_amount(answer.body.get("expires_at"))
        if not is_token(token) or expires_s is None:
            raise LoginFailed(f"{name} sent no usable token")
        entry: JsonObject = {
            "type": "oauth",
            "refresh": github_token,
            "access": token,
            "expires": int((min(expires_s, _LATEST_S) - self._vendor.early_s) * 1000),
        }
        if domain:
            entry[DOMAIN_VARIABLE] = domain
        models = await self._models(str(token), domain)
        if models is not None or former_models is not None:
            entry[MODELS_MEMBER] = former_models if models is None else models
        try:
            return new_login(entry)
        except ValueError:
            raise LoginFailed(f"{name} sent no usable token") from None

    async def _models(self, token: str, domain: str | None) -> list[str] | None:
        """Return the ids of the models that the account has; None: they can't be listed."""
        base = self._vendor.url.rstrip("/") if self._is_on_this_machine() else base_url(token, domain)
        headers = {**_headers(token), "X-GitHub-Api-Version": _API_VERSION}
        with suppress(LoginFailed), trio.move_on_after(_MODELS_LIMIT_S):
            answer = await ask_for(self._vendor.name, f"{base}/models", headers, _MAX_MODELS_BYTES)
            return _model_ids(answer) if answer.status == 200 else None
        return None

    def _api_url(self, domain: str | None) -> str:
        if self._is_on_this_machine():
            return self._url(_TOKEN_PATH)
        return f"https://api.{domain or self._company() or _OWN_DOMAIN}{_TOKEN_PATH}"

    def _company(self) -> str | None:
        """Return the domain of the company's server that the settings name; None: they name none."""
        domain = None if self._is_on_this_machine() else domain_of(self._vendor.url)
        return None if domain == _OWN_DOMAIN else domain

    def _is_on_this_machine(self) -> bool:
        """Whether the settings name a server of this machine."""
        return urlsplit(self._vendor.url).scheme == "http"


def _headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", **EDITOR_HEADERS}


def _model_ids(answer: Answer) -> list[str] | None:
    """Read which models the account has: those that take tools, are offered for a choice and not disabled.

    Where none is offered, those that the user has enabled.
    """
    if not isinstance(answer.body.get("data"), list):
        return None
    entries = [entry for each in as_array(answer.body["data"]) if (entry := as_object(each)) and _takes_tools(entry)]
    offered = [each for each in entries if each.get("model_picker_enabled") is True and _policy(each) != "disabled"]
    chosen = offered or [each for each in entries if _policy(each) == "enabled"]
    return [model_id for each in chosen if (model_id := as_text(each.get("id")))]


def _takes_tools(entry: Mapping[str, object]) -> bool:
    supports = as_object((as_object(entry.get("capabilities")) or {}).get("supports")) or {}
    return supports.get("tool_calls") is not False


def _policy(entry: Mapping[str, object]) -> object:
    return (as_object(entry.get("policy")) or {}).get("state")
