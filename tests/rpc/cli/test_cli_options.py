"""What the words of the command line mean."""

import pytest

from pinnace_rpc.options.arguments import parse_arguments, with_given_back
from pinnace_rpc.options.options import Options
from pinnace_rpc.options.parser import CommandError, UsageError

RPC = ("--mode", "rpc")


def parse(*words: str, **env: str) -> Options:
    return parse_arguments([*RPC, *words], env)


def test_nothing_said_means_the_defaults() -> None:
    assert Options() == parse()


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
        ("--skill a --skill ~/b", Options(skills=("a", "~/b"))),
        ("--prompt-template a --prompt-template b", Options(prompt_templates=("a", "b"))),
        ("--no-skills", Options(no_skills=True)),
        ("--no-prompt-templates", Options(no_prompt_templates=True)),
        ("--no-context-files", Options(no_context_files=True)),
        ("-ns -np -nc", Options(no_skills=True, no_prompt_templates=True, no_context_files=True)),
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
        ("-ca", Options(continues=True, approved=True)),
        ("--approve", Options(approved=True)),
        ("--trust", Options(approved=True)),
        ("--no-approve", Options(approved=False)),
        # The last one counts, as in the original.
        ("-a -na", Options(approved=False)),
        ("-na -a", Options(approved=True)),
        ("--session x", Options(session="x")),
        ("--session x -c -r", Options(session="x", continues=True)),
        ("--fork x", Options(fork="x")),
        ("--no-session", Options(is_persistent=False)),
        ("--no-session -r", Options(is_persistent=False)),
        ("--protocol 1.5", Options(protocol="1.5")),
        ("--on-eof drain", Options(on_eof="drain")),
        ("--on-restore continue", Options(on_restore="continue")),
        ("--verbose", Options(verbose=True)),
        ("--model a --model b", Options(model="b")),
    ],
)
def test_an_option_means_this(words: str, expected: Options) -> None:
    assert expected == parse(*words.split())


@pytest.mark.parametrize(
    "words",
    [
        "--no-themes",
        "--theme p --theme q",
        "--tui-mode m",
        "--no-themes --theme x",
    ],
)
def test_what_means_nothing_here_is_accepted_and_ignored(words: str) -> None:
    assert Options() == parse(*words.split())


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("--fork x --no-session", "--fork cannot be combined with --no-session"),
        ("--fork x --continue", "--fork cannot be combined with --continue"),
        ("--session-id a --continue", "--session-id cannot be combined with --continue"),
        ("--session-id a --session b", "--session-id cannot be combined with --session"),
        ("hello", "messages on the command line are not supported"),
        ("-- --hello", "messages on the command line are not supported"),
        ("@file", "@file arguments are not supported"),
        ("install x", "messages on the command line are not supported"),
    ],
)
def test_what_is_not_there_is_refused_by_name(words: str, error: str) -> None:
    with pytest.raises(CommandError) as refused:
        parse_arguments(["--mode", "rpc", *words.split()], {})
    assert error in refused.value.args[0]
    assert 1 == refused.value.exit_code


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--mode", "tui"], "--mode takes one of text, json, rpc"),
        (["--mode", ""], "--mode takes one of"),
        (["--mode"], "--mode"),
        (["--max-turns", "0", "-p", "x"], "--max-turns takes a whole number from 1 on"),
        (["--max-turns", "1.5", "-p", "x"], "--max-turns takes a whole number"),
        (["--max-turns", "\u0661", "-p", "x"], "--max-turns takes a whole number"),
        (["--max-cost", "0", "-p", "x"], "--max-cost takes a number greater than 0"),
        (["--max-cost", "nan", "-p", "x"], "--max-cost takes a number"),
        (["--max-run-seconds", "-1", "-p", "x"], "--max-run-seconds takes a number"),
        (["--max-run-seconds", "inf", "-p", "x"], "--max-run-seconds takes a number"),
        (["--max-run-seconds", "1m", "-p", "x"], "--max-run-seconds takes a number"),
        (
            ["-r"],
            "not supported: a menu of sessions (--resume) without a terminal. Instead: pinnace sessions",
        ),
        (["-cr"], "not supported: a menu of sessions"),
        ([*RPC, "-ne", "--bogus"], "--bogus"),
        ([*RPC, "-ne", "--bogus=1"], "--bogus"),
        ([*RPC, "--tool-approval", "maybe"], "--tool-approval takes never, ask or read-only"),
        ([*RPC, "-q"], "-q"),
        ([*RPC, "--name"], "--name"),
        ([*RPC, "--name", " "], "--name requires a value"),
        ([*RPC, "--api-key", ""], "--api-key requires a value"),
        ([*RPC, "--protocol", "2"], "--protocol takes one of pi, seed, 1.5"),
        ([*RPC, "--protocol", ""], "--protocol takes one of"),
        ([*RPC, "--on-eof", "wait"], "--on-eof takes abort or drain"),
        (["--mode", "acp", "--on-eof", "drain"], "--on-eof is not supported in mode acp"),
        (["--mode", "acp", "--session", "a"], "--session is not supported in mode acp"),
        (["--mode", "acp", "--api-key-fd", "3"], "--api-key-fd is not supported in mode acp"),
        ([*RPC, "--session-id", "a b"], "--session-id takes"),
        ([*RPC, "--session-id", "../x"], "--session-id takes"),
        ([*RPC, "--session-id", "-x"], "--session-id takes"),
        ([*RPC, "--session-id", "x" * 201], "--session-id takes"),
    ],
)
def test_what_makes_no_sense_is_an_error_that_says_so(words: list[str], error: str) -> None:
    with pytest.raises(CommandError) as wrong:
        parse_arguments(words, {})
    assert error in str(wrong.value)
    assert 2 == wrong.value.exit_code


