"""A provider that an extension brings, as data (A24).

Must not know what is done with it: the host reads it as it reads one of models.json.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

from pinnace_agent.extensions.event_base import camel_case
from pinnace_agent.extensions.registrations import Function
from pinnace_agent.extensions.result_shapes import is_object


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
    oauth: object = None
    stream_simple: Function | None = None
    refresh_models: Function | None = None


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
    return {wire_name: value for wire_name, value in given.items() if value is not None}
