"""The command lines of agents: what continues a session, and in what two of them differ."""

import os
from collections.abc import Iterator, Sequence
from typing import Final

from pinnace_rpc.host.details import AgentDetails
from pinnace_rpc.options.table import OPTIONS

_CHOOSES_SESSION: Final = frozenset({"--continue", "-c", "--session", "--fork", "--session-id"})


def resumed(arguments: Sequence[str], details: AgentDetails) -> tuple[str, ...]:
    """Return an agent's arguments for its next process, which continues the session of the former one. Blocking.

    A session without a message has no file yet: it is begun again under its id, in the same file. The lease of that
    decides between this process and one of a former host, which may still read a message that it was sent.
    """
    if details.session_file is None or details.session_id is None:
        return tuple(arguments)
    kept = [word for name, words in _named_words(arguments) if name not in _CHOOSES_SESSION for word in words]
    kept += ["--session", details.session_file]
    return tuple(kept) if os.path.exists(details.session_file) else (*kept, "--session-id", details.session_id)


def other_options(ones: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Return the options in which two command lines differ, each by its first name and without its value."""
    one, other = _option_values(ones), _option_values(others)
    return tuple(name for name in dict.fromkeys((*one, *other)) if one.get(name) != other.get(name))


def _option_values(arguments: Sequence[str]) -> dict[str, list[str]]:
    options = {name: option for option in OPTIONS for name in option.names}
    values: dict[str, list[str]] = {}
    latest = ""
    for name, words in _named_words(arguments):
        option = options.get(name)
        if option is None and not name.startswith("-"):  # perhaps the value of an extension's option
            values.setdefault(latest, []).append(words[0])
            continue
        latest = name if option is None else option.names[0]
        value = words[1] if len(words) > 1 else words[0].partition("=")[2]
        former = values.get(latest, []) if option is None or option.repeats else []
        values[latest] = [*former, value]
    return values


def _named_words(arguments: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the name of each option, with its words."""
    takes_value = {name: option.takes_value() for option in OPTIONS for name in option.names}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        yield word.partition("=")[0], [word, rest.pop(0)] if takes_value.get(word) and rest else [word]
