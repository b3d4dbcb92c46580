"""The manual page pinnace(1), from the tables of options.

`python -m pinnace_rpc.options.shown.man` writes docs/man/pinnace.1, which the wheel installs as
share/man/man1/pinnace.1. Must not be loaded by the program.
"""

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

from pinnace_rpc.options.help import NOTES, SUMMARY
from pinnace_rpc.options.parser import Option, Subcommand
from pinnace_rpc.options.table import GROUPS, SUBCOMMANDS, attach_command

PAGE: Final = Path("docs") / "man" / "pinnace.1"
_TITLE: Final = re.compile(r"^(\w[^\n]*):\n", re.MULTILINE)
# Subcommands whose module has another name.
_MODULES: Final = {
    "untrust": "trust",
    "install": "packages",
    "list": "packages",
    "remove": "packages",
    "update": "packages",
}


def manual_page() -> str:
    """Return the page, as man(7)."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield '.\\" Made by python -m pinnace_rpc.options.shown.man from the tables of options; do not edit.'
    yield '.TH PINNACE 1 "" pinnace "User commands"'
    yield from (".SH NAME", r"pinnace \- a headless coding agent for programs and single questions")
    yield from (".SH SYNOPSIS", ".B pinnace", "[OPTIONS] [TEXT ...]", ".br", ".B pinnace \\-p")
    yield from ("[OPTIONS] [@FILE ...] [TEXT ...]", ".br", ".B pinnace \\-\\-mode rpc", "[OPTIONS]", ".br")
    yield from (".B pinnace", "COMMAND [ARGUMENTS]", ".SH DESCRIPTION", _escaped(SUMMARY), ".SH OPTIONS")
    for group in GROUPS:
        yield f".SS {_escaped(group.title)}"
        if group.is_listed:
            yield _escaped(", ".join("/".join(option.names) for option in group.options))
        else:
            for option in group.options:
                yield from _option(option)
    yield ".SH COMMANDS"
    for name, (text, _) in SUBCOMMANDS.items():
        yield from (f".SS {_escaped(f'pinnace {name}')}", _escaped(text))
        for command in _commands(name):
            if command.name != f"pinnace {name}":
                yield from (".PP", rf"\fB{_escaped(command.name)}\fR: {_escaped(command.help)}")
            for option in command.options:
                if option.help is not None:
                    yield from _option(option)
    _, *sections = _TITLE.split(NOTES)
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        yield from (f".SH {_escaped(title.upper())}", ".nf", *map(_escaped, body.strip("\n").split("\n")), ".fi")
    yield from (".SH SEE ALSO", _escaped("The documentation in the folder docs of the sources."))


def _commands(name: str) -> Iterator[Subcommand]:
    """Yield a subcommand and those below it."""
    if name == "attach":
        yield attach_command()
        return
    if name == "acp":
        return  # a mode
    place = "pinnace_rpc.batch.command" if name == "batch" else f"pinnace_rpc.cli.commands.{_MODULES.get(name, name)}"
    module = import_module(place)
    found = [value for value in vars(module).values() if isinstance(value, Subcommand)]
    for command in found:
        if command.name == f"pinnace {name}":
            yield command
            yield from command.subcommands


def _option(option: Option) -> Iterator[str]:
    names = ", ".join(rf"\fB{_escaped(name)}\fR" for name in sorted(option.names, key=len))
    value = "" if option.metavar is None else rf" \fI{_escaped(option.metavar)}\fR"
    yield from (".TP", f"{names}{value}", _escaped(option.help or ""))


def _escaped(text: str) -> str:
    r"""Return a text that no request of roff is read from: dashes are those of command lines, and `\` is itself."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("`", r"\(ga")
    return rf"\&{escaped}" if escaped[:1] in {".", "'"} else escaped


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(manual_page(), encoding="utf-8")
    sys.stdout.write(f"wrote {PAGE}\n")
