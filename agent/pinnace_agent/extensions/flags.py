"""Flags that extensions add to the command line, and what was given for them (A5, A6, R12).

Their names and types are known only after loading, so the command line collects what it doesn't know and it is matched
here. Must not parse words.
"""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final, Literal, NamedTuple, TypeAlias

from pinnace_agent.extensions.registrations import Extension, FlagRegistration

FlagValue = bool | str
FlagType: TypeAlias = type[bool] | type[str] | Literal["boolean", "string"]
"""The type of a flag; the texts are the spelling of TypeScript."""
_KINDS: Final[Mapping[object, type[bool] | type[str]]] = {bool: bool, str: str, "boolean": bool, "string": str}
_SWITCHES: Final[Mapping[str, bool]] = {"true": True, "false": False}


class GivenFlag(NamedTuple):
    """A long option that the command line did not know."""

    name: str
    """Without dashes."""
    value: str | None = None
    """What stood behind `=`, or the word that followed."""
    is_word: bool = False
    """The value is the word that followed: a message, if the flag takes no value."""


class FlagValues:
    """The values of one session instance, shared by name. Given ones go before defaults, and survive a reload."""

    def __init__(self, given: Mapping[str, FlagValue] | None = None) -> None:
        """Begin with what the command line gave."""
        self.given: Mapping[str, FlagValue] = given or {}

    def value(self, name: str, extensions: Iterable[Extension]) -> FlagValue | None:
        """Return what holds for a flag: given, or the default of the first extension that has it."""
        if name in self.given:
            return self.given[name]
        flag = flags_of(extensions).get(name)
        return None if flag is None else flag.default


class MatchedFlags(NamedTuple):
    """What unknown options turned out to be."""

    values: Mapping[str, FlagValue]
    errors: Sequence[str]
    """One line each, for the user; the process should not start with any."""
    given_back: Sequence[int] = ()
    """The places of options that take no value and are followed by a word, which is a message."""


def flags_of(extensions: Iterable[Extension]) -> dict[str, FlagRegistration]:
    """Return the flags by name: the first definition counts."""
    flags: dict[str, FlagRegistration] = {}
    for extension in extensions:
        for name, flag in extension.flags.items():
            flags.setdefault(name, flag)
    return flags


def match_flags(given: Iterable[GivenFlag], flags: Mapping[str, FlagRegistration]) -> MatchedFlags:
    """Match options against flags (F7). The last of several counts.

    A bool takes no value: what follows it is a message. `=true` and `=false` turn it on and off.
    """
    values: dict[str, FlagValue] = {}
    errors: list[str] = []
    given_back: list[int] = []
    for place, option in enumerate(given):
        flag = flags.get(option.name)
        if flag is None:
            close = get_close_matches(option.name, flags, 1)
            errors.append(f"Unknown option: --{option.name}" + (f" (did you mean --{close[0]}?)" if close else ""))
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
    """Return a flag's name without the dashes that some write before it.

    Raises:
        ValueError: It can't be a long option.
    """
    bare = name.removeprefix("--")
    if not bare or bare.startswith("-") or any(each.isspace() or each == "=" for each in bare):
        raise ValueError(f"{name!r} can't be the name of a flag")
    return bare


def flag_kind(name: str, kind: object) -> type[bool] | type[str]:
    """Return the type of a flag.

    Raises:
        TypeError: There is no such type of flags.
    """
    known = _KINDS.get(kind) if isinstance(kind, type | str) else None
    if known is None:
        raise TypeError(f"flag {name!r}: type must be bool or str")
    return known


def checked_default(name: str, kind: type[bool] | type[str], default: object) -> FlagValue | None:
    """Return the default of a flag, if it is of its type.

    Raises:
        TypeError: It isn't.
    """
    if default is None:
        return None
    if isinstance(default, bool) and kind is bool:
        return default
    if isinstance(default, str) and kind is str:
        return default
    raise TypeError(f"flag {name!r}: the default {default!r} is no {kind.__name__}")
