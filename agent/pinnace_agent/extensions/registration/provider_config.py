"""The configuration of a provider that an extension registers: its fields, logins and `refresh_models`.

The extension host reads it as it reads a provider of models.json.
"""

import copy
import dataclasses
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from pinnace_agent.config.credentials.logins import LoginCallbacks
from pinnace_agent.core.json_values import NotJsonError, is_list, is_object, json_copy
from pinnace_agent.extensions.events.base import camel_case
from pinnace_agent.extensions.registration.registrations import Function
from pinnace_agent.extensions.registration.signatures import check_function, is_async
from pinnace_agent.files.relaxed_json import JsonObject

if TYPE_CHECKING:  # loaded with the first provider that needs them
    from pinnace_agent.extensions.registration.stream_requests import StreamSimple

Credentials = Mapping[str, object]
"""`access`, `refresh`, `expires` in milliseconds since the epoch, and other JSON values that a provider needs."""

_SHAPES: Final = {"login": "(callbacks)", "refreshToken": "(credentials)", "getApiKey": "(credentials)"}
_IGNORED: Final = frozenset({"name", "isSubscription", "usesCallbackServer", "id"})
_SPELLED: Final = {"refresh_token": "refreshToken", "get_api_key": "getApiKey"}


@dataclass(slots=True, frozen=True)
class OAuth:
    """The login functions of a provider. All except `get_api_key` may be async."""

    name: str
    """The display name, such as `Corporate AI (SSO)`."""
    login: Callable[[LoginCallbacks], object]
    """Lets the user log in; returns credentials."""
    refresh_token: Callable[[Credentials], object]
    """Returns new credentials for expired ones. Called by one process at a time."""
    get_api_key: Callable[[Credentials], str]
    """Returns the key of requests, usually `credentials["access"]`."""


def read_oauth(provider: str, value: object) -> OAuth:
    """Read the `oauth` of a provider: an `OAuth`, or a dict in its spelling or in that of pi.

    Raises:
        TypeError: The value is invalid; the text names the field.
    """
    what = f"provider {provider}: oauth"
    if isinstance(value, OAuth):
        fields: dict[str, object] = {
            "name": value.name,
            "login": value.login,
            "refreshToken": value.refresh_token,
            "getApiKey": value.get_api_key,
        }
    elif is_object(value):
        fields = {_SPELLED.get(name, name): each for name, each in value.items()}
    else:
        raise TypeError(f"{what} must be an OAuth or a dict, not {type(value).__name__}")
    if unknown := sorted(fields.keys() - _SHAPES.keys() - _IGNORED):
        raise TypeError(f"{what}: there is no field {unknown[0]!r}")
    name = fields.get("name", provider)
    if not isinstance(name, str):
        raise TypeError(f"{what}: name must be a string")
    for field, shape in _SHAPES.items():
        if field not in fields:
            raise TypeError(f"{what}: {field} is missing")
        check_function(fields[field], f"{what}: {field}", shape)
    if is_async(fields["getApiKey"]):
        raise TypeError(f"{what}: getApiKey must not be async: it only returns the key of the credentials")
    # cast: check_function checked them
    functions = cast("dict[str, Callable[..., str]]", fields)
    return OAuth(name, functions["login"], functions["refreshToken"], functions["getApiKey"])


# The start waits for the selectable models; an unreachable server must not delay it longer.
REFRESH_LIMIT_S: Final = 10.0


