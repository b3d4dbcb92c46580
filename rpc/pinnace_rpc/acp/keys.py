"""What this process itself finds of models, keys and logins: from the user's files, without an agent.

It serves what is asked for before a session, in milliseconds. What extensions add is not known here. Reads the files
anew each time, since other programs write them; runs no command, and asks no server. Shows no key.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pinnace_agent.core.surroundings import environment
from pinnace_rpc.acp.logins import can_show_code
from pinnace_rpc.acp.providers import ClientProviders
from pinnace_rpc.acp.translation.abilities import Abilities
from pinnace_rpc.acp.translation.jsonrpc import INTERNAL_ERROR, RequestError
from pinnace_rpc.acp.translation.shown import Json
from pinnace_rpc.acp.translation.version import Offer, ProviderLogin

if TYPE_CHECKING:  # loaded by need
    from pinnace_agent.config.credentials.credentials import AuthFile
    from pinnace_agent.config.models.models import ModelRegistry
    from pinnace_rpc.options.options import Options

# As in `pinnace_agent.config.models.builtin`, which takes longer to load.
_OFFLINE: Final = "offline"


class UsersKeys:
    """The credentials of the user that has started this process."""

    def __init__(self, options: "Options", providers: ClientProviders) -> None:
        """Read nothing yet; `options` are those of the agents, `providers` those that the client has set."""
        self._options = options
        self._providers = providers

    def offer(self, release: str, abilities: Abilities, *, is_persistent: bool) -> Offer:
        """Return what a client is offered.

        Args:
            release: Of this program.
            abilities: Of the client.
            is_persistent: Whether sessions are stored.
        """
        from pinnace_agent.config.credentials.vendor_logins import VENDORS

        provider, variable, needs_login = self._options.provider, None, False
        if not self._has_given_key:  # else nothing more is read before the first answer
            from pinnace_agent.config.models.builtin import usual_variable

            registry = self._registry()
            provider, needs_login = self._provider(registry), not self._has_model(registry)
            variable = None if provider is None else usual_variable(provider)
        logins: Sequence[ProviderLogin] = ()
        if can_show_code(abilities):
            found = [
                *(ProviderLogin(name, vendor.name) for name, vendor in VENDORS.items() if vendor.device_path),
                *(ProviderLogin(name, each.name, "browser") for name, each in VENDORS.items() if each.browser),
            ]
            logins = sorted(found, key=lambda each: each.provider != provider)
        return Offer(release, is_persistent, needs_login, abilities.terminals, logins, provider, variable)

    def may_have_extensions(self) -> bool:
        """Return whether a session without a project loads an extension."""
        from pinnace_rpc.options.extension_hints import may_find_extensions

        given = self._options
        if given.extensions:
            return True
        if given.no_extensions or not may_find_extensions(environment()):
            return False
        from pinnace_rpc.options.extension_preview import finds_extensions

        try:
            return finds_extensions(Path("/"), (), is_discovering=True)
        except Exception:  # whatever is wrong with the user's files, an agent says
            return False

    def status(self, own: Mapping[str, Json], *, is_used: bool) -> Json:
        """Return what `auth/status` answers: the providers with credentials, and those of the command `auth_status`.

        Args:
            own: What an agent says of providers whose logins are those of extensions, by their ids.
            is_used: Whether the client has not logged out.
        """
        from pinnace_rpc.server.logins import shown

        registry = self._registry()
        provider = self._provider(registry)
        names = dict.fromkeys([*registry.login_providers(), *own])
        records = [own[name] if name in own else shown(registry, name) for name in names]
        found = [each for each in records if each["source"] is not None]
        accounts = [
            {"label": _label(each), "active": is_used and bool(each["isUsable"]) and each["provider"] == provider}
            for each in found
        ]
        status: dict[str, object] = {
            "state": "authenticated" if is_used and self._has_model(registry) else "unauthenticated",
            "accounts": accounts,
        }
        return {**status, "_meta": {"pinnace": {"providers": found}}} if found else status

    def logged_in_to(self, providers: Sequence[str]) -> Sequence[str]:
        """Return those of these providers that have a login, and that of the configured model if its login is ours.

        Raises:
            RequestError: auth.json is damaged, so that it is not known, and nothing can be removed.
        """
        from pinnace_agent.config.credentials.vendor_logins import has_login

        stored = _stored()
        for diagnostic in stored.diagnostics:
            if any(not problem.path for problem in diagnostic.problems):  # of the file itself
                text = f"{diagnostic}; no login was removed"
                raise RequestError(INTERNAL_ERROR, text, {"errorCode": "invalid_configuration"})
        provider, entries = self._provider(self._registry(stored)), stored.entries
        wanted = dict.fromkeys([*providers, *(() if provider is None else (provider,))])
        return [
            each
            for each in wanted
            if (has_login(each) or each in providers) and each in entries and entries[each].login is not None
        ]

    def _has_model(self, registry: "ModelRegistry") -> bool:
        """Return whether an agent surely finds a model that can be used."""
        return self._has_given_key or registry.first_available() is not None

    @property
    def _has_given_key(self) -> bool:
        """Whether the command line has a key, or names the model that needs none."""
        given = self._options
        keys = (given.api_key, given.api_key_file, given.api_key_fd)
        return given.provider == _OFFLINE or keys != (None, None, None)

    def _provider(self, registry: "ModelRegistry") -> str | None:
        """Return the provider of the model that a session has if no more is said, as far as these files name it."""
        given = self._options
        if given.provider is not None:
            return given.provider
        prefix = (given.model or "").partition("/")[0]
        if prefix in registry.login_providers():
            return prefix
        if (default := _default_provider()) is not None:
            return default
        model = registry.first_available()
        return None if model is None else str(model["provider"])

    def _registry(self, stored: "AuthFile | None" = None) -> "ModelRegistry":
        from pinnace_agent.config.models.models import ModelRegistry

        return ModelRegistry(self._providers.catalog(), stored or _stored(), environment())


def logs_in_to(login: ProviderLogin) -> bool:
    """Return whether this program logs in to a provider in this way."""
    from pinnace_agent.config.credentials.key_status import login_kinds

    return login.method in login_kinds(login.provider)


def _stored() -> "AuthFile":
    from pinnace_agent.config.credentials.credentials import read_auth

    return read_auth(_folder() / "auth.json")


def _folder() -> Path:
    from pinnace_agent.files.paths import agent_dir

    return agent_dir(environment())


def _default_provider() -> str | None:
    """Return the provider of the settings. Whatever else they have, and what is wrong in them, an agent says."""
    from pinnace_agent.files.relaxed_json import ConfigurationFileError, read_object

    try:
        provider = (read_object(_folder() / "settings.json", is_relaxed=True) or {}).get("defaultProvider")
    except ConfigurationFileError:
        return None
    return provider if isinstance(provider, str) and provider else None


def _label(record: Mapping[str, object]) -> str:
    """Return a provider and where its credentials come from, as people read it."""
    return f"{record['provider']} ({record.get('variable') or record['source']})"
