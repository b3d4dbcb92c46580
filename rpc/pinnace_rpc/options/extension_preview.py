"""What extensions add to `--help` and `--list-models`: their options and their models, without a session.

Loads them as a session would, and unloads them; none of their handlers is called. One that fails is reported and left
out. Writes to stderr alone, as does what extensions print.
"""

import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast

import trio

from pinnace_agent.config.configuration import Configuration, load_configuration
from pinnace_agent.config.models.models import ModelRegistry, ProviderCode
from pinnace_agent.extensions.loading.discovery import ExtensionSources, discover, resolve_named
from pinnace_agent.extensions.loading.folders import LoadFailure
from pinnace_agent.extensions.loading.loading import Loader
from pinnace_agent.extensions.registration.flags import flags_of
from pinnace_agent.extensions.registration.provider_config import file_entry, streamed_api
from pinnace_agent.extensions.registration.registrations import (
    ErrorRecord,
    FlagRegistration,
    Function,
    Generation,
    ProviderRegistration,
)
from pinnace_agent.redaction.secrets import Secrets
from pinnace_rpc.options.extension_hints import in_load_order

_INDENT = "  "


class Preview(NamedTuple):
    """The options and models of extensions."""

    flags: Mapping[str, FlagRegistration]
    providers: Sequence[ProviderRegistration]
    """Names with their descriptions; None removes a provider."""
    loaded: Sequence[str] = ()
    """The paths of the extensions."""
    failures: Sequence[LoadFailure] = ()
    """Those that could not be loaded."""
    notices: Sequence[str] = ()
    """What else is wrong with extensions."""


Work = Callable[[Preview], Awaitable[None]]
"""Called while the extensions are loaded."""


def finds_extensions(cwd: Path, named: Sequence[str], *, is_discovering: bool) -> bool:
    """Return whether a start in a folder would load an extension. Loads none."""
    found = discover(_sources(load_configuration(os.environ, cwd), cwd, named, is_discovering=is_discovering))
    return bool(found.candidates)


def _sources(
    configuration: Configuration, cwd: Path, named: Sequence[str], *, is_discovering: bool
) -> ExtensionSources:
    return ExtensionSources(
        env=os.environ,
        cwd=str(cwd),
        settings=in_load_order(configuration.settings.resources),
        is_trusted=configuration.is_project_trusted,
        named=resolve_named(named, str(cwd), os.environ),
        is_discovering=is_discovering,
    )


def preview(
    named: Sequence[str],
    *,
    is_discovering: bool,
    approved: bool | None = None,
    work: Work | None = None,
    reports: bool = True,
) -> Preview:
    """Load the extensions that a start would load, and call `work` before they are unloaded.

    `reports`: whether failures are written to stderr.
    """
    cwd = Path.cwd()
    configuration = load_configuration(os.environ, cwd, approved=approved)
    wanted = _sources(configuration, cwd, named, is_discovering=is_discovering)
    found = discover(wanted)
    if not found.candidates and not found.failures:
        nothing = Preview({}, (), notices=found.notices)
        if work is not None:
            trio.run(work, nothing)
        return nothing

    async def load() -> Preview:
        async with trio.open_nursery() as nursery:  # of the process that runs extensions in TypeScript
            return await load_in(nursery)

    async def load_in(nursery: trio.Nursery) -> Preview:
        generation = Generation()
        loader = Loader(generation, cwd=str(cwd))
        if any(each.is_script for each in found.candidates):
            from pinnace_agent.node_extensions.starting import Scripts

            def start(work: Callable[[], Awaitable[None]], _ended: object) -> None:
                nursery.start_soon(work)

            await Scripts(os.environ, lambda _number: start, _report).run(found, loader, str(cwd))
        report = await loader.load(found.candidates)
        failures = (*found.failures, *report.failures)
        for failure in failures if reports else ():
            sys.stderr.write(f"pinnace: {failure.path}: {failure.error}\n")
        made = Preview(
            flags_of(report.extensions),
            [each for extension in report.extensions for each in extension.providers],
            [extension.path for extension in report.extensions],
            failures,
            (*found.notices, *report.notices),
        )
        if work is not None:
            await work(made)
        generation.end("the extension was loaded for a listing only")
        loader.unload(report.loaded)
        return made

    before = sys.stdout
    try:
        return trio.run(load)
    finally:
        sys.stdout = before


def _report(record: ErrorRecord) -> None:
    sys.stderr.write(f"pinnace: {record.extension_path}: {record.error}\n")


def flag_lines(flags: Mapping[str, FlagRegistration]) -> str:
    """Return the part of `--help` about options of extensions; empty without any."""
    if not flags:
        return ""
    rows = [
        (f"--{name}" + ("" if flag.kind is bool else " TEXT"), flag.description or "") for name, flag in flags.items()
    ]
    width = max(len(option) for option, _ in rows)
    lines = [f"{_INDENT}{option.ljust(width)}{_INDENT}{text}".rstrip() for option, text in rows]
    return "\n".join(["", "Options of extensions:", *lines])


def add_providers(registry: ModelRegistry, providers: Sequence[ProviderRegistration]) -> None:
    """Describe the providers of extensions; one that is not understood is reported and left out."""
    for name, config in providers:
        if config is None:
            registry.forget_provider(name)
            continue
        try:
            registry.describe_provider(name, file_entry(config), ProviderCode(streamed_api(config)))
        except ValueError as error:
            sys.stderr.write(f"pinnace: {name}: {error}\n")


async def refresh_providers(registry: ModelRegistry, providers: Sequence[ProviderRegistration]) -> None:
    """Refresh the models of the extensions' providers, as a start does; after a failure they are unchanged."""
    async with trio.open_nursery() as nursery:
        for name, config in providers:
            if config is not None and callable(config.get("refreshModels")):
                nursery.start_soon(_refresh, registry, name, config)


async def _refresh(registry: ModelRegistry, name: str, config: Mapping[str, object]) -> None:
    from pinnace_agent.extensions.registration.provider_config import REFRESH_LIMIT_S, RefreshContext, refreshed_models

    with trio.move_on_after(REFRESH_LIMIT_S) as patience:
        credentials = await registry.provider_credentials(name)
        context = RefreshContext(name, config, credentials.api_key, credentials.headers)
        try:
            models = await refreshed_models(cast("Function", config["refreshModels"]), context)
            entry = {**file_entry(config), "models": models}
            registry.describe_provider(name, entry, ProviderCode(streamed_api(config)))
        except Exception as error:  # the boundary: it is code of an extension
            text = Secrets(credentials.api_key, credentials.headers).hide(str(error) or type(error).__name__)
            sys.stderr.write(f"pinnace: {name}: refresh_models: {text}\n")
    if patience.cancelled_caught:
        sys.stderr.write(f"pinnace: {name}: refresh_models: no result within {REFRESH_LIMIT_S:g} s\n")


def named_in(words: Sequence[str]) -> tuple[list[str], bool]:
    """Return the extensions that a command line names, and whether installed ones are searched for."""
    named: list[str] = []
    for place, word in enumerate(words):
        if word in {"-e", "--extension"} and place + 1 < len(words):
            named.append(words[place + 1])
        elif word.startswith("--extension="):
            named.append(word.partition("=")[2])
    return named, not {"-ne", "--no-extensions"} & set(words)
