"""Logins of providers that extensions in Node register. Imported with the first."""

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING

from pinnace_agent.config.credentials.logins import LoginCallbacks
from pinnace_agent.core.json_access import as_object, as_text
from pinnace_agent.extensions.registration.provider_config import Credentials, OAuth
from pinnace_agent.node_extensions.errors import RefusedRequest

if TYPE_CHECKING:
    from pinnace_agent.node_extensions.bridge import Bridge


def login_of(bridge: "Bridge", provider: str, given: object) -> OAuth:
    """Return the login of a provider.

    Raises:
        RefusedRequest: It has no functions.
    """
    fields: Mapping[str, object] = as_object(given) or {}
    number = fields.get("number")
    if not isinstance(number, int):
        raise RefusedRequest(f"provider {provider}: oauth must be an object with login and refreshToken")

    def login(callbacks: LoginCallbacks) -> Awaitable[object]:
        return bridge.log_in(number, callbacks)

    def refresh(credentials: Credentials) -> Awaitable[object]:
        return bridge.kept(number, dict(credentials), member="refreshToken")

    def api_key(credentials: Credentials) -> str:
        return str(bridge.kept_now(number, dict(credentials), member="getApiKey"))

    return OAuth(as_text(fields.get("name")) or provider, login, refresh, api_key)
