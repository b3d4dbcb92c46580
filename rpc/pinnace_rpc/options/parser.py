"""Reads the words of a command line by a table of options: the one parser of the program and of its subcommands.

A table is data (`Option`, `Subcommand`): names, what follows a name, help. The parser knows the POSIX and GNU forms:
`-t x`, `-tx`, `-ca` for `-c -a`, `--tools x`, `--tools=x`, `--` before words that are not options. Names of several
letters with one dash (`-nt`) are names of their own, as in pi. Abbreviations are refused. Error texts about options
never repeat a value, since it may be a key or a prompt. Must import nothing slow, since every start loads it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, NoReturn

HELP: Final = "help"
VERSION: Final = "version"
# Set by the scripts of `pinnace completion`.
COMPLETION_VARIABLE: Final = "_PINNACE_COMPLETE"


class CommandError(Exception):
    """The request can't be done. The text is for the user."""

    exit_code = 1


class UsageError(CommandError):
    """Raised for a command line that makes no sense: the program exits with the status of a usage error."""

    exit_code = 2


class Option(NamedTuple):
    """One row of a table of options."""

    names: Sequence[str]
    """As they are written, dashes included."""
    field: str | None
    """The name of its value among the parsed values; None: accepted and ignored."""
    help: str | None = None
    """None: not listed in the help and not completed."""
    metavar: str | None = None
    """What the help calls the value that follows; None: none follows."""
    constant: object = True
    """The value of an option without one on the command line."""
    repeats: bool = False
    """Whether values add up; else the last one counts."""
    implied: str | None = None
    """The value where none follows; None: one must follow."""
    read: Callable[[str, Any], Any] | None = None
    """Makes the value of the option's first name and the text; raises UsageError. None: it is the text."""
    text_prefix: str = ""
    """A word after the option that begins with this prefix is its value, although it begins with a dash."""
    completed: str | Sequence[str] = ()
    """The completions of the value: all of them, or a kind that `completion` knows."""

    def takes_value(self) -> bool:
        """Return whether a value follows."""
        return self.metavar is not None


class Argument(NamedTuple):
    """A positional argument."""

    name: str
    metavar: str
    is_required: bool = True
    repeats: bool = False
    choices: Sequence[str] = ()


class Subcommand(NamedTuple):
    """A subcommand: what it is called, what it takes and what it is for."""

    name: str
    """With those of the program and its group."""
    help: str
    options: Sequence[Option] = ()
    arguments: Sequence[Argument] = ()
    subcommands: Sequence["Subcommand"] = ()


class TextRequested(Exception):
    """The command line requests a text only; the process ends with exit code 0."""

    def __init__(self, command: Subcommand | None = None) -> None:
        """Name the subcommand whose help is still to be printed; None: the text has been printed."""
        super().__init__()
        self.command = command


class ParsedArguments(NamedTuple):
    """A parsed command line."""

    values: dict[str, Any]  # Any: the table names the type
    """By field, of the options that were given, as they were given."""
    words: list[str]
    """Those that are not options."""
    places: list[int]
    """Where on the command line each of them is."""
    unknown: list[tuple[str, str | None]]
    """Long options that are not in the table, without dashes, with the word that followed or None."""
    taken: dict[int, int]
    """For those that took a word: its index in `words`, by place in `unknown`."""
    requests: list[str]
    """`help` and `version`, in order."""


