"""The schema of models.json and of the built-in files: checks every field and reports the place of each problem.

Pure. Field names are those of the file. Unknown fields are hints, since newer programs share the file; they are named
with the nearest known one. Of `compat`, whose flags are the provider's business, and of sampling parameters only the
names of flags are checked. A message never repeats the value: it may be a key.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias, cast, get_args

from pinnace_agent.config.models.builtin import OFFLINE_PROVIDER, index
from pinnace_agent.core.diagnostics import Problem
from pinnace_agent.files.relaxed_json import JsonObject, is_list, is_object
from pinnace_spec.records.messages import THINKING_LEVELS, InputKind

Check: TypeAlias = Callable[[object, str], Iterator[Problem]]


# A provider without models must have one of these, or its entry has no effect.
_PROVIDER_FIELDS: Final = ("baseUrl", "compat", "modelOverrides", "headers", "apiKey", "oauth", "authHeader")


def check_models_file(content: Mapping[str, object]) -> list[Problem]:
    """Return all problems of a models.json; empty if it is valid."""
    problems, providers = check_file(content), content.get("providers", {})
    for provider, entry in providers.items() if is_object(providers) else ():
        path = f"providers.{provider}"
        problems += check_provider(provider, entry, path)
        models, overrides = (entry.get("models"), entry.get("modelOverrides")) if is_object(entry) else (None, None)
        for place, model in enumerate(models if is_list(models) else ()):
            problems += check_model(model, f"{path}.models[{place}]", provider, cast("JsonObject", entry))
        for model_id, override in overrides.items() if is_object(overrides) else ():
            problems += check_override(override, f"{path}.modelOverrides.{model_id}")
    return problems


def check_file(content: Mapping[str, object]) -> list[Problem]:
    """Return the problems of a models.json outside the entries of its providers."""
    return list(_FILE(content, ""))


def check_provider(provider: str, entry: object, path: str) -> list[Problem]:
    """Return the problems of a provider's entry, without those of its models and overrides."""
    problems = list(_PROVIDER(entry, path))
    if not is_object(entry) or not all(each.is_hint for each in problems):
        return problems
    if not provider.strip():
        problems.append(Problem("providers", "the id of a provider must not be empty"))
    if provider == OFFLINE_PROVIDER:
        problems.append(Problem(path, "this provider is built in and can't be described"))
    if not entry.get("models") and not any(name in entry for name in _PROVIDER_FIELDS):
        is_harmless = provider in index().providers  # which stays as it is
        problems.append(Problem(path, f"needs models, or one of {', '.join(_PROVIDER_FIELDS)}", is_harmless))
    return problems


def check_model(model: object, path: str, provider: str, entry: JsonObject) -> list[Problem]:
    """Return the problems of one model in the entry of a provider."""
    problems = list(_MODEL(model, path))
    if is_object(model) and provider not in index().providers:  # whose models supply missing fields
        for name in ("baseUrl", "api"):
            if name not in model and name not in entry:
                problems.append(Problem(path, f"needs {name}, here or in the provider"))
    return problems


def check_override(override: object, path: str) -> list[Problem]:
    """Return the problems of one override of a model."""
    return list(_OVERRIDE(override, path))


def check_built_in_models(content: object) -> list[Problem]:
    """Return the problems of a built-in file, where every field must be known, and most are required."""
    return list(_BUILT_IN(content, ""))


def _kind(test: Callable[[object], bool], expected: str) -> Check:
    def check(value: object, path: str) -> Iterator[Problem]:
        if not test(value):
            yield Problem(path, f"must be {expected}")

    return check


# Longer names of fields are cut.
_MAX_SHOWN: Final = 100

# The largest whole number that every JSON reader keeps exact; a larger count of tokens is a mistake.
_MAX_NUMBER: Final = 2**53


def _is_number(value: object, least: float = -_MAX_NUMBER) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= _MAX_NUMBER


_TEXT = _kind(lambda value: isinstance(value, str), "a string")
_NAME = _kind(lambda value: isinstance(value, str) and value.strip() != "", "a string that is not empty")
_FLAG = _kind(lambda value: isinstance(value, bool), "true or false")
_NUMBER = _kind(_is_number, "a number")
_TOKENS = _kind(lambda value: _is_number(value, least=1), "a number of at least 1")
_OBJECT = _kind(is_object, "an object")
_LIST = _kind(is_list, "a list")
_ANY = _kind(lambda _: True, "anything")
_LEVEL = _kind(lambda value: value is None or isinstance(value, str), "a string or null")
_INPUT = _kind(lambda value: value in get_args(InputKind), " or ".join(f'"{kind}"' for kind in get_args(InputKind)))


