"""Which words of a command line are options that we know, and which ones extensions may know.

An extension's options are known only when it is loaded, which is long after the command line was read. So a long
option that nobody knows yet is taken out, with the word behind it unless that is an option itself (F7). The place of
that word is kept: if the option turns out to take no value, the word is a message. Must not know what an option means.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final, NamedTuple

import click

# Stands among the known words where one was taken out with an unknown option. No word of a command line can hold it.
_TAKEN: Final = "\0\0"


class SplitWords(NamedTuple):
    """A command line in two."""

    known: list[str]
    unknown: tuple[tuple[str, str | None], ...]
    """Names without dashes, with what stood behind them."""


def split_options(words: Sequence[str], parameters: Sequence[click.Parameter]) -> SplitWords:
    """Take out the long options that no parameter has."""
    takes_value = {name: _takes_value(each) for each in parameters for name in (*each.opts, *each.secondary_opts)}
    known: list[str] = []
    unknown: list[tuple[str, str | None]] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, has_value, value = word.partition("=")
        if word == "--":
            known += [word, *rest]
            break
        if not (word.startswith("--") and name not in takes_value):
            known.append(word)
            if takes_value.get(word, False) and rest:
                known.append(rest.pop(0))
        elif has_value:
            unknown.append((name[2:], value))
        elif rest and not rest[0].startswith("-"):
            known.append(f"{_TAKEN}{len(unknown)}")
            unknown.append((name[2:], rest.pop(0)))
        else:
            unknown.append((name[2:], None))
    return SplitWords(known, tuple(unknown))


def places_of_taken(words: Sequence[str]) -> tuple[list[str], dict[int, int]]:
    """Return the messages of a command line without what marks the words that were taken out between them.

    Returns:
        The messages; and before how many of them the words stood, by the place of their option in `SplitWords.unknown`.
    """
    messages: list[str] = []
    places: dict[int, int] = {}
    for word in words:
        if word.startswith(_TAKEN):
            places[int(word.removeprefix(_TAKEN))] = len(messages)
        else:
            messages.append(word)
    return messages, places


def no_such_option(name: str, parameters: Sequence[click.Parameter]) -> click.NoSuchOption:
    """Return the refusal of a long option that nobody knows."""
    option = f"--{name}"
    known = [each for parameter in parameters for each in (*parameter.opts, *parameter.secondary_opts)]
    return click.NoSuchOption(option, possibilities=get_close_matches(option, known))


def _takes_value(parameter: click.Parameter) -> bool:
    # One with a text of its own in the place of a value may stand alone.
    return isinstance(parameter, click.Option) and not (parameter.is_flag or isinstance(parameter.flag_value, str))
