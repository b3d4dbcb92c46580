"""Loads extensions: one after another, each completely or not at all.

A module is imported under a unique name, its function is called with an API that only registers, and when it returns
the extension is loaded. A failure leaves nothing behind except an entry in the report. Runs in trio's thread, as the
extension will, so that it can create objects that belong to a thread.
"""

import inspect
import logging
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import partial
from typing import Final, Protocol, TextIO, cast

import trio

from pinnace_agent.core.loop_thread import all_awaited
from pinnace_agent.core.surroundings import is_embedded
from pinnace_agent.extensions.api.api import ExtensionAPI, slug
from pinnace_agent.extensions.api.base import Services
from pinnace_agent.extensions.events.uncompiled import Fields, FrozenFields, frozen, mutable
from pinnace_agent.extensions.loading.discovery import Candidate
from pinnace_agent.extensions.loading.folders import LoadFailure
from pinnace_agent.extensions.loading.source_files import SourceRefused, check_files, fingerprint
from pinnace_agent.extensions.loading.watch import LoadLimits, watched
from pinnace_agent.extensions.registration.flags import FlagValues
from pinnace_agent.extensions.registration.registrations import Extension, Generation, SourceInfo
from pinnace_agent.extensions.registration.signatures import check_function
from pinnace_agent.extensions.services.bus import EventBus
from pinnace_agent.extensions.services.error_records import ownership

_log: Final = logging.getLogger("pinnace.extensions")
ExtensionFunction = Callable[[ExtensionAPI], object]


class _LoadError(Exception):
    """An extension can't be loaded; the report shows the text."""


@frozen
class LoadedExtension(FrozenFields):
    """One loaded extension."""

    extension: Extension
    api: ExtensionAPI
    """Its `pi`, to be bound to the session."""
    fingerprint: str = ""
    """SHA-256 of its sources; empty for built-in extensions."""
    module: str | None = None
    """The module to remove when it is unloaded."""


@mutable
class LoadReport(Fields):
    """The result of loading."""

    loaded: list[LoadedExtension] = field(default_factory=list[LoadedExtension])
    """In load order."""
    failures: list[LoadFailure] = field(default_factory=list[LoadFailure])
    notices: list[str] = field(default_factory=list[str])

    @property
    def extensions(self) -> list[Extension]:
        """The loaded extensions, in load order."""
        return [each.extension for each in self.loaded]


@frozen
class Inline(FrozenFields):
    """An extension without a file: built in, or passed by an embedding program."""

    path: str
    """`<inline:1>` or `builtin:name`."""
    function: ExtensionFunction
    is_replaceable: bool = False

    @property
    def source(self) -> SourceInfo:
        """Its origin, for clients."""
        source = "builtin" if self.path.startswith("builtin:") else "inline"
        return SourceInfo(path=self.path, source=source, scope="temporary", origin="top-level")


class ScriptHost(Protocol):
    """Runs extensions in TypeScript and JavaScript."""

    async def load(self, path: str, api: ExtensionAPI) -> None:
        """Load one; when this returns, it has registered with `api`. Raises what the extension raises."""
        ...

    def close(self, *, is_last: bool) -> None:
        """End them; their session instance must have ended.

        `is_last`: nothing of what their modules hold is for a next instance.
        """
        ...