def _object_of(check_value: Check) -> Check:
    def check(value: object, path: str) -> Iterator[Problem]:
        if not is_object(value):
            yield Problem(path, "must be an object")
            return
        for name, member in value.items():
            yield from check_value(member, f"{path}.{name}")

    return check


def _list_of(check_item: Check) -> Check:
    def check(value: object, path: str) -> Iterator[Problem]:
        if not is_list(value):
            yield Problem(path, "must be a list")
            return
        for place, item in enumerate(value):
            yield from check_item(item, f"{path}[{place}]")

    return check


def _record(fields: Mapping[str, Check], required: tuple[str, ...] = (), *, is_closed: bool = False) -> Check:
    def check(value: object, path: str) -> Iterator[Problem]:
        if not is_object(value):
            yield Problem(path, "must be an object")
            return
        prefix = f"{path}." if path else ""
        for name in required:
            if name not in value:
                yield Problem(prefix + name, "is missing")
        for name in value:
            if name not in fields:
                yield _unknown(prefix, name, fields, is_hint=not is_closed)
        for name, check_member in fields.items():
            if name in value:
                yield from check_member(value[name], prefix + name)

    return check


def _unknown(prefix: str, name: str, known: Iterable[str], *, is_hint: bool) -> Problem:
    from pinnace_spec.nearest import nearest  # imported only after a mistake

    near = nearest(name, known)
    hint = "" if near is None else f"; did you mean {near}?"
    return Problem(f"{prefix}{name[:_MAX_SHOWN]}", f"is not known{hint}", is_hint)


def _flags(value: object, path: str) -> Iterator[Problem]:
    """Check the names of the flags of `compat`, which are checked where they are used."""
    if not is_object(value):
        yield Problem(path, "must be an object")
        return
    from pinnace_agent.config.models.compat_flags import COMPAT_FLAGS  # few files have any

    for name in value.keys() - COMPAT_FLAGS:
        yield _unknown(f"{path}.", name, sorted(COMPAT_FLAGS), is_hint=True)


_FLAGS: Final[Check] = _flags

_RATES: Final[Mapping[str, Check]] = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), _NUMBER)
_TIER = _record({**_RATES, "inputTokensAbove": _NUMBER}, ("inputTokensAbove",))
_COST = _record({**_RATES, "tiers": _list_of(_TIER)})

_MODEL_FIELDS: Final[Mapping[str, Check]] = {
    "name": _TEXT,
    "api": _NAME,
    "baseUrl": _NAME,
    "reasoning": _FLAG,
    "thinkingLevelMap": _object_of(_LEVEL),
    "input": _list_of(_INPUT),
    "inputLimits": _OBJECT,
    "cost": _COST,
    "contextWindow": _TOKENS,
    "maxTokens": _TOKENS,
    "headers": _object_of(_TEXT),
    "compat": _FLAGS,
    "promptCache": _OBJECT,
    "samplingParams": _OBJECT,
    "samplingParamsByThinkingLevel": _OBJECT,
}

_FILE = _record({"$schema": _ANY, "providers": _OBJECT})
_PROVIDER = _record(
    {
        "name": _TEXT,
        "baseUrl": _NAME,
        "apiKey": _NAME,
        "api": _NAME,
        "headers": _object_of(_TEXT),
        "authHeader": _FLAG,
        "compat": _FLAGS,
        "oauth": _TEXT,
        "models": _LIST,
        "modelOverrides": _OBJECT,
    }
)
_MODEL = _record({"id": _NAME, **_MODEL_FIELDS}, ("id",))
# Neither is used; entries that were copied from a model have an id.
_OVERRIDE = _record({"id": _ANY, **_MODEL_FIELDS})

_LEVELS = _record(dict.fromkeys(THINKING_LEVELS, _LEVEL), is_closed=True)
_REQUIRED: Final = ("id", "name", "reasoning", "input", "contextWindow", "maxTokens", "cost")
_BUILT_IN = _list_of(
    _record(
        {
            "id": _NAME,
            **{name: check for name, check in _MODEL_FIELDS.items() if name != "headers"},
            "thinkingLevelMap": _LEVELS,
            "cost": _record({**_RATES, "tiers": _list_of(_TIER)}, tuple(_RATES), is_closed=True),
        },
        _REQUIRED,
        is_closed=True,
    )
)
