"""Which mode a command line means, what it asks, and how much a run may take.

The words that are no options are messages, or files if they begin with `@`. Must not read anything; texts never repeat
a value, since it may be a key or a prompt.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import click

from pinnace_rpc.not_here import INTERACTIVE
from pinnace_rpc.options import MODES, Mode, Options

# Put before a word that is a message although it looks like an option. No word of a command line can hold it.
_MARK: Final = "\0"
_FRONT_MATTER: Final = "---"


class ModeChoice(NamedTuple):
    """The mode, and what is asked in it."""

    mode: Mode
    messages: tuple[str, ...]
    files: tuple[str, ...]


def marked_prompts(words: Sequence[str]) -> list[str]:
    """Mark a prompt that follows `-p` and begins with three dashes: a text with front matter, no option."""
    marked = list(words)
    for place, word in enumerate(words[:-1]):
        if word == "--":
            break
        if word in {"-p", "--print"} and words[place + 1].startswith(_FRONT_MATTER):
            marked[place + 1] = _MARK + words[place + 1]
    return marked


def unmarked(words: Sequence[str]) -> list[str]:
    """Take the marks off."""
    return [word.removeprefix(_MARK) for word in words]


def choose_mode(mode: str | None, words: Sequence[str], *, is_print: bool, is_at_terminal: bool) -> ModeChoice:
    """Return the mode: what `--mode` says, else text if asked for, or if there is no terminal to be interactive at.

    Args:
        mode: What `--mode` says.
        words: Messages and files.
        is_print: `--print` was given. It says nothing beside another mode.
        is_at_terminal: stdin and stdout are both one.

    Raises:
        click.UsageError: There is no such mode, or it would be the interactive one.
    """
    chosen: Mode | None = None
    for known in MODES:
        if known == mode:
            chosen = known
    if mode is not None and chosen is None:
        raise click.UsageError(f"--mode takes one of {', '.join(MODES)}")
    if chosen is None and is_at_terminal and not is_print:
        raise click.UsageError(f"there is no interactive mode: {INTERACTIVE.instead} (pinnace --help tells more)")
    files = tuple(word[1:] for word in words if word.startswith("@"))
    messages = tuple(_readable(word) for word in words if not word.startswith("@"))
    return ModeChoice(chosen or "text", messages, files)


def with_given_back(options: Options, places: Sequence[int]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the messages and the files, with the words in front of which stood options that take no value.

    Args:
        options: What the command line said before extensions were there.
        places: Those options, by their place among the options of extensions.
    """
    messages, files = list(options.messages), list(options.files)
    where = dict(options.taken_words)
    for option in reversed(places):  # so that earlier places stay what they are
        word = options.extension_flags[option][1] or ""
        if word.startswith("@"):
            files.insert(where[option], word[1:])
        else:
            messages.insert(where[option], _readable(word))
    return tuple(messages), tuple(files)


def _readable(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def count(flag: str, text: str | None) -> int | None:
    """Return a limit that is a whole number.

    Raises:
        click.UsageError: It is none, or less than 1.
    """
    if text is None:
        return None
    if not (text.strip().isascii() and text.strip().isdigit()) or len(text.strip()) > 9 or int(text) < 1:
        raise click.UsageError(f"{flag} takes a whole number from 1 on")
    return int(text)


def amount(flag: str, text: str | None) -> float | None:
    """Return a limit that is a number.

    Raises:
        click.UsageError: It is none, or not more than 0.
    """
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not (math.isfinite(number) and number > 0):
        raise click.UsageError(f"{flag} takes a number greater than 0")
    return number
