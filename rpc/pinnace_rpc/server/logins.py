"""Logins as commands: `login`, `abort_login` and `logout`, and what `auth_status` shows (R-KEY-01 to R-KEY-06).

A login belongs to the process: it is begun in every state, and neither a run nor a session has a part in it. Its
command is answered at its end, as a `bash` or a `compact` is; what the user has to do comes before, as `login_start`.
What a browser was sent to can be pasted into a dialog, which belongs to the login and to no session.
auth.json is changed by a thread, under the lock that other programs take. Until then a login has stored nothing, so it
can be left at any moment; the server's code expires. Shows no key and no token. Has no access to lines and ids of
commands. Not for start-up: it is imported for the first of these commands.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import trio

from pinnace_agent.config.credentials.auth_file import LoginInTheWay, remove_entry, store_key, store_login
from pinnace_agent.config.credentials.credentials import AuthFile, read_auth
from pinnace_agent.config.credentials.key_status import login_kinds, status_record
from pinnace_agent.config.credentials.known_keys import learn_login
from pinnace_agent.config.credentials.logins import Login, LoginFailed, is_token
from pinnace_agent.config.credentials.provider_settings import (
    PROVIDER_SETTINGS,
    SettingWrong,
    asked_settings,
    needs_key,
    read_settings,
)
from pinnace_agent.config.credentials.vendor_logins import LoginSettingsWrong, has_login
from pinnace_agent.config.values import legacy_variable, literal
from pinnace_agent.core.surroundings import environment
from pinnace_agent.files.file_lock import LockHeld
from pinnace_agent.files.relaxed_json import ConfigurationFileError
from pinnace_agent.redaction.policy import Secret
from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_spec.rules import errors

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.config.credentials.browser_login import LoginPage
    from pinnace_agent.config.credentials.device_login import DeviceCode
    from pinnace_agent.config.models.models import ModelRegistry
    from pinnace_agent.engine.ports import AgentReads
    from pinnace_agent.extensions.services.dialogs import DialogTable
    from pinnace_rpc.server.slow_reads import SlowReads
    from pinnace_spec.records import commands as cmd
    from pinnace_spec.records.messages import LoginKind

    LoginCommand: TypeAlias = cmd.Login | cmd.AbortLogin | cmd.Logout

Data = Mapping[str, object]
Ended = Callable[[Data | errors.ProtocolError | None], None]
_log = logging.getLogger("pinnace.dispatch")

_JOB: Final = "auth"
_CHECK: Final = trio.from_thread.check_cancelled
"""Ends the waiting for the lock of auth.json with the process; nothing is stored then."""
_ABORTED: Final = (errors.LOGIN_ABORTED, errors.ErrorCode.ABORTED)
_REPLACED: Final = (errors.LOGIN_REPLACED, errors.ErrorCode.ABORTED)
_CLOSING: Final = (errors.SHUTTING_DOWN, errors.ErrorCode.SHUTTING_DOWN)


def statuses(registry: "ModelRegistry", provider: str | None) -> Data:
    """Return what `auth_status` answers.

    Raises:
        ClientError: There is no such provider.
    """
    names = registry.login_providers() if provider is None else [_known(registry, provider)]
    return {"providers": [shown(registry, name) for name in names]}


def shown(registry: "ModelRegistry", provider: str) -> Data:
    """Return what clients are shown of the credentials of a provider."""
    status = registry.key_status(provider)
    record = {**status_record(status), "methods": list(ways_of(registry, provider))}
    if provider in PROVIDER_SETTINGS:
        asked = asked_settings(provider, status.settings)
        record["settings"] = [
            {
                "name": each.name,
                "about": each.about,
                "isSet": each.name in status.settings,
                "isAsked": each in asked,
            }
            for each in PROVIDER_SETTINGS[provider]
        ]
    if not needs_key(provider):
        record["needsKey"] = False
    login = registry.login_of(provider) if status.source == "login" else None
    if login is not None and login.expires_ms >= 0:
        record["expiresAt"] = int(login.expires_ms)
    return record


def ways_of(registry: "ModelRegistry", provider: str) -> "tuple[LoginKind, ...]":
    """Return how credentials of a provider are got that can be stored. Logins of an extension replace our own."""
    kinds = login_kinds(provider)
    if registry.own_login(provider) is None:
        return kinds
    return (*(each for each in kinds if each == "key"), "extension")


class Logins:
    """The logins of one process that wait for their users: at most one for each provider."""

    def __init__(self, threads: "SlowReads") -> None:
        """Change auth.json in these threads; what they do is awaited when the process ends."""
        self._threads = threads
        self._numbers = count(1)
        self._waiting: dict[str, Callable[[errors.ClientError], None]] = {}
        """What ends the login of a provider, or a command that waits for extensions."""
        self._is_over = False
        self._dialogs: DialogTable | None = None
        """For what users paste; None: no login has asked for it."""

    def take_dialog_answer(self, response: Mapping[str, object]) -> None:
        """Take an `extension_ui_response`, which may be for a dialog of a session."""
        if self._dialogs is not None:
            self._dialogs.answer(response)

    def perform(self, agent: "AgentReads", command: "LoginCommand", ended: Ended) -> None:
        """Carry out one of the three commands.

        Args:
            agent: Whose models can be used by what is stored.
            command: Of the client.
            ended: Called once, at its end: with the data of the answer, if it has any, or the reason of a failure.
        """
        try:
            match command.command_name:  # each has the model of its name
                case "login":
                    self._log_in(agent, cast("cmd.Login", command), ended)
                case "logout":
                    self._log_out(agent, cast("cmd.Logout", command), ended)
                case _:
                    self._abort(command.provider)
                    ended(None)
        except errors.ProtocolError as error:
            ended(error)
        except Exception as error:  # a defect of ours: answered, and the process continues
            _log.exception("a command about logins failed")
            ended(errors.InternalError(f"Internal error: {error}"))

    def _log_in(self, agent: "AgentReads", command: "cmd.Login", ended: Ended) -> None:
        """Begin a login; one of the same provider that waits is ended.

        Raises:
            ClientError: It can't be begun, and `ended` is not called.
        """
        if command.key is not None:
            REDACTOR.learn(command.key)
        registry = agent.profile.registry
        if self._waits_for_extensions(agent, command, ended, is_theirs=command.method == "extension"):
            return
        provider = _known(registry, command.provider)
        methods = ways_of(registry, provider)
        if command.method not in methods:
            raise _invalid("login", "method", errors.no_such_method(methods))
        if command.method == "key":
            variables = _checked_settings(provider, command.settings)
            may_lack = bool(variables) and not needs_key(provider)
            key = None if command.key is None and may_lack else _checked_key(command.key)
            path = _path(registry)
            self._end_one(provider, _REPLACED)
            store = partial(_store_key, path, provider, key, variables, is_forced=command.force)
            self._edit(agent, provider, store, ended)
            return
        for field, value in (("key", command.key), ("settings", command.settings)):
            if value is not None:
                raise _invalid("login", field, errors.KEY_UNUSED)
        path = _path(registry)
        if self._is_over:
            raise errors.ClientError(*_CLOSING)
        self._end_one(provider, _REPLACED)
        self._wait(agent, provider, command.method, path, ended)

    def _log_out(self, agent: "AgentReads", command: "cmd.Logout", ended: Ended) -> None:
        """Remove what is stored for a provider. Errors as of `_log_in`."""
        registry = agent.profile.registry
        is_theirs = not command.force and not has_login(command.provider)
        if self._waits_for_extensions(agent, command, ended, is_theirs=is_theirs):
            return
        provider = _known(registry, command.provider)
        path = _path(registry)
        self._end_one(provider, _REPLACED)
        may_log_in = command.force or has_login(provider) or registry.own_login(provider) is not None
        self._edit(agent, provider, partial(_remove, path, provider, removes_login=may_log_in), ended)

    def _waits_for_extensions(
        self, agent: "AgentReads", command: "cmd.Login | cmd.Logout", ended: Ended, *, is_theirs: bool
    ) -> bool:
        """Carry a command out later if extensions that are being loaded may decide it; return whether that is so.

        Args:
            agent: As of `perform`, with the others.
            command: Of the client.
            ended: Called with what becomes of it.
            is_theirs: Whether an extension may decide it although the provider is known.
        """
        provider = command.provider
        registered = None if agent.extensions is None else agent.extensions.registered
        is_decided = not is_theirs and provider in agent.profile.registry.login_providers()
        if registered is None or registered.is_set() or is_decided or self._is_over:
            return False
        job = f"login:{next(self._numbers)}"

        def stop(why: errors.ClientError) -> None:
            del self._waiting[provider]
            ended(why)
            agent.jobs.cancel(job)

        def over(_cancelled: bool, _failure: BaseException | None) -> None:
            if self._waiting.get(provider) is not stop:
                return  # ended before
            del self._waiting[provider]
            if registered.is_set():
                self.perform(agent, command, ended)
            else:
                ended(errors.ClientError(*_CLOSING))

        self._end_one(provider, _REPLACED)
        self._waiting[provider] = stop
        agent.jobs.start(job, registered.wait, over)
        return True

    def _abort(self, provider: str | None) -> None:
        """End the login of a provider, or all; each is answered. Nothing happens if none waits."""
        for name in tuple(self._waiting) if provider is None else (provider,):
            self._end_one(name, _ABORTED)

    def end(self) -> None:
        """End all logins: the process ends."""
        self._is_over = True
        for name in tuple(self._waiting):
            self._end_one(name, _CLOSING)

    def _end_one(self, provider: str, why: tuple[str, errors.ErrorCode]) -> None:
        if (stop := self._waiting.get(provider)) is not None:
            stop(errors.ClientError(*why))

    def _wait(self, agent: "AgentReads", provider: str, method: "LoginKind", path: Path, ended: Ended) -> None:
        """Let the user log in with a code or in a browser, and store the login."""
        job = f"login:{next(self._numbers)}"
        own = agent.profile.registry.own_login(provider)
        outcome: list[Login | errors.ProtocolError] = []
        is_announced = False

        def announce(address: str, user_code: str | None, expires_in_s: float | None) -> None:
            nonlocal is_announced
            is_announced = True
            record: dict[str, object] = {"type": "login_start", "provider": provider, "url": address}
            if user_code is not None:
                record["userCode"] = user_code
            if expires_in_s is not None:
                record["expiresAt"] = max(1, round((time.time() + expires_in_s) * 1000))
            agent.emitter.emit(record)

        def finish(data: Data | errors.ProtocolError | None) -> None:
            if own is not None and not isinstance(data, errors.ProtocolError):
                own.stored()
            if is_announced:
                record: dict[str, object] = {"type": "login_end", "provider": provider, "success": True}
                if isinstance(data, errors.ProtocolError):
                    record |= {"success": False, "error": data.text}
                agent.emitter.emit(record)
            ended(data)

        def stop(why: errors.ClientError) -> None:
            del self._waiting[provider]
            finish(why)
            agent.jobs.cancel(job)

        async def work() -> None:
            if method == "browser":
                user = _Pasting(provider, announce, self._table(agent))
                outcome.append(await _log_in_by_browser(provider, path.parent, user))
            elif own is not None:
                from pinnace_rpc.server.extension_login import log_in_by_extension

                outcome.append(await log_in_by_extension(provider, own, announce, self._table(agent), agent.emitter))
            else:
                outcome.append(await _log_in(provider, path.parent, announce))

        def over(_cancelled: bool, failure: BaseException | None) -> None:
            if self._waiting.get(provider) is not stop:
                return  # ended before; what has come since is not used
            del self._waiting[provider]
            got = outcome[-1] if outcome else errors.ClientError(*_CLOSING)
            if failure is not None:
                got = errors.InternalError(f"Internal error: {failure}")
            if isinstance(got, Login):
                learn_login(got)
                self._edit(agent, provider, partial(_store_login, path, provider, got), finish)
            else:
                finish(got)

        self._waiting[provider] = stop
        agent.jobs.start(job, work, over)

    def _table(self, agent: "AgentReads") -> "DialogTable":
        if self._dialogs is None:
            from pinnace_agent.extensions.services.dialogs import DialogTable

            self._dialogs = DialogTable(agent.emitter.emit)
        return self._dialogs

    def _edit(self, agent: "AgentReads", provider: str, edit: Callable[[], "_Read"], ended: Ended) -> None:
        """Change auth.json in a thread, and let the models of the provider be used as it says now."""
        registry = agent.profile.registry
        found: list[_Read] = []

        def work() -> Data:
            found.append(edit())
            return {}

        def over(data: Data | errors.ProtocolError) -> None:
            if not found:
                ended(data)
                return
            registry.use_auth(provider, *found[0])
            ended(shown(registry, provider))

        self._threads.start(agent.jobs, _JOB, work, over)


_Read = tuple[AuthFile, float]
"""An auth.json, and when it was read."""


def _known(registry: "ModelRegistry", provider: str) -> str:
    known = registry.login_providers()
    if provider in known:
        return provider
    from pinnace_spec.nearest import nearest

    code = errors.ErrorCode.PROVIDER_NOT_FOUND
    raise errors.ClientError(errors.provider_not_found(provider), code, nearest(provider, known))


def _path(registry: "ModelRegistry") -> Path:
    if (path := registry.auth_path) is None:
        raise errors.ClientError(errors.NO_KEY_FILE, errors.ErrorCode.IO_ERROR)
    return path


def _checked_key(key: str | None) -> Secret:
    """Return a key as it is written in the file."""
    if key is None:
        raise _invalid("login", "key", errors.NEEDS_A_KEY)
    # Old files may name a variable without a dollar sign, so such a key would be read as one.
    if not is_token(key) or key != key.strip() or legacy_variable(Secret(key), environment()).reveal() != key:
        raise _invalid("login", "key", errors.NOT_A_KEY)
    return literal(Secret(key))


def _checked_settings(provider: str, words: Sequence[str] | None) -> dict[str, str]:
    try:
        return read_settings(provider, words or ())
    except SettingWrong as error:
        raise _invalid("login", "settings", f"are wrong: {error}") from None


def _invalid(command: str, field: str, problem: str) -> errors.ClientError:
    return errors.ClientError(errors.invalid_field(command, field, problem), errors.ErrorCode.INVALID_FIELD)


Announce = Callable[[str, str | None, float | None], None]
"""Takes the address to open, the code to enter there, if there is one, and for how many seconds that is good."""


class _Pasting:
    """The user of a login in a browser, who may paste what it was sent to into a dialog."""

    def __init__(self, provider: str, announce: Announce, dialogs: "DialogTable") -> None:
        self._provider = provider
        self._announce = announce
        self._dialogs = dialogs

    def show(self, page: "LoginPage") -> None:
        self._announce(page.address, None, page.expires_in_s)

    async def paste(self, page: "LoginPage", problem: str | None) -> str | None:
        extra = {"loginProvider": self._provider}
        title = _question(self._provider, page, problem)
        return await self._dialogs.input(title, page.redirect_uri, timeout_s=None, extra=extra)


def _question(provider: str, page: "LoginPage", problem: str | None) -> str:
    """Return what asks the user to log in in a browser, and to paste what it was sent to."""
    when = (
        "If the browser then can't show the page at" if page.is_awaited else "The browser then can't show the page at"
    )
    lines = [
        f"Log in to {provider}: open this address in a browser.",
        page.address,
        f"{when} {page.redirect_uri}, paste its whole address here, or the code.",
        *([] if problem is None else [f"{problem[0].upper()}{problem[1:]}."]),
    ]
    return "\n".join(lines)


async def _log_in(provider: str, folder: Path, announce: Announce) -> Login | errors.ProtocolError:
    """Wait until the user has entered the code; cancelling gives up."""
    from pinnace_agent.config.credentials.login_methods import device_login_of  # it imports the HTTP client

    def show(code: "DeviceCode") -> None:
        announce(code.address, code.user_code, code.expires_in_s)

    async def work() -> Login:
        method = await trio.to_thread.run_sync(device_login_of, provider, folder)
        assert method is not None  # the provider offers it
        return await method.log_in(show)

    return await _made(work)


async def _log_in_by_browser(provider: str, folder: Path, user: _Pasting) -> Login | errors.ProtocolError:
    """Wait until the browser has come or the user has pasted; cancelling gives up."""
    from pinnace_agent.config.credentials.login_methods import browser_login_of  # it imports the HTTP client

    async def work() -> Login:
        method = await trio.to_thread.run_sync(browser_login_of, provider, folder)
        assert method is not None  # the provider offers it
        return await method.log_in(user)

    return await _made(work)


async def _made(work: Callable[[], Awaitable[Login]]) -> Login | errors.ProtocolError:
    try:
        return await work()
    except LoginSettingsWrong as error:
        return errors.ClientError(str(error), errors.ErrorCode.INVALID_CONFIGURATION)
    except LoginFailed as error:
        return errors.ClientError(str(error), errors.ErrorCode.AUTHENTICATION_FAILED)


def _store_key(
    path: Path, provider: str, key: Secret | None, variables: Mapping[str, str], *, is_forced: bool
) -> _Read:
    edit = partial(store_key, path, provider, key, replaces_login=is_forced, variables=variables, check=_CHECK)
    try:
        return _edited(path, edit)
    except LoginInTheWay:
        raise _invalid("login", "force", errors.LOGIN_IN_THE_WAY) from None


def _store_login(path: Path, provider: str, login: Login) -> _Read:
    return _edited(path, partial(store_login, path, provider, login, check=_CHECK))


def _remove(path: Path, provider: str, *, removes_login: bool) -> _Read:
    try:
        return _edited(path, partial(remove_entry, path, provider, removes_login=removes_login, check=_CHECK))
    except LoginInTheWay:
        raise _invalid("logout", "force", errors.LOGIN_IN_THE_WAY) from None


def _edited(path: Path, edit: Callable[[], object]) -> _Read:
    """Change auth.json and read it again; blocks while another program changes it."""
    try:
        edit()
    except ConfigurationFileError as error:
        text = f"{path}: {error} (nothing was changed)"
        raise errors.ClientError(text, errors.ErrorCode.INVALID_CONFIGURATION) from None
    except LockHeld as error:
        raise errors.ClientError(str(error), errors.ErrorCode.IO_ERROR) from None
    except OSError as error:
        text = f"{error.filename or path}: {error.strerror or error}"
        raise errors.ClientError(text, errors.ErrorCode.IO_ERROR) from None
    read_s = time.monotonic()
    return read_auth(path), read_s
