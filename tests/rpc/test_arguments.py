"""The words of a command line: what each option means, which are ignored, which are refused and how."""

import click
import pytest

from pinnace_rpc.arguments import Arguments, RefusedOption, parse_arguments
from pinnace_rpc.command import COMMAND
from pinnace_rpc.options import Options

SERVE = ("--mode", "rpc", "--no-session")

ACCEPTED = [
    ("--provider local", Options(provider="local")),
    ("--model local/m:high", Options(model="local/m:high")),
    ("--models a,b:low,,c/*", Options(models=("a", "b:low", "c/*"))),
    ("--models=", Options(models=())),
    ("--api-key k", Options(api_key="k")),
    ("--thinking xhigh", Options(thinking="xhigh")),
    ("--system-prompt S", Options(system_prompt="S")),
    ("--system-prompt=", Options(system_prompt="")),
    ("--append-system-prompt A --append-system-prompt B", Options(append_system_prompt=("A", "B"))),
    ("--append-system-prompt --bold", Options(append_system_prompt=("--bold",))),
    ("--tools read,bash", Options(tools=("read", "bash"))),
    ("--tools=", Options(tools=())),
    ("-t read", Options(tools=("read",))),
    ("-t -bash,+grep", Options(tools=("-bash", "+grep"))),
    ("--exclude-tools bash", Options(exclude_tools=("bash",))),
    ("-xt bash,edit", Options(exclude_tools=("bash", "edit"))),
    ("--no-tools", Options(no_tools=True)),
    ("-nt", Options(no_tools=True)),
    ("--no-builtin-tools", Options(no_builtin_tools=True)),
    ("-nbt", Options(no_builtin_tools=True)),
    ("--name N", Options(name="N")),
    ("-n N", Options(name="N")),
    ("--session-id 0a.b_c-9", Options(session_id="0a.b_c-9")),
    ("--protocol seed", Options(protocol="seed")),
    ("--protocol 1.5", Options(protocol="1.5")),
    ("--on-eof drain", Options(on_eof="drain")),
    ("--on-eof abort", Options(on_eof="abort")),
    ("--verbose", Options(verbose=True)),
]
IGNORED = [
    "--no-extensions",
    "-ne",
    "--no-skills",
    "-ns",
    "--no-prompt-templates",
    "-np",
    "--no-context-files",
    "-nc",
    "--no-themes",
    "--no-mcp",
    "--offline",
    "--approve",
    "--trust",
    "-a",
    "--no-approve",
    "-na",
    "--theme T",
    "--use-theme T",
    "--tui-mode T",
    "--session-dir D",
]
NOTICED = ["--skill S", "--prompt-template P"]
REFUSED = [
    ("--extension E", "extensions are not available"),
    ("-e E", "extensions are not available"),
    ("--export a.jsonl", "--export is not available"),
    ("--list-models", "--list-models is not available"),
    ("--fork X", "--fork cannot be combined with --no-session"),
    ("--session-id x --session S", "--session-id cannot be combined with --session"),
    ("--session-id x -c", "--session-id cannot be combined with --continue"),
    ("--session-id x -r", "--session-id cannot be combined with --resume"),
    ("hello", "messages on the command line are not supported"),
    ("-- --hello", "messages on the command line are not supported"),
    ("@file.md", "@file arguments are not supported"),
    ("install x", "the command install is not available"),
    ("auth check", "the command auth is not available"),
]
NONSENSE = [
    ("--bogus", "--bogus"),
    ("--bogus=x", "--bogus"),
    ("--mod local/m", "--mod"),  # an abbreviation is none: tomorrow it may be two options
    ("-z", "-z"),
    ("--model", "--model"),
    ("--no-tools=yes", "--no-tools"),
    ("--api-key=", "--api-key"),
    ("--name=", "--name"),
    ("--protocol 2", "--protocol takes one of pi, seed, 1.5"),
    ("--protocol=", "--protocol takes one of pi, seed, 1.5"),
    ("--on-eof never", "--on-eof takes abort or drain"),
    ("--session-id -x", "--session-id takes"),
    ("--session-id a/b", "--session-id takes"),
    ("--session-id=", "--session-id takes"),
    ("--mode text", "modes text and json"),
    ("--mode json", "modes text and json"),
    ("--mode RPC", "--mode takes rpc"),
    ("-p", "modes text and json"),
    ("--print", "modes text and json"),
]


def parse(line: str, **env: str) -> Arguments:
    return parse_arguments([*SERVE, *line.split()], env)


@pytest.mark.parametrize(("line", "options"), ACCEPTED)
def test_an_option_means_this(line: str, options: Options) -> None:
    assert Arguments(options, ()) == parse(line)


@pytest.mark.parametrize("line", IGNORED)
def test_an_option_that_means_nothing_here_is_ignored(line: str) -> None:
    assert Arguments(Options(), ()) == parse(line)


@pytest.mark.parametrize("line", NOTICED)
def test_an_option_that_would_be_missed_is_ignored_with_a_notice(line: str) -> None:
    options, notices = parse(line)

    assert Options() == options
    assert [f"{line.split()[0]} is not available in this release and is ignored"] == list(notices)