class Scanner:
    """Parses one command line."""

    def __init__(self, options: Iterable[Option], *, keeps_unknown: bool = False, is_lenient: bool = False) -> None:
        """Take a table.

        Args:
            options: The table.
            keeps_unknown: Whether long options that are not in the table are kept in `ParsedArguments.unknown`; else
                they are errors.
            is_lenient: Whether an error ends the scan instead of raising, for a command line that is being written.
        """
        self._options = {name: option for option in options for name in option.names}
        self._keeps_unknown = keeps_unknown
        self._is_lenient = is_lenient
        self._rest: list[str] = []
        self._found = ParsedArguments({}, [], [], [], {}, [])
        self._count = 0

    def scan(self, words: Sequence[str]) -> ParsedArguments:
        """Parse the words.

        Raises:
            UsageError: An option is unknown, lacks its value or has one that it doesn't take.
        """
        self._rest = list(words)
        self._count = len(self._rest)
        try:
            while self._rest:
                self._take(self._rest.pop(0))
        except UsageError:
            if not self._is_lenient:
                raise
        return self._found

    def _take(self, word: str) -> None:
        if word == "--":
            self._found.places.extend(range(self._count - len(self._rest), self._count))
            self._found.words.extend(self._rest)
            self._rest = []
        elif not word.startswith("-") or word == "-":
            self._found.places.append(self._count - len(self._rest) - 1)
            self._found.words.append(word)
        else:
            name, has_value, value = word.partition("=")
            if (option := self._options.get(name)) is not None and len(name) > 2:
                self._take_long(option, name, value if has_value else None)
            elif word.startswith("--"):
                self._take_unknown(name, value if has_value else None)
            else:
                self._take_letters(word[1:])

    def _take_long(self, option: Option, name: str, value: str | None) -> None:
        if option.takes_value():
            if value is not None:
                self._rest.insert(0, value)
            self._keep(option, self._value(option, name))
        elif value is not None:
            raise UsageError(f"Option {name!r} does not take a value.")
        else:
            self._keep(option, None)

    def _take_letters(self, letters: str) -> None:
        for place, letter in enumerate(letters, 1):
            name = f"-{letter}"
            if (option := self._options.get(name)) is None:
                raise UsageError(f"No such option {name!r}.")
            if option.takes_value():
                if place < len(letters):
                    self._rest.insert(0, letters[place:])
                self._keep(option, self._value(option, name))
                return
            self._keep(option, None)

    def _value(self, option: Option, name: str) -> str:
        is_missing = not self._rest or (option.implied is not None and _is_like_option(self._rest[0]))
        if not is_missing:
            return self._rest.pop(0)
        if option.implied is None:
            raise UsageError(f"Option {name!r} requires an argument.")
        return option.implied

    def _take_unknown(self, name: str, value: str | None) -> None:
        if not self._keeps_unknown:
            raise no_such_option(name, [each for each in self._options if len(each) > 2])
        found = self._found
        if value is None and self._rest and not self._rest[0].startswith("-"):
            value = self._rest.pop(0)
            found.taken[len(found.unknown)] = len(found.words)
        found.unknown.append((name[2:], value))

    def _keep(self, option: Option, text: str | None) -> None:
        values = self._found.values
        if option.field in {HELP, VERSION}:
            self._found.requests.append(option.field)
        elif option.field is not None:
            value = option.constant if text is None else text
            values[option.field] = (*values.get(option.field, ()), value) if option.repeats else value
        if option.text_prefix and self._rest and self._rest[0].startswith(option.text_prefix):
            self._found.places.append(self._count - len(self._rest))
            self._found.words.append(self._rest.pop(0))


def _is_like_option(word: str) -> bool:
    return word.startswith("-") and len(word) > 1


HELP_OPTION: Final = Option(("-h", "--help"), HELP, "Show this message and exit.")


def parse(command: Subcommand, words: Sequence[str]) -> dict[str, Any]:
    """Return the values of a subcommand's options and arguments, by name, as the table reads them.

    Raises:
        UsageError: The words are invalid.
        TextRequested: They request the subcommand's help.
    """
    found = Scanner((*command.options, HELP_OPTION)).scan(words)
    if found.requests:
        raise TextRequested(command)
    values: dict[str, Any] = {}
    for each in command.options:
        if each.field is not None:
            values[each.field] = () if each.repeats else (None if each.takes_value() else False)
    values |= found.values
    for each in command.options:
        if each.field in found.values and each.read is not None:
            values[each.field] = each.read(each.names[0], values[each.field])
    rest = list(found.words)
    for argument in command.arguments:
        values[argument.name] = _argument(argument, rest)
    if rest:
        plural = "s" if len(rest) > 1 else ""
        raise UsageError(f"Got unexpected extra argument{plural} ({' '.join(rest)})")
    return values


def _argument(argument: Argument, rest: list[str]) -> str | tuple[str, ...] | None:
    if not rest:
        if argument.is_required:
            choices = ",\n\t".join(argument.choices)
            hint = f" Choose from:\n\t{choices}" if choices else ""
            raise UsageError(f"Missing argument '{argument.metavar}'.{hint}")
        return () if argument.repeats else None
    if argument.repeats:
        values = tuple(rest)
        rest.clear()
        return values
    value = rest.pop(0)
    if argument.choices and value not in argument.choices:
        choices = ", ".join(map(repr, argument.choices))
        suggestion = _suggestion(value, argument.choices)
        raise UsageError(f"Invalid value for '{argument.metavar}': {value!r} is not one of {choices}.{suggestion}")
    return value


def no_such_option(name: str, known: Sequence[str]) -> UsageError:
    """Return the refusal of an option, with the nearest names."""
    return UsageError(f"No such option {name!r}.{_suggestion(name, known)}")


def refuse_subcommand(name: str, known: Sequence[str]) -> NoReturn:
    """Refuse a word that is not a subcommand of a group.

    Raises:
        UsageError: Always; with the nearest names.
    """
    raise UsageError(f"No such command {name!r}.{_suggestion(name, known)}")


def _suggestion(name: str, known: Sequence[str]) -> str:
    from pinnace_spec.nearest import all_near

    near = sorted(map(repr, all_near(name, known)))
    if len(near) > 1:
        return f" (Did you mean one of: {', '.join(near)}?)"
    return f" Did you mean {near[0]}?" if near else ""
