"""Command lines that are read without the parser mean what the parser would make of them, and never more."""

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace_rpc import plain_options as plain
from pinnace_rpc.arguments import parse_arguments
from pinnace_rpc.options import PROFILE_VARIABLE
from pinnace_rpc.plain_options import plain_options
from pinnace_spec.profiles import PROFILES

VALUES = st.sampled_from(
    [
        *("m1", "offline", "a b", " a", "", "-x", "--model", "é", "\udcff", "@file", "seed", "1.5", "rpc", "text"),
        *("high", "ask", "drain", "abort", "wrong", "/tmp/x", "a,b", "\0"),
    ]
)
OTHERS = ["--mode=rpc", "--tools", "-c", "-p", "--", "--resume", "--help", "--version", "--own-flag", "--list-models"]
OTHERS += ["--export", "--session-id", "--fork", "--max-turns", "word", "@file", "sessions"]
NAMES = [*plain._FLAGS, *plain._IGNORED]
TAKING = [*plain._TEXTS, *plain._LISTS, *plain._CHOICES]
WORDS = st.lists(
    st.one_of(
        st.sampled_from(NAMES).map(lambda name: [name]),
        st.tuples(st.sampled_from(TAKING), VALUES).map(list),
        st.sampled_from([*OTHERS, *TAKING]).map(lambda name: [name]),
    ),
    max_size=6,
).map(lambda parts: ["--mode", "rpc", *(word for part in parts for word in part)])


@given(WORDS, st.sampled_from([None, "", "1.5", "seed", "wrong"]))
def test_what_is_read_without_the_parser_is_what_the_parser_reads(words: list[str], profile: str | None) -> None:
    env = {} if profile is None else {PROFILE_VARIABLE: profile}
    options = plain_options(words, env)
    if options is not None:
        assert parse_arguments(words, env) == options


@pytest.mark.parametrize(
    "line",
    [
        "--mode rpc",
        "--mode rpc --no-session --provider anthropic --model m1:high",
        "--provider p --model m --api-key k --thinking off --mode rpc --no-session",
        "--mode rpc --session /a/b.jsonl --session-dir /a --append-system-prompt x --append-system-prompt y",
        "--mode rpc --protocol 1.5 --on-eof drain --tool-approval ask --extension a --skill b --prompt-template c",
        "--mode rpc --continue --verbose --no-extensions --no-skills --no-prompt-templates --no-context-files",
        "--mode rpc --no-tools --no-builtin-tools --keep-going --offline --no-themes --no-mcp --name n",
    ],
    ids=range(7),
)
def test_command_lines_of_clients_need_no_parser(line: str) -> None:
    options = plain_options(line.split(), {})

    assert options is not None
    assert parse_arguments(line.split(), {}) == options


@pytest.mark.parametrize(
    "line", ["", "--no-session", "--mode text", "--mode", "--mode rpc --thinking loud", "sessions"]
)
def test_everything_else_is_left_to_the_parser(line: str) -> None:
    assert plain_options(line.split(), {}) is None


@pytest.mark.parametrize("profile", PROFILES)
def test_the_environment_names_the_profile_unless_the_command_line_does(profile: str) -> None:
    options = plain_options(["--mode", "rpc"], {PROFILE_VARIABLE: profile})
    named = plain_options(["--mode", "rpc", "--protocol", "seed"], {PROFILE_VARIABLE: profile})

    assert options is not None
    assert named is not None
    assert (options.protocol, named.protocol) == (profile, "seed")


def test_a_wrong_profile_in_the_environment_is_left_to_the_parser() -> None:
    assert plain_options(["--mode", "rpc"], {PROFILE_VARIABLE: "2.0"}) is None
    with pytest.raises(click.UsageError):
        parse_arguments(["--mode", "rpc"], {PROFILE_VARIABLE: "2.0"})