@pytest.mark.parametrize(("line", "text"), REFUSED)
def test_what_is_understood_and_not_possible_is_refused(line: str, text: str) -> None:
    with pytest.raises(RefusedOption, match=text) as caught:
        parse(line)
    assert 1 == caught.value.exit_code


@pytest.mark.parametrize(("line", "text"), NONSENSE)
def test_what_makes_no_sense_is_refused_by_name(line: str, text: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        parse(line)
    assert text in caught.value.format_message()
    assert 2 == caught.value.exit_code


def test_every_option_is_tried_here() -> None:
    lines = [*(line for line, _ in [*ACCEPTED, *REFUSED, *NONSENSE]), *IGNORED, *NOTICED, "--mode -c -r --no-session"]
    tried = {word.partition("=")[0] for line in lines for word in line.split()}
    known = {name for option in COMMAND.params if isinstance(option, click.Option) for name in option.opts}

    assert {"--version", "-v", "--continue", "--resume"} == known - tried


def test_all_that_is_accepted_is_accepted_together() -> None:
    line = " ".join([*(line for line, _ in ACCEPTED), *IGNORED])

    assert () == parse(line).notices


def test_of_an_option_that_is_repeated_the_last_counts() -> None:
    assert "b" == parse("--model a --model b").options.model


def test_values_are_trimmed_where_blanks_mean_nothing() -> None:
    words = [*SERVE, "--name", " N ", "--api-key", " k\n", "--tools", " read , bash "]

    assert Options(name="N", api_key="k", tools=("read", "bash")) == parse_arguments(words, {}).options


@pytest.mark.parametrize("flag", ["--name", "--api-key"])
def test_a_blank_value_is_no_value(flag: str) -> None:
    with pytest.raises(click.UsageError, match=f"{flag} requires a value"):
        parse_arguments([*SERVE, flag, "  "], {})


@pytest.mark.parametrize(
    ("line", "env", "protocol"),
    [
        ("", {}, "pi"),
        ("", {"PINNACE_PROTOCOL": ""}, "pi"),
        ("", {"PINNACE_PROTOCOL": "seed"}, "seed"),
        ("--protocol 1.5", {"PINNACE_PROTOCOL": "seed"}, "1.5"),
        ("--protocol pi", {"PINNACE_PROTOCOL": "seed"}, "pi"),
        ("--protocol pi", {"PINNACE_PROTOCOL": "nonsense"}, "pi"),
    ],
)
def test_the_protocol_is_the_flags_else_the_variables_else_pi(line: str, env: dict[str, str], protocol: str) -> None:
    assert protocol == parse(line, **env).options.protocol


def test_a_protocol_that_the_variable_invents_is_refused_by_its_name() -> None:
    with pytest.raises(click.UsageError, match="PINNACE_PROTOCOL takes one of pi, seed, 1.5"):
        parse("", PINNACE_PROTOCOL="2")


def test_a_thinking_level_that_there_is_not_is_told_and_ignored() -> None:
    options, notices = parse("--thinking extreme")

    assert options.thinking is None
    assert ["--thinking takes one of off, minimal, low, medium, high, xhigh, max; the value given is ignored"] == list(
        notices
    )


@pytest.mark.parametrize("line", ["", "--session-dir D"])
def test_without_no_session_the_user_is_told_that_nothing_is_kept(line: str) -> None:
    options, notices = parse_arguments(["--mode", "rpc", *line.split()], {})

    assert Options() == options
    assert ["this conversation is kept in memory only" in notice for notice in notices] == [True]


@pytest.mark.parametrize("line", ["--session S", "--continue", "-c", "--resume", "-r", "--fork X"])
def test_a_saved_session_is_refused_since_its_loss_would_be_noticed(line: str) -> None:
    with pytest.raises(RefusedOption, match="sessions on disk are not available in this release, use --no-session"):
        parse_arguments(["--mode", "rpc", *line.split()], {})


@pytest.mark.parametrize("line", ["--session S", "--continue", "--resume"])
def test_no_session_goes_before_a_saved_one(line: str) -> None:
    assert Arguments(Options(), ()) == parse(line)


def test_without_a_mode_the_user_is_told_which_there_is() -> None:
    with pytest.raises(click.UsageError, match="there is no interactive mode: use --mode rpc"):
        parse_arguments([], {})


@pytest.mark.parametrize(
    "line",
    [
        "--api-key sk-marker --bogus",
        "--api-key sk-marker sk-marker",
        "--api-key sk-marker --mode sk-marker",
        "--api-key sk-marker --thinking sk-marker",
        "--api-key sk-marker --protocol sk-marker",
        "--api-key sk-marker --on-eof sk-marker",
        "--api-key sk-marker --session-id /sk-marker",
        "--api-key sk-marker --model",
        "--api-kei=sk-marker",
        "--no-tools=sk-marker",
        "--api-key sk-marker @sk-marker",
        "--api-key sk-marker",
    ],
)
def test_no_text_repeats_a_key(line: str) -> None:
    try:
        shown = repr(parse(line))
    except click.ClickException as error:
        shown = f"{error.format_message()} {error!r}"

    assert "sk-marker" not in shown
