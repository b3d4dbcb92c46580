"""Flags that extensions add to the command line, and their values.

Their names and types are known only after loading, so the command line collects unknown options, which are matched
here.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from pinnace_agent.extensions.registration.registrations import Extension, FlagRegistration

FlagValue = bool | str
FlagType: TypeAlias = type[bool] | type[str] | Literal["boolean", "string"]
"""The type of a flag; the strings are the spelling of TypeScript extensions."""
_KINDS: Final[Mapping[object, type[bool] | type[str]]] = {bool: bool, str: str, "boolean": bool, "string": str}
_SWITCHES: Final[Mapping[str, bool]] = {"true": True, "false": False}


class GivenFlag(NamedTuple):
    """A long option that the command line does not know."""

    name: str
    """Without dashes."""
    value: str | None = None
    """The value behind `=`, or the word that followed."""
    is_word: bool = False
    """Whether the value is the word that followed, which is a message if the flag takes no value."""


class FlagValues:
    """The values of one session instance, shared by name. Given values take precedence over defaults."""

    def __init__(self, given: Mapping[str, FlagValue] | None = None) -> None:
        """Start with the values of the command line."""
        self.given: Mapping[str, FlagValue] = given or {}

    def value(self, name: str, extensions: Iterable[Extension]) -> FlagValue | None:
        """Return the given value of a flag, or the default of the first extension that has it."""
        if name in self.given:
            return self.given[name]
        flag = flags_of(extensions).get(name)
        return None if flag is None else flag.default


class MatchedFlags(NamedTuple):
    """The result of matching unknown options."""

    values: Mapping[str, FlagValue]
    errors: Sequence[str]
    """One line for each error; the process must not start with any."""
    given_back: Sequence[int] = ()
    """The positions of options without a value that are followed by a word, which is a message."""


def flags_of(extensions: Iterable[Extension]) -> dict[str, FlagRegistration]:
    """Return the flags by name; the first definition counts."""
    flags: dict[str, FlagRegistration] = {}
    for extension in extensions:
        for name, flag in extension.flags.items():
            flags.setdefault(name, flag)
    return flags


def match_flags(given: Iterable[GivenFlag], flags: Mapping[str, FlagRegistration]) -> MatchedFlags:
    """Match options against flags. The last of repeated options counts.

    A bool takes no value: the word that follows is a message. `=true` and `=false` set it.
    """
    values: dict[str, FlagValue] = {}
    errors: list[str] = []
    given_back: list[int] = []
    for place, option in enumerate(given):
        flag = flags.get(option.name)
        if flag is None:
            from pinnace_spec.nearest import nearest

            near = nearest(option.name, flags)
            errors.append(f"Unknown option: --{option.name}" + (f" (did you mean --{near}?)" if near else ""))
        elif flag.kind is bool:
            # DEVIATION D-51: the word is the prompt.
            if option.is_word or option.value is None:
                values[option.name] = True
                given_back += [place] if option.is_word else []
            elif option.value in _SWITCHES:
                values[option.name] = _SWITCHES[option.value]
            else:
                errors.append(f"Option --{option.name} takes no value but =true or =false")
        elif option.value is None:
            errors.append(f"Option --{option.name} needs a value")
        else:
            values[option.name] = option.value
    return MatchedFlags(values, errors, given_back)


def flag_name(name: str) -> str:
    """Return a flag's name without leading dashes.

    Raises:
        ValueError: The name can't be a long option.
    """
    bare = name.removeprefix("--")
    if not bare or bare.startswith("-") or any(each.isspace() or each == "=" for each in bare):
        raise ValueError(f"{name!r} can't be the name of a flag")
    return bare


def flag_kind(name: str, kind: object) -> type[bool] | type[str]:
    """Return the type of a flag.

    Raises:
        TypeError: The type is not one of flags.
    """
    known = _KINDS.get(kind) if isinstance(kind, type | str) else None
    if known is None:
        raise TypeError(f"flag {name!r}: type must be bool or str")
    return known


def checked_default(name: str, kind: type[bool] | type[str], default: object) -> FlagValue | None:
    """Check the default of a flag.

    Raises:
        TypeError: The default is not of the flag's type.
    """
    if default is None:
        return None
    if isinstance(default, bool) and kind is bool:
        return default
    if isinstance(default, str) and kind is str:
        return default
    raise TypeError(f"flag {name!r}: the default {default!r} is not a {kind.__name__}")
