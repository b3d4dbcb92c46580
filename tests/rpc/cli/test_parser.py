"""The parser of command lines and the table that it reads."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.core.surroundings import CLIENT_SERVERS
from pinnace_agent.files.paths import AGENT_DIR_VARIABLE, agent_dir
from pinnace_rpc.options import extension_hints
from pinnace_rpc.options.arguments import parse_arguments
from pinnace_rpc.options.options import Options
from pinnace_rpc.options.parser import (
    Argument,
    CommandError,
    Option,
    Scanner,
    Subcommand,
    TextRequested,
    UsageError,
    parse,
)
from pinnace_rpc.options.table import NAMES, OPTIONS

# Fields of rows that `arguments` decides by, and that are no options of a process themselves.
DECIDING = {"is_print", "export_branch", "export_format", "resume", "help", "version"}
COMMAND = Subcommand(
    "pinnace try",
    "Try it.",
    [Option(("--all", "-a"), "is_all"), Option(("--to", "-t"), "to", metavar="PLACE")],
    [Argument("name", "NAME", choices=("one", "two"))],
)
WORDS = st.lists(
    st.one_of(st.sampled_from(NAMES), st.sampled_from(["--", "-", "--own", "a", "=", ""]), st.text(max_size=4))
)


def test_no_two_rows_share_a_name() -> None:
    assert len(NAMES) == len(set(NAMES))


def test_every_row_sets_an_option_of_the_process_or_decides() -> None:
    fields = {option.field for option in OPTIONS if option.field is not None}

    assert fields - DECIDING <= set(Options._fields)
    assert DECIDING <= fields


@pytest.mark.parametrize("words", [["-t", "x"], ["-tx"], ["--to", "x"], ["--to=x"]])
@pytest.mark.parametrize("more", [["-a"], ["--all"]])
def test_all_forms_of_an_option_mean_the_same(words: Sequence[str], more: Sequence[str]) -> None:
    expected = {"is_all": True, "to": "x", "name": "one"}

    assert expected == parse(COMMAND, [*words, *more, "one"])
    assert expected == parse(COMMAND, ["one", *more, *words])
    assert expected == parse(COMMAND, [*more, *words, "--", "one"])


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([], "Missing argument 'NAME'. Choose from:\n\tone,\n\ttwo"),
        (["three"], "Invalid value for 'NAME': 'three' is not one of 'one', 'two'."),
        (["one", "two"], "Got unexpected extra argument (two)"),
        (["one", "--to"], "Option '--to' requires an argument."),
        (["one", "--all=1"], "Option '--all' does not take a value."),
        (["one", "-ax"], "No such option '-x'."),
        (["one", "--alk"], "No such option '--alk'. Did you mean '--all'?"),
    ],
)
def test_words_that_are_not_understood_are_refused(words: Sequence[str], error: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse(COMMAND, words)
    assert error == str(refused.value)


@given(WORDS)
def test_every_word_is_an_option_a_value_a_message_or_the_reason_of_a_refusal(words: list[str]) -> None:
    try:
        found = Scanner(OPTIONS, keeps_unknown=True).scan(words)
    except UsageError:
        return
    taken = [value for _, value in found.unknown if value is not None]
    kept = [*found.words, *taken]
    given_values = [value for value in found.values.values() if isinstance(value, str)]
    flat = [each for value in found.values.values() if isinstance(value, tuple) for each in value]

    assert all(any(each in word for word in words) for each in [*kept, *given_values, *flat])
    assert len(found.words) <= len(words)


@given(WORDS)
def test_any_command_line_has_options_or_is_refused(words: list[str]) -> None:
    try:
        options = parse_arguments(["--mode", "rpc", "-ne", *words], {})
    except (CommandError, TextRequested):
        return

    assert isinstance(options, Options)


def test_hints_of_extensions_have_the_names_of_the_modules_that_decide() -> None:
    """They are copies, since those modules take longer to load."""
    usual = str(agent_dir({"HOME": "/home/user"})).replace("/home/user", "~")

    assert (CLIENT_SERVERS, AGENT_DIR_VARIABLE, usual) == (
        extension_hints._CLIENT_VARIABLE,
        extension_hints._FOLDER_VARIABLE,
        extension_hints._USUAL_FOLDER,
    )
