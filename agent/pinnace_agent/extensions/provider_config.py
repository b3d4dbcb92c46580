"""A provider that an extension registers, as data (A24). The host reads it as it reads one of models.json."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pinnace_agent.extensions.event_base import camel_case
from pinnace_agent.extensions.json_values import json_copy
from pinnace_agent.extensions.result_shapes import is_object
from pinnace_agent.extensions.signatures import check_function
from pinnace_agent.resources.relaxed_json import JsonObject

if TYPE_CHECKING:  # loaded with the first provider that needs them
    from pinnace_agent.extensions.provider_login import OAuth
    from pinnace_agent.extensions.provider_refresh import RefreshContext
    from pinnace_agent.extensions.provider_stream import StreamSimple


@dataclasses.dataclass(slots=True, frozen=True)
class ProviderConfig:
    """A provider, with the fields of one in models.json (A24)."""

    name: str | None = None
    base_url: str | None = None
    api_key: str | None = dataclasses.field(default=None, repr=False)
    api: str | None = None
    headers: Mapping[str, str] | None = dataclasses.field(default=None, repr=False)
    auth_header: bool | None = None
    models: Sequence[Mapping[str, object]] | None = None
    oauth: "OAuth | Mapping[str, object] | None" = None
    """Logins of the provider: `/login` and `pinnace auth login` let the user log in, requests carry the key of it."""
    stream_simple: "StreamSimple | None" = None
    """Answers requests to models of `api` in the place of a supported API: an async generator function that is called
    as `(model, context, options)` and yields events."""
    refresh_models: "Callable[[RefreshContext], object] | None" = None
    """Returns the models that there are now, in the place of `models`: asked at the start, after a reload and after a
    login; may be async."""


# What is no data: functions, or objects that hold some.
_CODE: Final = frozenset({"streamSimple", "refreshModels", "oauth"})
_FIELDS: Final = {camel_case(each.name): each.name for each in dataclasses.fields(ProviderConfig)}


def wire_config(
    name: str, config: ProviderConfig | Mapping[str, object] | None, fields: Mapping[str, object]
) -> Mapping[str, object]:
    """Return a config in the spelling of models.json, with what is None left out.

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
    told = {
        wire_name: value if wire_name in _CODE else json_copy(value, f"provider {name}: {wire_name}")
        for wire_name, value in given.items()
        if value is not None
    }
    _check_code(name, told)
    return told


def file_entry(config: Mapping[str, object]) -> JsonObject:
    """Return the part of a config that models.json could hold: everything but code."""
    entry = {name: value for name, value in config.items() if name not in _CODE}
    if "oauth" in config:
        entry["oauth"] = "extension"
    return entry


def streamed_api(config: Mapping[str, object]) -> str | None:
    """Return the API of the models that `stream_simple` answers for; None: there is none."""
    api = config.get("api")
    return api if isinstance(api, str) and config.get("streamSimple") is not None else None


def _check_code(name: str, config: Mapping[str, object]) -> None:
    """Check the functions of a config.

    Raises:
        TypeError: One can't be called as it will be, or needs a field that is missing.
    """
    if (refresh := config.get("refreshModels")) is not None:
        check_function(refresh, f"provider {name}: refresh_models", "(context)")
    if (oauth := config.get("oauth")) is not None:
        from pinnace_agent.extensions.provider_login import read_oauth

        read_oauth(name, oauth)
    if (stream := config.get("streamSimple")) is not None:
        check_function(stream, f"provider {name}: stream_simple", "(model, context, options)")
        if not isinstance(config.get("api"), str):
            raise TypeError(f"provider {name}: stream_simple needs api, the name of the API that its models have")
        if "models" in config and not {"apiKey", "oauth", "headers"} & config.keys():
            raise TypeError(f"provider {name}: needs api_key or oauth; where no key is needed, any api_key will do")
