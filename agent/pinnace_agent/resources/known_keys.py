"""Tells the redactor every key that the user's files and environment hold.

A key may stand in a file, in a variable that a file or the built-in catalog names, in an address, or in a login. What a
command prints is learnt when it has been run (`key_ring`), and what a request carries when the request is made.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, cast

from pinnace_agent.redaction.redactor import REDACTOR, Redactor
from pinnace_agent.resources.catalog import Catalog, HeaderValues, read_catalog
from pinnace_agent.resources.credentials import AuthFile, read_auth
from pinnace_agent.resources.key_variables import key_variables_of
from pinnace_agent.resources.paths import agent_dir
from pinnace_agent.resources.relaxed_json import JsonObject
from pinnace_agent.resources.values import Secret, UnresolvedValue, interpolate, is_command

if TYPE_CHECKING:  # loaded with the first login
    from pinnace_agent.resources.logins import Login

_PROXIES: Final = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_SECRET_FIELDS: Final = (
    "access",
    "refresh",
    "id_token",
    "idToken",
    "token",
    "apiKey",
    "api_key",
    "key",
    "clientSecret",
)


def keys_and_headers(catalog: Catalog, auth: AuthFile) -> tuple[list[Secret], list[HeaderValues]]:
    """Return what files say in the place of keys, and of headers."""
    access = [catalog.access_of(provider) for provider in catalog.described()]
    keys = [one.api_key for one in access] + [entry.key for entry in auth.entries.values()]
    of_models = [headers for provider in catalog.described() for headers in catalog.headers_of(provider).values()]
    return [key for key in keys if key is not None], [*(one.headers for one in access), *of_models]


def learn_keys(catalog: Catalog, auth: AuthFile, env: Mapping[str, str], redactor: Redactor = REDACTOR) -> None:
    """Tell the redactor what these hold, as far as no command has to be run for it."""
    keys, headers = keys_and_headers(catalog, auth)
    values = (value for each in headers for value in each.values())
    redactor.learn(*(env.get(name) for name in key_variables_of(keys, values)))
    for entry in auth.entries.values():
        own = {name: value.reveal() for name, value in entry.env.items()}
        redactor.learn_headers(own)
        if entry.key is not None:
            redactor.learn(_value(entry.key, {**env, **own}))
        if entry.login is not None:
            learn_login(entry.login, redactor)
    redactor.learn(*(_value(key, env) for key in keys))
    for each in headers:
        redactor.learn_headers({name: _value(value, env) for name, value in each.items()})
    for address in _addresses(catalog):
        redactor.learn_address(address)
    for name in _PROXIES:
        redactor.learn_address(env.get(name, ""))


def learn_users_keys(env: Mapping[str, str]) -> None:
    """Tell the redactor of the process what the user's files and environment hold; for commands that need no key."""
    folder = agent_dir(env)
    learn_keys(read_catalog(folder / "models.json"), read_auth(folder / "auth.json"), env)


def learn_login(login: "Login", redactor: Redactor = REDACTOR) -> None:
    """Tell the redactor the tokens of a login."""
    fields = login.reveal()
    redactor.learn(*(value for name in _SECRET_FIELDS if isinstance(value := fields.get(name), str)))


def _value(value: Secret, env: Mapping[str, str]) -> str:
    """Return what a value stands for, as far as it can be had; empty if it is what a command prints."""
    if is_command(value):
        return ""
    try:
        return interpolate(value, env)
    except UnresolvedValue:
        return ""


def _addresses(catalog: Catalog) -> Iterator[str]:
    """Yield the addresses that the user describes; those of the built-in catalog hold no key."""
    for provider in catalog.described():
        entry = catalog.entry_of(provider) or {}
        models = cast("list[JsonObject]", entry.get("models", []))  # as the schema of models.json said
        for described in (entry, *models):
            if "baseUrl" in described:
                yield str(described["baseUrl"])
