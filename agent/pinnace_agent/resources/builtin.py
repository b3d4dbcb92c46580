"""The built-in catalog: which providers there are, and what each of their models is.

An index has a line for every provider; the models of one are in a file of their own, read when somebody asks for them:
a process that uses one provider reads one file. The data ships with the package and is held to its schema by a test,
so nothing is checked here. Must not know the user's files, nor which provider has a key.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from pinnace_agent.resources.relaxed_json import JsonObject

# Not through importlib.resources, which costs a start a millisecond: a wheel is unpacked.
FOLDER: Final = Path(__file__).parent / "providers"


class BuiltInProvider(NamedTuple):
    """What holds for all models of a provider unless they say otherwise."""

    api: str
    base_url: str
    default_model: str
    """The id of the model to start with when nothing was chosen."""


class Index(NamedTuple):
    """All providers, as far as can be said without their models."""

    providers: Mapping[str, BuiltInProvider]
    key_variables: Mapping[str, tuple[str, ...]]
    """The environment variables that may hold a provider's key, the first that is set counts; those of providers
    without built-in models are here too."""
    bearer_variables: frozenset[str]
    """Those among them that hold no key but a token, which is sent as `Authorization: Bearer`."""
    default_order: tuple[str, ...]
    """Whose default model goes first when several providers have a key."""


@cache
def index() -> Index:
    """Return the index, read once."""
    content: dict[str, Any] = orjson.loads((FOLDER / "index.json").read_bytes())  # Any: a test checks its shape
    entries: dict[str, Any] = content["providers"]
    return Index(
        {name: BuiltInProvider(one["api"], one["baseUrl"], one["default"]) for name, one in entries.items()},
        {
            **{name: tuple(one["apiKeyEnv"]) for name, one in entries.items()},
            **{name: tuple(variables) for name, variables in content["otherKeys"].items()},
        },
        frozenset(name for one in entries.values() for name in one.get("bearerEnv", ())),
        tuple(content["defaultOrder"]),
    )


def read_descriptions(provider: str) -> list[JsonObject]:
    """Read what is known about each model of a built-in provider; the caller owns the list."""
    descriptions: list[JsonObject] = orjson.loads((FOLDER / f"{provider}.json").read_bytes())
    return descriptions


def key_variables(provider: str) -> tuple[str, ...]:
    """Return the environment variables that may hold a provider's key."""
    return index().key_variables.get(provider, ())


def all_key_variables() -> frozenset[str]:
    """Return every environment variable that may hold the key of some provider."""
    return frozenset(name for names in index().key_variables.values() for name in names)
