"""The built-in catalog: the providers and the properties of their models.

An index has a line for every provider; the models of each are in a file of their own, read at the first request for
them, so that a process with one provider reads one file. The data ships with the package; a test checks it against its
schema, so it is not checked here. Has no access to the user's files or keys.
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from pinnace_agent.files.relaxed_json import JsonObject

OFFLINE_PROVIDER: Final = "offline"
"""The provider of the offline model, which no file describes."""
VERTEX_PROVIDER: Final = "google-vertex"
"""The provider that takes tokens of Google's credentials."""

_VARIABLE: Final = re.compile(r"\{([A-Z_]+)}")

# Not through importlib.resources, which costs a start a millisecond: a wheel is unpacked.
FOLDER: Final = Path(__file__).parent / "providers"


class BuiltInProvider(NamedTuple):
    """The defaults of all models of a provider."""

    api: str
    base_url: str
    default_model: str
    """The id of the model to start with when nothing was chosen."""


class ProviderIndex(NamedTuple):
    """All providers, without their models."""

    providers: Mapping[str, BuiltInProvider]
    key_variables: Mapping[str, tuple[str, ...]]
    """The environment variables that may hold a provider's key, in order of precedence; also of providers without
    built-in models."""
    bearer_variables: frozenset[str]
    """Those among them that hold a token, sent as `Authorization: Bearer`, instead of a key."""
    ambient_variables: Mapping[str, tuple[tuple[str, ...], ...]]
    """The variables by which a cloud gives credentials to programs: groups, of which a whole one has to be set. The
    provider's client finds the credentials itself."""
    default_order: tuple[str, ...]
    """The providers by precedence of their default models when several have a key."""


@cache
def index() -> ProviderIndex:
    """Return the index, read once."""
    content: dict[str, Any] = orjson.loads((FOLDER / "index.json").read_bytes())  # Any: a test checks its shape
    entries: dict[str, Any] = content["providers"]
    return ProviderIndex(
        {name: BuiltInProvider(one["api"], one["baseUrl"], one["default"]) for name, one in entries.items()},
        {
            **{name: tuple(one["apiKeyEnv"]) for name, one in entries.items()},
            **{name: tuple(variables) for name, variables in content["otherKeys"].items()},
        },
        frozenset(name for one in entries.values() for name in one.get("bearerEnv", ())),
        {
            name: tuple(tuple(group) for group in one["ambientEnv"])
            for name, one in entries.items()
            if "ambientEnv" in one
        },
        tuple(content["defaultOrder"]),
    )


def read_descriptions(provider: str) -> list[JsonObject]:
    """Read the descriptions of a built-in provider's models; the caller owns the list."""
    descriptions: list[JsonObject] = orjson.loads((FOLDER / f"{provider}.json").read_bytes())
    return descriptions


def key_variables(provider: str) -> tuple[str, ...]:
    """Return the environment variables that may hold a provider's key."""
    return index().key_variables.get(provider, ())


def ambient_variables(provider: str, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables of an environment by which a cloud gives a provider its credentials; empty: it does not."""
    groups = index().ambient_variables.get(provider, ())
    return next((group for group in groups if all(env.get(name) for name in group)), ())


def unset_variables(provider: str, env: Mapping[str, str]) -> list[str]:
    """Return the variables in the built-in address of a provider that an environment lacks."""
    facts = index().providers.get(provider)
    return [] if facts is None else [name for name in _VARIABLE.findall(facts.base_url) if not env.get(name)]


def usual_variable(provider: str) -> str | None:
    """Return the variable that errors name: the last one, which names a key and no token."""
    variables = key_variables(provider)
    return variables[-1] if variables else None


@cache
def all_key_variables() -> frozenset[str]:
    """Return every environment variable that may hold the key of some provider."""
    return frozenset(name for names in index().key_variables.values() for name in names)
