"""Where each provider's key comes from, and whether it is usable, for people, without showing the key.

Runs no command: of a command only its presence is known. The order of the sources is that of the resolver; a test
compares the two. Shows names of variables, never a value, a header or a command.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from pinnace_agent.config.credentials.credentials import AUTHENTICATION_HEADERS, AuthFile
from pinnace_agent.config.credentials.logins import Login, is_usable_as_key, refused_login
from pinnace_agent.config.credentials.provider_settings import set_settings
from pinnace_agent.config.credentials.vendor_logins import VENDORS, has_login, login_option
from pinnace_agent.config.models.builtin import (
    OFFLINE_PROVIDER,
    VERTEX_PROVIDER,
    ambient_variables,
    index,
    key_variables,
    unset_variables,
    usual_variable,
)
from pinnace_agent.config.models.catalog import Catalog
from pinnace_agent.config.values import is_command, is_configured, legacy_variable, problem_of
from pinnace_agent.llm.google.location import usable_source, what_is_missing
from pinnace_agent.redaction.policy import Secret
from pinnace_spec.records.messages import KeySource, LoginKind
from pinnace_spec.rules.errors import no_api_key

_KEY_ALONE: Final[tuple[LoginKind, ...]] = ("key",)


class KeyStatus(NamedTuple):
    """One provider's key."""

    provider: str
    source: KeySource | None = None
    """The first source with a key; None: there is none."""
    variable: str | None = None
    """Its name, if that is the source, or what the entry of auth.json has in place of a key."""
    is_usable: bool = False
    """Whether a request would have a key, as far as is known without running a command."""
    needs_command: bool = False
    """Whether the key is the output of a command."""
    problem: str | None = None
    """Why the source has no key."""
    settings: frozenset[str] = frozenset()
    """The names of its settings that its entry or the environment has."""


def key_status(provider: str, catalog: Catalog, auth: AuthFile, env: Mapping[str, str]) -> KeyStatus:
    """Find a provider's key in the order of the resolver.

    A key in a variable opens no provider that lacks variables of its address: it may be for another one, or for
    other programs. One in a file is a problem then.
    """
    stored = auth.entries.get(provider)
    own_env = env if stored is None else {**env, **stored.variables()}
    found = _first_source(provider, catalog, auth, env)._replace(settings=set_settings(provider, own_env))
    if not found.is_usable or catalog.has_own_address(provider):
        return found
    if not (unset := unset_variables(provider, own_env)):
        return found
    if found.source == "variable":
        return KeyStatus(provider, settings=found.settings)
    return found._replace(is_usable=False, problem=_not_set(unset))


def _not_set(names: Sequence[str]) -> str:
    return f"the variable{'s' if names[1:] else ''} {' and '.join(names)} {'are' if names[1:] else 'is'} not set"


def _first_source(provider: str, catalog: Catalog, auth: AuthFile, env: Mapping[str, str]) -> KeyStatus:
    stored = auth.entries.get(provider)
    if stored is not None and stored.env:
        env = {**env, **stored.variables()}
    access = catalog.access_of(provider)
    login = None if stored is None else stored.login
    if login is not None and is_usable_as_key(provider, login):
        return KeyStatus(provider, "login", is_usable=True)
    in_files: list[tuple[KeySource, Secret | None]] = [
        ("auth.json", None if stored is None else stored.key),
        ("models.json", access.api_key),
    ]
    for source, value in in_files:
        if value is not None and is_configured(legacy_variable(value, env), env):
            return KeyStatus(provider, source, is_usable=True, needs_command=is_command(value))
    for name in key_variables(provider):
        if is_configured(Secret(f"${name}"), env):
            return KeyStatus(provider, "variable", name, is_usable=True)
    if provider == VERTEX_PROVIDER and usable_source(env) is not None:
        return KeyStatus(provider, "google", is_usable=True)
    for name, value in access.headers.items():
        if name.lower() in AUTHENTICATION_HEADERS and is_configured(value, env):
            return KeyStatus(provider, "header", is_usable=True, needs_command=is_command(value))
    if names := ambient_variables(provider, env):
        is_stored = stored is not None and all(name in stored.env for name in names)
        return KeyStatus(provider, "auth.json" if is_stored else "variable", " and ".join(names), is_usable=True)
    if stored is not None and stored.login is not None:
        return KeyStatus(provider, "login", problem=refused_login(provider, stored.login))
    for source, value in in_files:
        if value is not None:
            return KeyStatus(provider, source, problem=problem_of(value, env))
    for name in key_variables(provider):
        if env.get(name):
            return KeyStatus(provider, "variable", name, problem=problem_of(Secret(f"${name}"), env))
    return KeyStatus(provider)


def status_record(status: KeyStatus) -> dict[str, object]:
    """Return what clients and other programs are shown of a provider's key."""
    record: dict[str, object] = {
        "provider": status.provider,
        "source": status.source,
        "isUsable": status.is_usable,
        "needsCommand": status.needs_command,
        "variables": [*reversed(key_variables(status.provider))],
    }
    if status.variable is not None:
        record["variable"] = status.variable
    if status.problem is not None:
        record["problem"] = status.problem
    return record


def login_kinds(provider: str) -> tuple[LoginKind, ...]:
    """Return how this program gets credentials of a provider that it can store, without code of an extension."""
    if provider == OFFLINE_PROVIDER:
        return ()
    if (vendor := VENDORS.get(provider)) is None:
        return _KEY_ALONE
    ways: list[tuple[LoginKind, bool]] = [
        ("key", bool(key_variables(provider))),
        ("device-code", bool(vendor.device_path)),
        ("browser", vendor.browser is not None),
    ]
    return tuple(kind for kind, is_offered in ways if is_offered)


def no_key(provider: str, why: str) -> str:
    """Return the error of a request without a key. `why`: what else the user may know of it; empty: nothing."""
    text = no_api_key(provider, usual_variable(provider))
    return f"{text}\n\n{why}" if why else text


def hint(
    provider: str, login: Login | None, stored: Secret | None, described: Secret | None, env: Mapping[str, str]
) -> str:
    """Return why a source can't be used, and what to do; empty where there is none, and nothing else than a key helps.

    Args:
        provider: Its id.
        login: The one in auth.json.
        stored: The key there.
        described: The one in models.json.
        env: The environment, with the variables of the provider alone.
    """
    if login is not None:
        return refused_login(provider, login)
    sources = [("The key in auth.json", stored), ("The key in models.json", described)]
    sources += [(f"The variable {name}", Secret(f"${name}")) for name in key_variables(provider) if env.get(name)]
    for source, value in sources:
        if value is not None and (problem := problem_of(value, env)) is not None:
            return f"{source} can't be used: {problem}."
    return advice(provider, env)


def advice(provider: str, env: Mapping[str, str]) -> str:
    """Return what else than a key a provider takes, and what is missing for it; empty if it takes nothing else."""
    if provider == VERTEX_PROVIDER:
        return what_is_missing(env)
    if not key_variables(provider) and has_login(provider):
        return f"Or log in: pinnace auth login {provider} {login_option(provider)}."
    groups = index().ambient_variables.get(provider, ())
    return f"Set the key, or {', or '.join(' and '.join(group) for group in groups)}." if groups else ""
