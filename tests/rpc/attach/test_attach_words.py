"""The command line of `pinnace attach`: its own words, the agent's flags, and what the host gets of them."""

import pytest

from pinnace_rpc.attach.pump import message
from pinnace_rpc.host.protocol import Attach, Cursor, encode_request
from pinnace_rpc.options.release import installed_release, program_version
from pinnace_rpc.options.table import OPTIONS
from pinnace_rpc.options.words import TAKING_VALUES, WrongWords, read_words

SESSION = "019a8f2e-1c2b-7abc-8def-0123456789ab"


def test_the_flags_with_a_value_are_those_of_the_table() -> None:
    # A value of --list-models may be missing; it is refused before. An attach has an --on-eof of its own.
    names = {name for option in OPTIONS if option.takes_value() and option.implied is None for name in option.names}

    assert names - {"--on-eof"} == TAKING_VALUES


def test_the_first_message_is_that_of_the_protocol() -> None:
    words = ["bot", "--since", "J.2:41", "--client", "ide", "--protocol", "1.5", "--thinking", "high"]
    record = read_words(words).record("/work", {"A": "\udcff"}, 0o22, "0.1.0")

    flags = ("--protocol", "1.5", "--thinking", "high")
    cursor = Cursor("J", 2, 41)
    expected = Attach(
        (1,), "0.1.0", False, "bot", None, cursor, True, "ide", "detach", flags, "/work", {"A": "\udcff"}, 0o22, "1.5"
    )
    assert message(record) == encode_request(expected)


@pytest.mark.parametrize(
    ("words", "new", "agent", "session", "intent"),
    [
        ([], True, None, None, "end"),
        (["--new"], True, None, None, "end"),
        (["--new", "bot"], True, "bot", None, "detach"),
        (["bot"], False, "bot", None, "detach"),
        (["--provider", "offline", "bot"], False, "bot", None, "detach"),
        (["bot", "--on-eof", "end"], False, "bot", None, "end"),
        (["--on-eof=detach"], True, None, None, "detach"),
        ([SESSION], False, None, SESSION, "detach"),
        (["a/b.jsonl"], False, None, "/work/a/b.jsonl", "detach"),
        (["/s.jsonl"], False, None, "/s.jsonl", "detach"),
    ],
)
def test_what_is_attached_to(words: list[str], new: bool, agent: str | None, session: str | None, intent: str) -> None:
    record = read_words(words).record("/work", {}, 0, "")

    assert (new, agent, session, intent) == (record["new"], record["agent"], record["session"], record["onEof"])


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (["--mode", "rpc", "--no-session", "--provider", "x"], ["--no-session", "--provider", "x"]),
        (["--mode=rpc", "bot", "--name", "--new"], ["--name", "--new"]),
        (["--flag-of-an-extension", "-nt"], ["--flag-of-an-extension", "-nt"]),
        (["--system-prompt=a b", "--cursors"], ["--system-prompt=a b"]),
    ],
)
def test_flags_of_the_agent_are_passed_on(words: list[str], flags: list[str]) -> None:
    assert flags == read_words(words).flags


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["a", "b"], "attach takes one NAME or SESSION, not 2; prompts are sent on stdin"),
        (["--sinc", "3", "a"], "no option --sinc; did you mean --since?"),
        (["--mode", "json"], "attach speaks mode rpc only"),
        (["-p"], "-p is not for an agent that is attached to: see pinnace --help"),
        (["--since"], "--since requires a value"),
        (["--on-eof", "abort"], "--on-eof takes detach or end"),
        (["--cursors=yes"], "--cursors takes no value"),
        (["--new", SESSION], "--new begins an agent of its own: leave SESSION out, or --new"),
    ],
)
def test_wrong_words_are_refused(words: list[str], text: str) -> None:
    with pytest.raises(WrongWords) as refused:
        read_words(words)

    assert text == str(refused.value)


def test_the_release_is_that_of_the_metadata() -> None:
    assert program_version() == installed_release()