def asked(*words: str, is_at_terminal: bool = False) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    options = parse_arguments(words, {}, is_at_terminal=is_at_terminal)
    return options.mode, options.messages, options.files


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], ("text", (), ())),
        (["-p"], ("text", (), ())),
        (["--mode", "text", "a"], ("text", ("a",), ())),
        (["--mode", "json", "-p", "a"], ("json", ("a",), ())),
        (["--mode", "rpc", "-p"], ("rpc", (), ())),
        (["a", "@f", "b", "@g"], ("text", ("a", "b"), ("f", "g"))),
        (["a", "--model", "m", "b"], ("text", ("a", "b"), ())),
        (["-p", "---\nx: 1\n---"], ("text", ("---\nx: 1\n---",), ())),
        (["-p", "--", "-p", "---x", "@f"], ("text", ("-p", "---x"), ("f",))),
        (["-p", "-p", "---x"], ("text", ("---x",), ())),
    ],
)
def test_words_are_asked(words: list[str], expected: object) -> None:
    assert expected == asked(*words)


def test_at_a_terminal_only_what_was_asked_for_is_done() -> None:
    assert ("text", ("a",), ()) == asked("-p", "a", is_at_terminal=True)
    assert "rpc" == asked("--mode", "rpc", is_at_terminal=True)[0]


@pytest.mark.parametrize(
    ("words", "flags", "messages", "opens_sessions"),
    [
        ([], [], [], False),
        (["a", "--model", "m", "b"], ["--model", "m"], ["a", "b"], False),
        (["--model=m", "-r", "a"], ["--model=m"], ["a"], True),
        (["-nname", "--resume", "--", "-a", "b"], ["-nname"], ["-a", "b"], True),
        (["a", "--thinking", "high", "a"], ["--thinking", "high"], ["a", "a"], False),
        (["--own", "x", "-c"], ["--own", "x", "-c"], [], False),
    ],
)
def test_at_a_terminal_without_a_mode_flags_are_the_agents_and_words_are_messages(
    words: list[str], flags: list[str], messages: list[str], opens_sessions: bool
) -> None:
    options = parse_arguments(words, {}, is_at_terminal=True)
    assert options.is_interactive
    assert (flags, messages) == (list(options.agent_flags), list(options.messages))
    assert opens_sessions == options.opens_sessions


@pytest.mark.parametrize("words", [["@a.txt"], ["--api-key-fd", "3"]])
def test_the_terminal_client_refuses_what_it_cannot_pass_on(words: list[str]) -> None:
    with pytest.raises(CommandError):
        parse_arguments(words, {}, is_at_terminal=True)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--max-turns 5", Options(max_turns=5)),
        ("--max-cost 0.5 --max-run-seconds 1e3", Options(max_cost=0.5, max_run_s=1000.0)),
        ("--fail-on-error", Options(fails_on_error=True)),
    ],
)
def test_a_run_has_limits(words: str, expected: Options) -> None:
    assert expected == parse(*words.split())


def test_options_that_are_not_ours_are_kept_for_extensions() -> None:
    options = parse("-e", "x.py", "-ne", "--plan", "hello", "--ssh=me@box", "--quick", "--name", "n")

    assert (("x.py",), True) == (options.extensions, options.no_extensions)
    assert (("plan", "hello"), ("ssh", "me@box"), ("quick", None)) == options.extension_flags
    assert "n" == options.name
    assert "me@box" not in repr(options)
    assert ((0, 0),) == options.taken_words


def test_words_behind_options_of_extensions_can_become_messages_and_files_again() -> None:
    words = "-p -e x.py one --plan two @a --fast @b --name n three --host h".split()
    options = parse_arguments(words, {})

    assert (("one", "three"), ("a",)) == (options.messages, options.files)
    assert (("one", "two", "three"), ("a", "b")) == with_given_back(options, [0, 1])
    assert (("one", "three", "h"), ("a",)) == with_given_back(options, [2])


def test_an_unknown_option_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(UsageError) as wrong:
        parse("-ne", "--sesion-dir", "x")
    assert "No such option '--sesion-dir'. (Did you mean one of: '--session', '--session-dir', '--session-id'?)" == str(
        wrong.value
    )
    assert 2 == wrong.value.exit_code


@pytest.mark.parametrize(("level", "hint"), [("hihg", "did you mean high?"), ("bogus", "xhigh, max"), ("", "off")])
def test_an_unknown_thinking_level_is_refused_with_the_nearest(level: str, hint: str) -> None:
    with pytest.raises(UsageError, match=r"^--thinking takes one of off") as refused:
        parse("--thinking", level)
    assert hint in str(refused.value)
    assert 2 == refused.value.exit_code


@pytest.mark.parametrize(
    ("words", "variable", "profile"),
    [([], "seed", "seed"), ([], "", "pi"), (["--protocol", "1.5"], "seed", "1.5"), (["--protocol", "pi"], "no", "pi")],
)
def test_the_flag_goes_before_the_variable(words: list[str], variable: str, profile: str) -> None:
    assert profile == parse(*words, PINNACE_PROTOCOL=variable).protocol


def test_a_variable_that_names_no_profile_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"PINNACE_PROTOCOL takes one of pi, seed, 1\.5"):
        parse(PINNACE_PROTOCOL="2")


def test_the_key_is_not_shown_with_the_options() -> None:
    assert "sk-marker" not in repr(parse("--api-key", "sk-marker"))
