"""The providers that extensions have registered: their models, their code, their logins.

Decides when the models of a provider are requested (`refresh_models`), and performs `/login`. Belongs to one process;
registrations end with the session instance.
"""

import logging
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import trio

from pinnace_agent.config.models.models import ProviderCode
from pinnace_agent.extensions.api.contexts import CommandContext
from pinnace_agent.extensions.registration.registrations import CommandRegistration, ErrorRecord, Function
from pinnace_agent.files.relaxed_json import ConfigurationFileError, JsonObject
from pinnace_agent.redaction.secrets import Secrets

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.extension_host.ports import InstanceHost
    from pinnace_agent.extensions.providers.login import ExtensionLogin

_log = logging.getLogger("pinnace.extensions")


class _Registered(NamedTuple):
    """One provider, as an extension has registered it."""

    path: str
    config: Mapping[str, object]
    entry: JsonObject
    code: ProviderCode
    refresh: Function | None = None
    login: "ExtensionLogin | None" = None


class ExtensionProviders:
    """The providers of the extensions of one process."""

    def __init__(self, host: "InstanceHost") -> None:
        """Register nothing yet."""
        self._host = host
        self._registry = host.agent.profile.registry
        self._registered: dict[str, _Registered] = {}
        self._models: dict[tuple[str, str], list[JsonObject]] = {}  # as they were refreshed, by extension and provider
        self._is_bound = False

    def register(self, path: str, name: str, config: Mapping[str, object]) -> None:
        """Add or override a provider.

        Raises:
            ValueError: It does not follow the schema of models.json, or makes no sense; the text says why.
            TypeError: Its `oauth` can't be used; likewise.
        """
        from pinnace_agent.extensions.registration.provider_config import file_entry, streamed_api

        runner = self._host.runner
        assert runner is not None
        stream, refresh, oauth = config.get("streamSimple"), config.get("refreshModels"), config.get("oauth")
        speaker = runner.provider(path, name, stream) if callable(stream) else None
        login = None if oauth is None else runner.login(path, name, oauth, partial(self._refresh_soon, name))
        registered = _Registered(
            path,
            config,
            file_entry(config),
            ProviderCode(streamed_api(config), speaker, login),
            refresh if callable(refresh) else None,
            login,
        )
        models = self._models.get((path, name)) if registered.refresh is not None else None
        self._describe(name, registered, models)
        self._end_login(name, "its extension has registered the provider again")
        self._registered[name] = registered
        if login is not None:
            description = "Log in to a provider: /login PROVIDER"
            runner.offer_command(path, CommandRegistration("login", description, self._log_in, self._names))
        if self._is_bound:
            self._refresh_soon(name)

    def _refresh_soon(self, name: str) -> None:
        """Begin to request the models of a provider, if it is there and says them."""
        registered, runner = self._registered.get(name), self._host.runner
        if registered is not None and registered.refresh is not None and runner is not None:
            runner.instance_of(registered.path).start_task("refresh_models", partial(self._refresh, name, registered))

    def unregister(self, name: str) -> None:
        """Take a provider away, and give back what it had overridden; an unknown name is no error."""
        self._end_login(name, "its extension has taken the provider away")
        self._registered.pop(name, None)
        self._registry.forget_provider(name)

    def end(self) -> None:
        """Take all of them away: the session instance is over."""
        self._is_bound = False
        self._registered.clear()
        self._registry.forget_providers()

    async def bound(self, *, is_refreshed: bool) -> None:
        """Ask for the models of the providers that are there now, if they are to be refreshed.

        Those that do not answer keep their models. Cancelling stops waiting for the others.
        """
        self._is_bound = True
        wanted = [(name, each) for name, each in self._registered.items() if each.refresh is not None]
        if not is_refreshed or not wanted:
            return
        async with trio.open_nursery() as nursery:
            for name, registered in wanted:
                nursery.start_soon(self._refresh, name, registered)

    async def _refresh(self, name: str, registered: _Registered) -> None:
        """Ask for the models of one provider; a failure is reported and leaves them as they are."""
        from pinnace_agent.extensions.registration.provider_config import (
            REFRESH_LIMIT_S,
            RefreshContext,
            refreshed_models,
        )

        runner, registry = self._host.runner, self._registry
        assert runner is not None
        assert registered.refresh is not None
        with trio.move_on_after(REFRESH_LIMIT_S) as patience:
            credentials = await registry.provider_credentials(name)
            context = RefreshContext(name, registered.config, credentials.api_key, credentials.headers)
            ask = partial(refreshed_models, registered.refresh, context)
            try:
                models = await runner.isolated(registered.path, "refresh_models", ask)
                if self._registered.get(name) is registered:
                    self._describe(name, registered, models)
                    self._models[registered.path, name] = models
                    self._host.models_changed()
            except ValueError as error:
                self._failed(registered, name, Secrets(credentials.api_key, credentials.headers).hide(str(error)))
        if patience.cancelled_caught:
            self._failed(registered, name, f"no answer came for {REFRESH_LIMIT_S:g} s")

    def _failed(self, registered: _Registered, name: str, problem: str) -> None:
        text = f'provider "{name}": {problem}; its models stay as they are'
        self._host.report(ErrorRecord(registered.path, "refresh_models", text))

    def _describe(self, name: str, registered: _Registered, models: list[JsonObject] | None) -> None:
        entry = registered.entry if models is None else {**registered.entry, "models": models}
        self._registry.describe_provider(name, entry, registered.code)

    # Logins.

    def end_logins(self, why: str) -> None:
        """End the logins that wait for their users: the session instance ends for this reason."""
        for name in self._registered:
            self._end_login(name, why)

    def _end_login(self, name: str, why: str) -> None:
        registered = self._registered.get(name)
        if registered is not None and registered.login is not None:
            registered.login.end(why)

    def _names(self, prefix: str) -> list[str]:
        return [name for name, each in self._registered.items() if each.login is not None and name.startswith(prefix)]

    async def _log_in(self, ctx: CommandContext, arguments: str) -> None:
        """Let the user log in: `/login PROVIDER`."""
        from pinnace_agent.config.credentials.auth_file import store_login
        from pinnace_agent.config.credentials.logins import LoginCancelled, LoginEnded
        from pinnace_agent.extensions.providers.login import DialogCallbacks
        from pinnace_agent.files.file_lock import LockHeld

        names = self._names("")
        name = arguments.strip() or (names[0] if len(names) == 1 else "")
        registered = self._registered.get(name)
        if registered is None or registered.login is None:
            ctx.ui.notify(f"/login takes the id of a provider: {', '.join(names)}", "error")
            return
        registry = self._registry
        path = registry.auth_path
        method = registered.login
        try:
            if path is None:
                raise ValueError("there is no auth.json to keep it in")
            login = await method.log_in(DialogCallbacks(ctx.ui, method.name))
            with trio.CancelScope(shield=True):  # what was given once is kept
                await trio.to_thread.run_sync(store_login, path, name, login)
        except LoginEnded as why:
            ctx.ui.notify(f"{method.name}: {why}", "warning")
        except LoginCancelled:
            ctx.ui.notify(f"{method.name}: the login was cancelled", "warning")
        except (ValueError, LockHeld, ConfigurationFileError, OSError) as error:
            ctx.ui.notify(f"{method.name}: not logged in: {error}", "error")
        else:
            registry.use_login(name, login)
            ctx.ui.notify(f"{method.name}: logged in", "info")
            if registered.refresh is not None:
                await self._refresh(name, registered)
