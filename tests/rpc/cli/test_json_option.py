"""`--json` means the same for every command that lists or reports."""

import importlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from pinnace_rpc.cli import commands
from pinnace_rpc.cli.main import main
from pinnace_rpc.options.arguments import parse_arguments
from pinnace_rpc.options.parser import Subcommand, UsageError
from pinnace_rpc.options.shown.tables import JSON

MODULES = sorted(path.stem for path in Path(commands.__path__[0]).glob("*.py") if path.stem != "__init__")


def all_commands() -> Iterable[Subcommand]:
    for name in MODULES:
        module = importlib.import_module(f"pinnace_rpc.cli.commands.{name}")
        for value in vars(module).values():
            if isinstance(value, Subcommand):
                yield from (value, *value.subcommands)


def test_every_option_of_this_name_is_the_same_one() -> None:
    options = [option for command in all_commands() for option in command.options if "--json" in option.names]

    assert len(options) > 3
    assert {JSON} == {option._replace(names=tuple(option.names)) for option in options}


@pytest.mark.parametrize(
    "words",
    [
        ["sessions"],
        ["sessions", "--all"],
        ["auth", "status"],
        ["trust", "--list"],
        ["mcp", "list"],
        ["--list-models", "m1"],
        ["host", "status"],
        ["doctor"],
    ],
)
def test_each_line_of_stdout_is_an_object(
    words: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where nothing runs or exists, too: then there are no lines, and a text on stderr says why."""
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.chdir(tmp_path)
    main([*words, "--json"])
    shown = capsys.readouterr()

    assert all(isinstance(json.loads(line), dict) for line in shown.out.splitlines())
    assert shown.out or shown.err or words[0] in {"sessions", "trust", "--list-models"}


def test_the_option_alone_names_what_has_it() -> None:
    """An extension that has an option of this name keeps it."""
    with pytest.raises(UsageError, match="--mode json prints the records"):
        parse_arguments(["-p", "--no-extensions", "--json", "hello"], {})

    assert (("json", None),) == parse_arguments(["-p", "--json", "hello"], {}).extension_flags