class RefreshContext:
    """The argument of `refresh_models`. Its `repr` shows no key."""

    __slots__ = ("api_key", "base_url", "headers", "models", "provider")

    def __init__(
        self,
        provider: str,
        config: Mapping[str, object],
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Describe a registered provider."""
        models = config.get("models")
        self.provider = provider
        """Its id."""
        self.base_url: str | None = cast("str | None", config.get("baseUrl"))
        self.api_key = api_key
        """The key or access token; None: there is none yet."""
        self.headers: Mapping[str, str] = dict(headers or {})
        self.models: Sequence[Mapping[str, object]] = copy.deepcopy(list(models)) if is_list(models) else []  # type: ignore[arg-type]
        """The registered models."""


async def refreshed_models(function: Function, context: RefreshContext) -> list[JsonObject]:
    """Call `refresh_models` and return a copy of its models.

    Raises:
        ValueError: Its result is not a list of models.
    """
    value = function(context)
    if inspect.isawaitable(value):
        value = await cast("Awaitable[object]", value)
    if not is_list(value) or not all(is_object(each) for each in value):
        raise ValueError(f"it must return a list of models, dicts as in models.json, not {type(value).__name__}")
    try:
        return cast("list[JsonObject]", json_copy(value, "models"))
    except NotJsonError as error:
        raise ValueError(str(error)) from None


@dataclasses.dataclass(slots=True, frozen=True)
class ProviderConfig:
    """A provider, with the fields of one in models.json."""

    name: str | None = None
    base_url: str | None = None
    api_key: str | None = dataclasses.field(default=None, repr=False)
    api: str | None = None
    headers: Mapping[str, str] | None = dataclasses.field(default=None, repr=False)
    auth_header: bool | None = None
    models: Sequence[Mapping[str, object]] | None = None
    oauth: "OAuth | Mapping[str, object] | None" = None
    """The login of the provider: used by `/login` and `pinnace auth login`; requests carry its key."""
    stream_simple: "StreamSimple | None" = None
    """Answers requests to models of `api` instead of a supported API: an async generator function that is called as
    `(model, context, options)` and yields events."""
    refresh_models: "Callable[[RefreshContext], object] | None" = None
    """Returns the current models, which replace `models`: called at the start, after a reload and after a login; may be
    async."""


# Fields that are functions or hold functions.
_CODE: Final = frozenset({"streamSimple", "refreshModels", "oauth"})
_FIELDS: Final = {camel_case(each.name): each.name for each in dataclasses.fields(ProviderConfig)}


def wire_config(
    name: str, config: ProviderConfig | Mapping[str, object] | None, fields: Mapping[str, object]
) -> Mapping[str, object]:
    """Return a configuration in the spelling of models.json, without fields that are None.

    Raises:
        TypeError: There is no such field.
    """
    if config is not None and fields:
        raise TypeError(f"provider {name}: a config or keyword arguments, not both")
    if config is None:
        if unknown := sorted(fields.keys() - set(_FIELDS.values())):
            raise TypeError(f"provider {name}: there is no field {unknown[0]!r}")
        given: Mapping[str, object] = {camel_case(each): value for each, value in fields.items()}
    elif isinstance(config, ProviderConfig):
        given = {wire_name: getattr(config, each) for wire_name, each in _FIELDS.items()}
    elif is_object(config):
        given = config
    else:
        raise TypeError(f"provider {name}: the config must be a ProviderConfig or an object")
    if unknown := sorted(given.keys() - _FIELDS.keys()):
        raise TypeError(f"provider {name}: there is no field {unknown[0]!r}")
    wire = {
        wire_name: value if wire_name in _CODE else json_copy(value, f"provider {name}: {wire_name}")
        for wire_name, value in given.items()
        if value is not None
    }
    _check_code(name, wire)
    return wire


def file_entry(config: Mapping[str, object]) -> JsonObject:
    """Return the part of a configuration that models.json can hold: everything except functions."""
    entry = {name: value for name, value in config.items() if name not in _CODE}
    if "oauth" in config:
        entry["oauth"] = "extension"
    return entry


def streamed_api(config: Mapping[str, object]) -> str | None:
    """Return the API of the models that `stream_simple` answers; None: there is no `stream_simple`."""
    api = config.get("api")
    return api if isinstance(api, str) and config.get("streamSimple") is not None else None


def _check_code(name: str, config: Mapping[str, object]) -> None:
    """Check the functions of a config.

    Raises:
        TypeError: A function takes other parameters, or needs a field that is missing.
    """
    if (refresh := config.get("refreshModels")) is not None:
        check_function(refresh, f"provider {name}: refresh_models", "(context)")
    if (oauth := config.get("oauth")) is not None:
        read_oauth(name, oauth)
    if (stream := config.get("streamSimple")) is not None:
        check_function(stream, f"provider {name}: stream_simple", "(model, context, options)")
        if not isinstance(config.get("api"), str):
            raise TypeError(f"provider {name}: stream_simple needs api, the name of the API that its models have")
        if "models" in config and not {"apiKey", "oauth", "headers"} & config.keys():
            raise TypeError(f"provider {name}: needs api_key or oauth; where no key is needed, any api_key is accepted")
