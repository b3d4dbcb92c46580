"""The keys that auth.json stores, and the credentials that a request carries.

Read only: `auth_file` changes the file, and so does pi. `resolver` decides which source of a key counts. Keys and
logins are wrapped as secrets and never shown.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pinnace_agent.core.diagnostics import Diagnostic, Problem, hints
from pinnace_agent.files.relaxed_json import ConfigurationFileError, is_object, read_object
from pinnace_agent.redaction.policy import Secret

if TYPE_CHECKING:  # loaded with the first login
    from pinnace_agent.config.credentials.logins import Login

# Headers that carry a key: a provider configured with one of them needs no other.
AUTHENTICATION_HEADERS: Final = ("authorization", "x-api-key", "api-key", "x-goog-api-key")


@dataclass(slots=True, frozen=True)
class Credentials:
    """The credentials that a request carries. Shown without its contents."""

    api_key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    problem: str | None = None
    """Why there are none, for the user. None when a request can be sent."""
    is_login_refused: bool = False
    """Whether there is a login that can't be refreshed."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """`env` of the provider's entry in auth.json."""


class StoredKey(NamedTuple):
    """One provider's entry in auth.json."""

    key: Secret | None
    env: Mapping[str, Secret]
    """Variables for this provider alone; they take precedence over those of the process."""
    login: "Login | None" = None
    """The login of the entry, if it is one."""

    def variables(self) -> dict[str, str]:
        """Return the variables, which may be secrets."""
        return {name: value.reveal() for name, value in self.env.items()}


class AuthFile(NamedTuple):
    """The usable content of auth.json."""

    entries: Mapping[str, StoredKey]
    diagnostics: tuple[Diagnostic, ...] = ()
    path: Path | None = None
    """Its path; None: there is no file, so nothing can be stored."""


def read_auth(path: Path) -> AuthFile:
    """Read the stored keys. A missing file has none; a damaged one neither, and is reported."""
    try:
        content = read_object(path, is_relaxed=False) or {}
    except ConfigurationFileError as error:
        backup = path.with_name(f"{path.name}.bak")
        hint = f"; {backup} is how it was when a key was last kept or forgotten" if backup.exists() else ""
        return AuthFile({}, (Diagnostic(str(path), (Problem("", str(error)),), f"no stored key is used{hint}"),), path)
    entries: dict[str, StoredKey] = {}
    problems: list[Problem] = []
    found: list[Problem] = []
    for provider, entry in content.items():
        stored = _stored_key(entry)
        if isinstance(stored, StoredKey):
            entries[provider] = stored
            if stored.login is None and stored.key is None and not stored.env:
                found.append(_without_key(provider, entry))
        else:
            problems.append(Problem(provider, stored))
    wrong = (Diagnostic(str(path), tuple(problems), "these entries are not used"),) if problems else ()
    return AuthFile(entries, (*wrong, *hints(str(path), found)), path)


def _without_key(provider: str, entry: object) -> Problem:
    """Return the hint about an entry that has no key, most probably since its name is misspelt."""
    from pinnace_spec.nearest import nearest  # imported only after a mistake

    unknown = sorted(entry.keys() - {"type", "key", "env"}) if is_object(entry) else []
    meant = [f"; did you mean key instead of {name[:100]}?" for name in unknown if nearest(name, ["key"], 0.5)]
    return Problem(provider, f"has no key{meant[0] if meant else ''}", is_hint=True)


def _stored_key(entry: object) -> StoredKey | str:
    """Return the entry, or the problem in it."""
    if not is_object(entry):
        return "must be an object"
    if entry.get("type") == "oauth":
        from pinnace_agent.config.credentials.logins import Login

        return StoredKey(None, {}, Login(entry))
    if entry.get("type") != "api_key":
        return 'type must be "api_key" or "oauth"'
    key, env = entry.get("key", ""), entry.get("env", {})
    if not isinstance(key, str):
        return "key must be a string"
    if not is_object(env):
        return "env must be an object"
    variables = {name: Secret(value) for name, value in env.items() if isinstance(value, str)}
    if len(variables) < len(env):
        return "env must hold strings only"
    return StoredKey(Secret(key) if key else None, variables)
