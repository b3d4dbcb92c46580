"""Where the client of this process sends the requests to providers: the methods `providers/*` of an editor.

A route takes the place of the address and the headers of a provider, whatever models.json says, as an entry there
would; keys stay. A provider without a route is disabled: it has no model. Routes are passed to a process by a variable
of its environment, which it takes out, since headers may hold keys; they are in no file. Only a provider whose models
have one protocol and one address has a route. Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, cast
from urllib.parse import urlsplit

import orjson

from pinnace_agent.config.models.catalog import Catalog
from pinnace_agent.config.values import literal
from pinnace_agent.core.diagnostics import Diagnostic, Problem
from pinnace_agent.core.surroundings import CLIENT_ROUTES, PerAgent, environment
from pinnace_agent.files.relaxed_json import JsonObject
from pinnace_agent.redaction.policy import Secret

_PROTOCOLS: Final[Mapping[str, str]] = {
    "anthropic-messages": "anthropic",
    "openai-completions": "openai",
    "openai-responses": "openai",
    "azure-openai-responses": "azure",
    "google-vertex": "vertex",
    "bedrock-converse-stream": "bedrock",
}
"""API -> the name of its protocol in the Agent Client Protocol; others are named by themselves, behind `_`."""


class Route(NamedTuple):
    """Where requests to a provider go."""

    base_url: str
    headers: Mapping[str, Secret]
    """Literally, and all of them."""


Routes: TypeAlias = Mapping[str, Route | None]
"""By provider; None: it is disabled."""


_taken: Final[PerAgent[dict[str, Route | None]]] = PerAgent(dict)
"""The routes of the agent that runs this code."""


class Routing(NamedTuple):
    """What a client can know of a provider's route."""

    provider: str
    protocol: str
    base_url: str
    """Without what may be a key in it."""


def written(routes: Routes) -> str:
    """Return routes as the value of `CLIENT_ROUTES`."""
    return orjson.dumps({name: None if route is None else _json(route) for name, route in routes.items()}).decode()


def read_routes(text: str) -> Routes:
    """Read what `written` has made.

    Raises:
        ValueError: It is something else. The error does not show it: it may hold a key.
    """
    try:
        found: dict[str, JsonObject | None] = orjson.loads(text)
        return {name: None if route is None else _route(route) for name, route in found.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{CLIENT_ROUTES}: must be what an editor's agent passes on") from None


def taken_variables() -> Mapping[str, str]:
    """Return the routes of this agent as the variable that was taken; empty: it has none."""
    routes = _taken.get()
    return {CLIENT_ROUTES: written(routes)} if routes else {}


def routed(catalog: Catalog, routes: Routes | None = None) -> Catalog:
    """Return a catalog in which providers have these routes, or no models.

    None: the routes of this agent. They are taken out of its environment: no child of the process is to have them. What
    can't be read is ignored, and a problem of the catalog.
    """
    if routes is None:
        try:
            _taken.get().update(read_routes(environment().pop(CLIENT_ROUTES, "{}")))
        except ValueError as error:
            catalog = _Routed(catalog, (Diagnostic(CLIENT_ROUTES, (Problem("", str(error)),), "it is ignored"),))
        routes = _taken.get()
    for provider, route in routes.items():
        if route is not None:
            catalog = catalog.with_provider(provider, _entry(catalog.entry_of(provider) or {}, route))
    return _Routed(catalog, disabled=frozenset(name for name, route in routes.items() if route is None))


def is_disabled(provider: str) -> bool:
    """Return whether the client of this agent has disabled a provider."""
    return provider in _taken.get() and _taken.get()[provider] is None


def routings(catalog: Catalog) -> Iterator[Routing]:
    """Yield where requests to each provider go that can have a route."""
    for provider in catalog.providers():
        if (found := routing(catalog, provider)) is not None:
            yield found


def routing(catalog: Catalog, provider: str) -> Routing | None:
    """Return where requests to a provider go; None: there is none, or it has several protocols or addresses."""
    models = catalog.models_of(provider)
    protocols = {_PROTOCOLS.get(model["api"], f"_{model['api']}") for model in models}
    addresses = {model["baseUrl"] for model in models}
    if len(protocols) != 1 or len(addresses) != 1:
        return None
    shown = _shown(addresses.pop())
    return None if shown is None else Routing(provider, protocols.pop(), shown)


class _Routed(Catalog):
    """A catalog in which some providers have no models, whatever describes them."""

    def __init__(
        self, catalog: Catalog, problems: tuple[Diagnostic, ...] = (), disabled: frozenset[str] = frozenset()
    ) -> None:
        left_out = catalog.left_out._replace(providers=catalog.left_out.providers | disabled)
        super().__init__(catalog._entries, (*catalog.diagnostics, *problems), catalog._replacing, left_out)
        self._disabled = disabled

    def with_provider(self, provider: str, entry: JsonObject | None, *, replaces_models: bool = False) -> Catalog:
        return _Routed(super().with_provider(provider, entry, replaces_models=replaces_models), disabled=self._disabled)


def _shown(address: str) -> str | None:
    """Return an address without credentials; None: it has variables, or is none of HTTP."""
    try:
        parts = urlsplit(address)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname or "{" in address:
        return None
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{port}{parts.path}"


def _entry(described: JsonObject, route: Route) -> JsonObject:
    """Return the entry of a provider in models.json, with another route for all of its models."""
    entry = {**described, "baseUrl": route.base_url}
    entry["headers"] = {name: literal(value).reveal() for name, value in route.headers.items()}
    if "models" in described:
        entry["models"] = [_unrouted(each) for each in cast("Sequence[JsonObject]", described["models"])]
    if "modelOverrides" in described:
        overrides = cast("Mapping[str, JsonObject]", described["modelOverrides"])
        entry["modelOverrides"] = {name: _unrouted(each) for name, each in overrides.items()}
    return entry


def _unrouted(described: JsonObject) -> JsonObject:
    return {name: value for name, value in described.items() if name not in ("baseUrl", "headers")}


def _json(route: Route) -> JsonObject:
    return {"baseUrl": route.base_url, "headers": {name: value.reveal() for name, value in route.headers.items()}}


def _route(value: JsonObject) -> Route:
    headers = cast("Mapping[str, str]", value["headers"])
    return Route(str(value["baseUrl"]), {name: Secret(text) for name, text in headers.items()})
