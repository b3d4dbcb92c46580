"""Asks an extension which models its provider has now: `refresh_models` (A24)."""

import copy
import inspect
from collections.abc import Awaitable, Mapping, Sequence
from typing import Final, cast

from pinnace_agent.extensions.json_values import NotJsonError, json_copy
from pinnace_agent.extensions.registrations import Function
from pinnace_agent.extensions.result_shapes import is_list, is_object
from pinnace_agent.resources.relaxed_json import JsonObject

# A start waits for the models that may be selected; a server that is away must not hold it up for longer.
REFRESH_LIMIT_S: Final = 10.0


class RefreshContext:
    """What `refresh_models` may need. `repr` shows no key."""

    __slots__ = ("api_key", "base_url", "headers", "models", "provider")

    def __init__(
        self,
        provider: str,
        config: Mapping[str, object],
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Describe a provider as it was registered."""
        models = config.get("models")
        self.provider = provider
        """Its id."""
        self.base_url: str | None = cast("str | None", config.get("baseUrl"))
        self.api_key = api_key
        """The key or the access token; None: there is none yet."""
        self.headers: Mapping[str, str] = dict(headers or {})
        self.models: Sequence[Mapping[str, object]] = copy.deepcopy(list(models)) if is_list(models) else []  # type: ignore[arg-type]
        """The models that were registered."""


async def refreshed_models(function: Function, context: RefreshContext) -> list[JsonObject]:
    """Call `refresh_models` and return the models that it names, as a copy.

    Raises:
        ValueError: It returned something else.
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