class Loader:
    """Loads the extensions of one session instance."""

    def __init__(
        self,
        generation: Generation,
        *,
        cwd: str,
        environment: Mapping[str, str] | None = None,
        flags: FlagValues | None = None,
        limits: LoadLimits | None = None,
        log: Callable[[str], None] | None = None,
        scripts: ScriptHost | None = None,
    ) -> None:
        """Create the loader of a session instance.

        Args:
            generation: The token of the instance.
            cwd: The working folder of programs until there is a session.
            environment: The environment of programs; None: that of the process without the keys of providers.
            flags: The flags of the command line.
            limits: How long one extension may take to load.
            log: Takes lines about loaded extensions and problems; called in other threads as well.
            scripts: Runs extensions in TypeScript and JavaScript; None: there are none.
        """
        self.scripts = scripts
        self.bus = EventBus(generation, log or _log.warning)
        self.flags = flags or FlagValues()
        self._generation = generation
        self._cwd = cwd
        self._environment = environment
        self._limits = limits or LoadLimits()
        self._log_line = log or _log.info
        self._done: dict[str, LoadedExtension | LoadFailure] = {}
        self._order: list[Extension] = []

    async def load(self, candidates: Sequence[Candidate], inline: Sequence[Inline] = ()) -> LoadReport:
        """Load the extensions that are not loaded yet, in order; the report covers all of them, in this order.

        A second call, which adds the project's extensions, keeps those of the first and does not retry failures.
        Cancelling stops at the extension that is loading, which leaves nothing behind.
        """
        if not is_embedded():
            redirect_stdout()
        report = LoadReport()
        for candidate in candidates:
            await self._once(candidate.identity, report, partial(self._load_file, candidate))
        for each in inline:
            await self._once(each.path, report, partial(self._load_inline, each))
        self._order = report.extensions
        for loaded in report.loaded:
            report.notices += [f"{loaded.extension.path}: {text}" for text in loaded.extension.diagnostics]
        return report

    def unload(self, loaded: Sequence[LoadedExtension], *, is_last: bool = True) -> None:
        """Remove extensions and their modules; their session instance must have ended.

        Args:
            loaded: What was loaded.
            is_last: Whether scripts end with the instance; else the next one may go on with their modules.
        """
        for each in loaded:
            self.bus.drop(each.extension)
            each.extension.discard("stale")
            if each.module is not None:
                from pinnace_agent.extensions.loading import modules

                modules.forget(each.module)
        if self.scripts is not None:
            self.scripts.close(is_last=is_last)

    async def _once(self, identity: str, report: LoadReport, load: Callable[[], Awaitable[LoadedExtension]]) -> None:
        done = self._done.get(identity)
        if done is None:
            await trio.lowlevel.checkpoint()
            try:
                done = await load()
            except _Failed as error:
                done = error.failure
            self._done[identity] = done
        if isinstance(done, LoadFailure):
            report.failures.append(done)
        else:
            report.loaded.append(done)
            self._order = report.extensions

    async def _load_file(self, candidate: Candidate) -> LoadedExtension:
        entry, folder = candidate.entry, candidate.folder
        digest = ""
        started_s = trio.current_time()  # before that of the watch: what it has named as too slow is too slow
        with self._reporting(candidate.source["path"], entry, folder), watched(entry, self._limits, self._log_line):
            if candidate.attribute is None:
                check_files(entry, folder)
                if not candidate.is_script:
                    _check_dependencies(entry, folder)
                digest = fingerprint(entry, folder)
            extension, api = self._new(candidate.source["path"], candidate.source)
            self._log_line(f"loading the extension {entry} (sha256 {digest or 'of an installed package'})")
            try:
                if candidate.is_script:
                    assert self.scripts is not None
                    await self._call(partial(self.scripts.load, entry), extension, api, started_s)
                    return LoadedExtension(extension, api, digest)
                name = await self._run_module(candidate, extension, api, started_s)
            except BaseException:
                self._discard(extension)
                raise
        return LoadedExtension(extension, api, digest, name)

    async def _run_module(self, candidate: Candidate, extension: Extension, api: ExtensionAPI, started_s: float) -> str:
        """Import a module and call its function; return the name of the module. A failure leaves no module behind."""
        from pinnace_agent.extensions.loading import modules  # with the first extension in Python

        entry, attribute = candidate.entry, candidate.attribute
        name = entry if attribute else modules.module_name(slug(entry))
        try:
            module = modules.import_installed(name) if attribute else modules.import_file(name, entry, candidate.folder)
            function = getattr(module, attribute or "extension", None)
            if function is None:
                from pinnace_agent.extensions.loading.errors import no_function

                raise _LoadError(no_function(dir(module), attribute or "extension"))
            await self._call(function, extension, api, started_s)
        except BaseException:
            modules.forget(name)
            raise
        return name

    async def _load_inline(self, inline: Inline) -> LoadedExtension:
        started_s = trio.current_time()  # likewise
        with self._reporting(inline.path, inline.path, None), watched(inline.path, self._limits, self._log_line):
            extension, api = self._new(inline.path, inline.source)
            extension.is_replaceable = inline.is_replaceable
            try:
                await self._call(inline.function, extension, api, started_s)
            except BaseException:
                self._discard(extension)
                raise
        return LoadedExtension(extension, api)

    def _new(self, path: str, source: SourceInfo) -> tuple[Extension, ExtensionAPI]:
        extension = Extension(path, source, self._generation)
        return extension, ExtensionAPI(
            extension, Services(self.bus, self.flags, lambda: self._order, self._cwd, self._environment)
        )

    async def _call(self, function: object, extension: Extension, api: ExtensionAPI, started_s: float) -> None:
        """Call an extension's function within its time limit; when it returns, the extension is live."""
        check_function(function, "the extension's function", "(pi)")
        with trio.move_on_at(started_s + self._limits.hard_s) as scope:
            with all_awaited():
                value = cast("ExtensionFunction", function)(api)
                if inspect.isawaitable(value):
                    await cast("Awaitable[object]", value)
        # A function that blocks, or swallows the cancellation, returns late.
        if scope.cancelled_caught or trio.current_time() - started_s > self._limits.hard_s:
            raise _LoadError(f"took more than {self._limits.hard_s:g} s to load")
        extension.state = "live"

    def _discard(self, extension: Extension) -> None:
        self.bus.drop(extension)
        extension.discard("failed")

    @contextmanager
    def _reporting(self, path: str, entry: str, folder: str | None) -> Generator[None, None, None]:
        """Turn a failure of the extension into one of the report; a cancellation passes."""
        try:
            yield
        except (_LoadError, SourceRefused) as error:
            raise _Failed(LoadFailure(path, str(error))) from error
        except BaseException as error:
            passing, failure = ownership(error)
            if passing is not None:
                raise passing from None
            assert failure is not None
            from pinnace_agent.extensions.loading.errors import error_text, short_traceback

            text = error_text(failure, entry, folder)
            raise _Failed(LoadFailure(path, text, short_traceback(failure, entry, folder))) from failure


def _check_dependencies(entry: str, folder: str | None) -> None:
    from pinnace_agent.extensions.loading.dependencies import DependencyError, check_dependencies

    try:
        check_dependencies(entry, folder)
    except DependencyError as error:
        raise _LoadError(str(error)) from error


class _Failed(Exception):
    def __init__(self, failure: LoadFailure) -> None:
        super().__init__(failure.error)
        self.failure = failure


class _StderrInstead:
    """A standard output that writes to the current standard error."""

    def __init__(self, replaced: TextIO) -> None:
        self.replaced = replaced

    def __getattr__(self, name: str) -> object:
        return getattr(sys.stderr, name)


def redirect_stdout() -> TextIO:
    """Redirect everything printed from now on to stderr, because stdout carries the protocol.

    Returns the former `sys.stdout`, for output that belongs there, such as a list of models.
    """
    before = sys.stdout
    if isinstance(before, _StderrInstead):
        return before.replaced
    sys.stdout = cast("TextIO", _StderrInstead(before))
    return before
