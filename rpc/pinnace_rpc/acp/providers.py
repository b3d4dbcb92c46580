"""The providers as the client of this process has set them: `providers/list`, `providers/set`, `providers/disable`.

They count for the agents that are started from then on, until this process ends, and are in no file. No value of a
header is in an answer, an error or a log. The provider that the command line names is required: no session would start
without it. Loads the models with the first of these requests.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from pinnace_agent.core.json_access import as_object
from pinnace_agent.core.surroundings import CLIENT_ROUTES, environment
from pinnace_rpc.acp.translation.params import InvalidParams, Params
from pinnace_rpc.acp.translation.shown import Json

if TYPE_CHECKING:  # loaded by need
    from pinnace_agent.config.models.catalog import Catalog
    from pinnace_agent.config.models.routes import Route, Routing
    from pinnace_agent.redaction.policy import Secret
    from pinnace_rpc.options.options import Options

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LONGEST: Final = 100
"""Of what an error repeats."""


class ClientProviders:
    """What the client has set of providers."""

    def __init__(self, options: "Options") -> None:
        """Nothing is set yet; `options` are those of the agents."""
        self._options = options
        self._routes: dict[str, Route | None] = {}

    def variables(self) -> Mapping[str, str]:
        """Return what this adds to the environment of an agent."""
        if not self._routes:
            return {}
        from pinnace_agent.config.models.routes import written

        return {CLIENT_ROUTES: written(self._routes)}

    def catalog(self) -> "Catalog":
        """Return the models as an agent that is started now finds them. Reads the user's file."""
        if not self._routes:
            return _users_catalog()
        from pinnace_agent.config.models.routes import routed

        return routed(_users_catalog(), self._routes)

    def listed(self) -> Json:
        """Return what `providers/list` answers. Reads the files of all providers."""
        from pinnace_agent.config.models.routes import routings

        # Without what is set, a disabled provider has its protocol; with it, the others have their addresses.
        now, catalog = self.catalog(), _users_catalog()
        return {"providers": [self._described(each, now) for each in routings(catalog)]}

    def set(self, params: Params) -> Json:
        """Carry out `providers/set`: the address and the headers of a provider.

        Raises:
            InvalidParams: A field is malformed, or the provider can't have them.
        """
        from pinnace_agent.config.models.routes import Route

        found = self._configurable(params)
        protocol = params.text("apiType")
        if protocol != found.protocol:
            raise params.invalid("apiType", f'must be "{found.protocol}" for this provider')
        self._routes[found.provider] = Route(_address(params), _headers(params))
        return {"_meta": {}}

    def disable(self, params: Params) -> Json:
        """Carry out `providers/disable`, which succeeds for a provider that there is not.

        Raises:
            InvalidParams: The provider is required, or can't be disabled.
        """
        provider = params.text("providerId")
        if provider in _users_catalog().providers():
            found = self._configurable(params)
            if self._is_required(found.provider):
                raise params.invalid("providerId", "this provider is required: the command line names it")
            self._routes[found.provider] = None
        return {"_meta": {}}

    def _configurable(self, params: Params) -> "Routing":
        from pinnace_agent.config.models.routes import routing

        provider, catalog = params.text("providerId"), _users_catalog()
        if provider not in catalog.providers():
            raise params.invalid("providerId", "must be that of a provider that providers/list returns")
        found = routing(catalog, provider)
        if found is None:
            text = "this provider has no single protocol and address; models.json and the environment configure it"
            raise params.invalid("providerId", text)
        return found

    def _described(self, routing: "Routing", now: "Catalog") -> Json:
        from pinnace_agent.config.models import routes

        found: dict[str, object] = {
            "providerId": routing.provider,
            "supported": [routing.protocol],
            "required": self._is_required(routing.provider),
        }
        current = routes.routing(now, routing.provider)
        if current is not None:
            found["current"] = {"apiType": current.protocol, "baseUrl": current.base_url}
        return found

    def _is_required(self, provider: str) -> bool:
        given = self._options
        return provider == (given.provider or (given.model or "").partition("/")[0])


def _users_catalog() -> "Catalog":
    from pinnace_agent.config.models.catalog import read_catalog
    from pinnace_agent.files.paths import agent_dir

    return read_catalog(agent_dir(environment()) / "models.json")


def _address(params: Params) -> str:
    """Return the address of a request.

    Raises:
        InvalidParams: It is none, or has a part that may be a key.
    """
    address = params.text("baseUrl")
    wrong = params.invalid("baseUrl", "must be an absolute address with http or https")
    try:
        parts = urlsplit(address)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise wrong from None
    if not (is_address and address.isascii() and address.isprintable() and " " not in address):
        raise wrong
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise params.invalid("baseUrl", "must have no user, password, query or fragment; headers may hold keys")
    return address


def _headers(params: Params) -> "Mapping[str, Secret]":
    """Return the headers of a request; none if it has no field for them.

    Raises:
        InvalidParams: One is no header. The error has no value.
    """
    from pinnace_agent.redaction.policy import Secret

    if "headers" not in params.fields:
        return {}
    given = as_object(params.fields["headers"])
    if given is None:
        raise params.invalid("headers", "must be an object")
    found: dict[str, Secret] = {}
    for name, value in given.items():
        if not _NAME.fullmatch(name):
            raise params.invalid("headers", "each name must be one of a header of HTTP")
        if not isinstance(value, str) or not (value.isascii() and value.isprintable() and value == value.strip()):
            raise InvalidParams(
                f"{params.path}.headers.{name[:_LONGEST]}", "must be a string of printable ASCII characters"
            )
        found[name] = Secret(value)
    return found
