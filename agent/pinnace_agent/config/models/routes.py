"""Where the client of this process sends the requests to providers: the methods `providers/*` of an editor.

A route takes the place of the address and the headers of a provider, whatever models.json says, as an entry there
would; keys stay. A provider without a route is disabled: it has no model. Routes are passed to a process by a variable
of its environment, which it takes out, since headers may hold keys; they are in no file. Only a provider whose models
have one protocol and one address has a route. Pure.
"""

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Final, NamedTuple, TypeAlias, cast
from urllib.parse import urlsplit

import orjson

from pinnace_agent.config.models.catalog import Catalog
from pinnace_agent.config.values import literal
from pinnace_agent.files.relaxed_json import JsonObject
from pinnace_agent.redaction.policy import Secret

VARIABLE: Final = "PINNACE_PROVIDER_ROUTES"

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


class Routing(NamedTuple):
    """What a client can know of a provider's route."""

    provider: str
    protocol: str
    base_url: str
    """Without what may be a key in it."""


def written(routes: Routes) -> str:
    """Return routes as the value of `VARIABLE`."""
    return orjson.dumps({name: None if route is None else _json(route) for name, route in routes.items()}).decode()


def take_routes(env: MutableMapping[str, str]) -> Routes:
    """Take the routes out of an environment: no child of the process is to have them.

    Raises:
        ValueError: They are not what `written` has made.
    """
    text = env.pop(VARIABLE, None)
    if text is None:
        return {}
    try:
        found: dict[str, JsonObject | None] = orjson.loads(text)
        return {name: None if route is None else _route(route) for name, route in found.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{VARIABLE}: must be what an editor's agent passes on") from None  # the text may hold a key


def routed(catalog: Catalog, routes: Routes) -> Catalog:
    """Return a catalog in which these providers have these routes, or no models."""
    for provider, route in routes.items():
        if route is None:
            catalog = catalog.without(provider)
        else:
            catalog = catalog.with_provider(provider, _entry(catalog.entry_of(provider) or {}, route))
    return catalog


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
