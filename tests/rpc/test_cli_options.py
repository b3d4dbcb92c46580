"""What the words of the command line mean."""

import click
import pytest

from pinnace_rpc.arguments import Arguments, RefusedOption, parse_arguments
from pinnace_rpc.options import Options

RPC = ("--mode", "rpc")


def parse(*words: str, **env: str) -> Arguments:
    return parse_arguments([*RPC, *words], env)


def test_nothing_said_means_the_defaults_and_no_notice() -> None:
    assert Arguments(Options(), ()) == parse()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--provider p --model m", Options(provider="p", model="m")),
        ("--provider=p --model=m:high", Options(provider="p", model="m:high")),
        ("--models a,b/*:low,,c", Options(models=("a", "b/*:low", "c"))),
        ("--api-key k", Options(api_key="k")),
        ("--thinking max", Options(thinking="max")),
        ("--system-prompt p", Options(system_prompt="p")),
        ("--append-system-prompt a --append-system-prompt b", Options(append_system_prompt=("a", "b"))),
        ("--append-system-prompt -x", Options(append_system_prompt=("-x",))),
        ("--tools read,bash", Options(tools=("read", "bash"))),
        ("--tools +a,-b", Options(tools=("+a", "-b"))),
        ("--tools=", Options(tools=())),
        ("-t read", Options(tools=("read",))),
        ("--no-tools", Options(no_tools=True)),
        ("-nt", Options(no_tools=True)),
        ("-nbt", Options(no_builtin_tools=True)),
        ("--no-builtin-tools", Options(no_builtin_tools=True)),
        ("-xt edit,write", Options(exclude_tools=("edit", "write"))),
        ("--exclude-tools edit", Options(exclude_tools=("edit",))),
        ("-n here", Options(name="here")),
        ("--name here", Options(name="here")),
        ("--session-id a.b_c-1", Options(session_id="a.b_c-1")),
        ("--session-dir d", Options(session_dir="d")),
        ("--continue", Options(continues=True)),
        ("-ca", Options(continues=True)),
        ("--session x", Options(session="x")),
        ("--session x -c -r", Options(session="x", continues=True)),
        ("--fork x", Options(fork="x")),
        ("--no-session", Options(is_persistent=False)),
        ("--no-session -r", Options(is_persistent=False)),
        ("--protocol 1.5", Options(protocol="1.5")),
        ("--on-eof drain", Options(on_eof="drain")),
        ("--verbose", Options(verbose=True)),
        ("--model a --model b", Options(model="b")),
    ],
)
def test_an_option_means_this(words: str, expected: Options) -> None:
    assert Arguments(expected, ()) == parse(*words.split())


@pytest.mark.parametrize(
    "words",
    [
        "--no-themes",
        "--theme p --theme q",
        "--use-theme p",
        "--tui-mode m",
        "--no-extensions",
        "-ne",
        "--no-skills",
        "-ns",
        "--no-prompt-templates",
        "-np",
        "--no-context-files",
        "-nc",
        "--no-mcp",
        "--offline",
        "--approve",
        "-a",
        "--trust",
        "--no-approve",
        "-na",
        "-ne -ns -np -nc -na",
    ],
)
def test_what_means_nothing_here_is_accepted_and_ignored(words: str) -> None:
    assert Arguments(Options(), ()) == parse(*words.split())


@pytest.mark.parametrize("flag", ["--skill", "--prompt-template"])
def test_what_is_missed_but_not_needed_is_told_and_ignored(flag: str) -> None:
    options, notices = parse(flag, "path")
    assert Options() == options
    assert f"{flag} is not available in this release and is ignored" == notices[0]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("--resume", "--resume asks which session"),
        ("-cr", "use --session or --continue"),
        ("--fork x --no-session", "--fork cannot be combined with --no-session"),
        ("--fork x --continue", "--fork cannot be combined with --continue"),
        ("--session-id a --continue", "--session-id cannot be combined with --continue"),
        ("--session-id a --session b", "--session-id cannot be combined with --session"),
        ("-e x", "extensions are not available"),
        ("--extension x -ne", "extensions are not available"),
        ("--export a", "--export is not available"),
        ("--list-models", "--list-models is not available"),
        ("hello", "messages on the command line are not supported"),
        ("-- --hello", "messages on the command line are not supported"),
        ("@file", "@file arguments are not supported"),
        ("install x", "the command install is not available"),
    ],
)
def test_what_is_not_there_is_refused_by_name(words: str, error: str) -> None:
    with pytest.raises(RefusedOption) as refused:
        parse_arguments(["--mode", "rpc", *words.split()], {})
    assert error in refused.value.message
    assert 1 == refused.value.exit_code


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([], "there is no interactive mode: use --mode rpc"),
        (["--mode", "text"], "not available in this release: use --mode rpc"),
        (["--mode", "json"], "not available in this release: use --mode rpc"),
        (["-p", "hello"], "not available in this release: use --mode rpc"),
        (["--mode", "rpc", "--print"], "not available in this release"),
        (["--mode", "tui"], "--mode takes rpc"),
        ([*RPC, "--bogus"], "--bogus"),
        ([*RPC, "--bogus=1"], "--bogus"),
        ([*RPC, "-q"], "-q"),
        ([*RPC, "--name"], "--name"),
        ([*RPC, "--name", " "], "--name requires a value"),
        ([*RPC, "--api-key", ""], "--api-key requires a value"),
        ([*RPC, "--protocol", "2"], "--protocol takes one of pi, seed, 1.5"),
        ([*RPC, "--protocol", ""], "--protocol takes one of"),
        ([*RPC, "--on-eof", "wait"], "--on-eof takes abort or drain"),
        ([*RPC, "--session-id", "a b"], "--session-id takes"),
        ([*RPC, "--session-id", "../x"], "--session-id takes"),
        ([*RPC, "--session-id", "-x"], "--session-id takes"),
        ([*RPC, "--session-id", "x" * 201], "--session-id takes"),
    ],
)
def test_what_makes_no_sense_is_an_error_that_says_so(words: list[str], error: str) -> None:
    with pytest.raises(click.UsageError) as wrong:
        parse_arguments(words, {})
    assert error in wrong.value.format_message()
    assert 2 == wrong.value.exit_code


def test_a_level_that_there_is_not_is_told_and_ignored() -> None:
    options, notices = parse("--thinking", "lots")
    assert options.thinking is None
    assert "--thinking takes one of off" in notices[0]


@pytest.mark.parametrize(
    ("words", "variable", "profile"),
    [([], "seed", "seed"), ([], "", "pi"), (["--protocol", "1.5"], "seed", "1.5"), (["--protocol", "pi"], "no", "pi")],
)
def test_the_flag_goes_before_the_variable(words: list[str], variable: str, profile: str) -> None:
    assert profile == parse(*words, PINNACE_PROTOCOL=variable).options.protocol


def test_a_variable_that_names_no_profile_is_an_error() -> None:
    with pytest.raises(click.UsageError, match=r"PINNACE_PROTOCOL takes one of pi, seed, 1\.5"):
        parse(PINNACE_PROTOCOL="2")


def test_the_key_is_not_shown_with_the_options() -> None:
    assert "sk-marker" not in repr(parse("--api-key", "sk-marker"))
