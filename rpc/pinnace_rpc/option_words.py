"""Which words of a command line are options that we know, and which ones extensions may know.

An extension's options are known only when it is loaded, which is long after the command line was read. So a long
option that nobody knows yet is taken out, with the word behind it unless that is an option itself (F7). The place of
that word is kept: if the option turns out to take no value, the word is a message. Must not know what an option means.
"""

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import Final, NamedTuple

import click

# Stands among the known words where one was taken out with an unknown option. No word of a command line can hold it.
_TAKEN: Final = "\0\0"
_PROMPTING: Final = frozenset({"-p", "--print", "--mode", "--"})
# As `difflib` measures: two letters exchanged in a word of four, and one left out or doubled in a word of six.
_NEAR: Final = 0.75
_VERY_NEAR: Final = 0.85


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


def refuse_misspelt_subcommand(words: Sequence[str], own: Collection[str], foreign: Collection[str]) -> None:
    """Refuse a command line of bare words that begins with nearly a subcommand: as a prompt it would cost money.

    Words with a space in them are prose, and `-p`, `--mode` or `--` say that a prompt is meant.

    Args:
        words: All words but the program's name.
        own: The subcommands.
        foreign: Those of pi that are not here; fewer words are near to one of these.

    Raises:
        click.UsageError: It does.
    """
    first = words[0] if words else ""
    is_meant = any(word.partition("=")[0] in _PROMPTING for word in words)
    if is_meant or not first or first[0] in "-@" or any(len(word.split()) != 1 for word in words):
        return
    near = get_close_matches(first.lower(), own, 1, _NEAR) or get_close_matches(first.lower(), foreign, 1, _VERY_NEAR)
    if near:
        raise click.UsageError(
            f"there is no subcommand {first}; did you mean {near[0]}? To ask a model: pinnace -p {first}"
        )


def _takes_value(parameter: click.Parameter) -> bool:
    # One with a text of its own in the place of a value may stand alone.
    return isinstance(parameter, click.Option) and not (parameter.is_flag or isinstance(parameter.flag_value, str))
