"""Where extensions come from, and the options about them, in the real program."""

import os
import textwrap
from pathlib import Path
from typing import Any

import pytest
from tests.rpc.extensions.conftest import EXAMPLES, Extended, MakeExtension, Start, call, calls

from pinnace_campaigns.trials.one_shot import OneShotStarter
from pinnace_fuzz.trials.workbench import AgentStarter

DONE: dict[str, object] = {"text": "done"}
NAMED = 'def extension(pi):\n    pi.command("{0}")(lambda ctx, args: ctx.ui.notify("{0}"))\n'


def put(path: Path, name: str) -> Path:
    """Write an extension with a command of this name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(NAMED.replace("{0}", name))
    return path


def names(one: Extended) -> list[str]:
    return [each["name"] for each in one.pi.ask("get_commands")["commands"] if each["source"] == "extension"]


def user_extension(work: Path, name: str) -> None:
    """Put an extension into the agent folder of a home, given its working folder."""
    put(work.parent / "agent" / "extensions" / f"{name}.py", name)


def test_files_and_folders_of_the_user_are_loaded(agent: AgentStarter) -> None:
    first = agent()
    folder = first.home.agent_dir / "extensions"
    put(folder / "file.py", "file")
    put(folder / "folder" / "extension.py", "folder")
    put(folder / "package" / "__init__.py", "package")
    put(folder / "project" / "deep" / "inside.py", "project")
    (folder / "project" / "pyproject.toml").write_text('[tool.pinnace]\nextensions = ["deep/inside.py"]\n')
    put(folder / "_skipped.py", "skipped")
    put(folder / ".hidden.py", "hidden")

    assert {"file", "folder", "package", "project"} == set(names(Extended(agent(again=first))))
    assert [] == names(Extended(agent((), "--no-extensions", again=first)))


def test_settings_name_extensions_and_leave_some_out(agent: AgentStarter, tmp_path: Path) -> None:
    named = put(tmp_path / "elsewhere" / "named.py", "named")
    first = agent(settings={"extensions": [str(named), "!file.py"]})
    put(first.home.agent_dir / "extensions" / "file.py", "file")

    assert ["named"] == names(Extended(agent(again=first)))


def test_the_command_line_goes_before_everything_else(agent: AgentStarter, tmp_path: Path) -> None:
    first = agent()
    put(first.home.agent_dir / "extensions" / "own.py", "own")
    put(tmp_path / "folder" / "a.py", "a")
    put(tmp_path / "folder" / "b.py", "b")
    one = Extended(
        agent((), "-e", str(tmp_path / "folder"), "--extension", str(tmp_path / "folder" / "a.py"), again=first)
    )

    assert ["a", "b", "own"] == names(one)


@pytest.mark.parametrize("flag", [(), ("--approve",), ("-na",)])
def test_a_projects_extensions_wait_for_trust(agent: AgentStarter, flag: tuple[str, ...]) -> None:
    first = agent()
    put(first.home.work / ".pi" / "extensions" / "theirs.py", "theirs")
    one = Extended(agent((), *flag, again=first))

    assert (["theirs"] if flag == ("--approve",) else []) == names(one)


@pytest.mark.parametrize(("decision", "expected"), [("yes", ["theirs"]), ("no", []), ("undecided", [])])
def test_an_extension_of_the_user_may_decide_about_trust(
    agent: AgentStarter, written: MakeExtension, decision: str, expected: list[str]
) -> None:
    path = written(f"def extension(pi):\n    pi.on('project_trust')(lambda ctx, event: {{'trusted': {decision!r}}})\n")
    first = agent()
    put(first.home.work / ".pi" / "extensions" / "theirs.py", "theirs")
    one = Extended(agent((), "-e", str(path), again=first))

    assert expected == names(one)
    assert one.pi.ask("get_state")["projectTrusted"] is (decision == "yes")


def test_a_missing_path_prevents_the_start(extended: Start, tmp_path: Path) -> None:
    one = extended(tmp_path / "nothing.py", is_checked=False)

    assert 1 == one.pi.wait_exit()
    assert "nothing.py" in one.pi.stderr_text


def test_two_extensions_with_one_tool_are_no_start(extended: Start, written: MakeExtension) -> None:
    text = 'def extension(pi):\n    @pi.tool\n    def same(ctx) -> str:\n        """Do it."""\n        return ""\n'
    one = extended([written(text), written(text)], is_checked=False)

    assert 1 == one.pi.wait_exit()
    assert "same" in one.pi.stderr_text


def test_a_typescript_extension_is_left_out_with_a_notice(agent: AgentStarter) -> None:
    """Without a node."""
    first = agent(env={"PINNACE_NODE": "/nowhere/node"})
    folder = first.home.agent_dir / "extensions"
    folder.mkdir()
    (folder / "theirs.ts").write_text("export default function () {}\n")
    one = Extended(agent(again=first))
    one.pi.ask("get_state")

    assert "TypeScript" in one.pi.stderr_text


def test_a_missing_dependency_is_named(extended: Start, written: MakeExtension) -> None:
    text = '# /// script\n# dependencies = ["seamanship>=2"]\n# ///\ndef extension(pi): ...\n'
    one = extended(written(text), is_checked=False)

    assert 1 == one.pi.wait_exit()
    assert "needs seamanship>=2 (not installed). Ask its author" in one.pi.stderr_text


def test_a_file_that_everybody_can_write_to_is_refused(extended: Start, written: MakeExtension) -> None:
    path = written(NAMED.replace("{0}", "open"))
    os.chmod(path, 0o666)
    one = extended(path, is_checked=False)

    assert 1 == one.pi.wait_exit()
    assert str(path) in one.pi.stderr_text


# Flags of extensions.

FLAGS = """
    def extension(pi):
        pi.flag("plan", type=bool, default=False)
        pi.flag("--word", type=str, default="none")
        during = pi.get_flag("word")

        @pi.command("flags")
        def flags(ctx, args):
            ctx.ui.notify(f"{during} {pi.get_flag('plan')} {pi.get_flag('word')} {pi.get_flag('of-others')}")
"""


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ((), "none False none None"),
        (("--plan",), "none True none None"),
        (("--word", "ahoy"), "none False ahoy None"),
        (("--word=ahoy", "--plan"), "none True ahoy None"),
    ],
)
def test_flags_are_given_on_the_command_line(
    extended: Start, written: MakeExtension, words: tuple[str, ...], shown: str
) -> None:
    one = extended(written(FLAGS), (), *words)
    one.command("/flags")

    assert shown == one.notice()


@pytest.mark.parametrize(
    ("words", "asked"),
    [(("--plan", "hello"), ["hello"]), (("--plan", "first", "--word", "ahoy", "second"), ["first", "second"])],
)
def test_a_boolean_flag_leaves_the_prompt_behind_it(
    print_agent: OneShotStarter, written: MakeExtension, words: tuple[str, ...], asked: list[str]
) -> None:
    one = print_agent(["-e", str(written(FLAGS)), "-p", *words], [{**DONE, "repeat": -1}])

    assert (0, "done\n") == one.end()[:2]
    assert asked == [message if isinstance(message, str) else message[0]["text"] for message in one.asked]


def test_a_prompt_behind_a_boolean_flag_is_refused_in_mode_rpc(extended: Start, written: MakeExtension) -> None:
    one = extended(written(FLAGS), (), "--plan", "hello", is_checked=False)

    assert 0 != one.pi.wait_exit()
    assert "Option --plan takes no value, and messages on the command line are not supported" in one.pi.stderr_text
    assert "hello" not in one.pi.stderr_text


def test_flags_survive_a_reload(extended: Start, written: MakeExtension) -> None:
    one = extended([written(FLAGS), "reload_command.py"], (), "--word", "ahoy")
    one.command("/reload-runtime")
    one.command("/flags")

    assert "none False ahoy None" == one.notice()


@pytest.mark.parametrize(
    ("words", "expected_text"),
    [(("--wrod", "x"), "Unknown option: --wrod (did you mean --word?)"), (("--word",), "--word")],
)
def test_flags_that_make_no_sense_are_no_start(
    extended: Start, written: MakeExtension, words: tuple[str, ...], expected_text: str
) -> None:
    one = extended(written(FLAGS), (), *words, is_checked=False)

    assert 0 != one.pi.wait_exit()
    assert expected_text in one.pi.stderr_text


def test_flags_are_in_the_manual(print_agent: OneShotStarter, written: MakeExtension) -> None:
    printed = print_agent(["--help", "-e", str(written(FLAGS))]).end()

    assert "--word" in printed.out


# Which tools there are.


@pytest.mark.parametrize(
    ("words", "declared"),
    [
        ((), ["read", "bash", "edit", "write", "echo_session"]),
        (("--no-tools",), []),
        (("--no-builtin-tools",), ["echo_session"]),
        (("--tools", "read,echo_session"), ["read", "echo_session"]),
        (("--tools", "read"), ["read"]),
    ],
)
def test_options_choose_among_all_tools(extended: Start, words: tuple[str, ...], declared: list[str]) -> None:
    one = extended("dynamic_tools.py", [DONE], *words)
    one.say("go")
    tools: list[Any] = one.pi.llm.requests[-1].body.get("tools") or []

    assert declared == [tool["function"]["name"] for tool in tools]


# --tool-approval


@pytest.mark.parametrize("is_discovering", [True, False])
def test_ask_asks_and_a_refusal_blocks(extended: Start, is_discovering: bool) -> None:
    flags = ("--tool-approval", "ask", *(() if is_discovering else ("--no-extensions",)))
    one = extended((), [call("bash", command="touch ran"), call("bash", command="touch ran"), DONE], *flags)
    one.begin("go")
    first = one.asked("select")
    one.reply(first, value="Deny")
    second = one.asked("select")
    one.reply(second, value="Allow once")
    one.pi.wait({"type": "agent_settled"})

    assert [True, False] == [is_error for _, is_error in one.ends]
    assert (one.work / "ran").exists()
    ids = [each["toolCallId"] for each in one.pi.found({"type": "tool_execution_start"})]
    assert ids == [first["toolCallId"], second["toolCallId"]]
    assert ["allow_once", "allow_always", "reject_once"] == first["optionKinds"]


def test_yes_for_this_session_ends_with_the_session(extended: Start) -> None:
    touch = call("bash", command="true")
    one = extended((), [touch, touch, DONE, touch, DONE], "--tool-approval", "ask")
    one.begin("go")
    one.reply(one.asked("select"), value="Allow for this session")
    one.pi.wait({"type": "agent_settled"})
    assert 1 == len(one.frames("select"))
    one.pi.ask("new_session")
    one.begin("go")
    one.reply(one.asked("select"), value="Deny")
    one.pi.wait({"type": "agent_settled"})

    assert [False, False, True] == [is_error for _, is_error in one.ends]


def test_read_only_runs_read_only_tools_and_denies_the_rest(extended: Start) -> None:
    script = [call("read", path="a.txt"), call("echo_session", message="x"), call("todo", action="list"), DONE]
    one = extended(["dynamic_tools.py", "todo.py"], script, "--tool-approval", "read-only")
    (one.work / "a.txt").write_text("content")
    one.say("go")

    assert [False, False, True] == [is_error for _, is_error in one.ends]
    assert "read-only" in one.ends[2][0]
    assert [] == one.frames("select")


def test_a_command_of_the_users_own_is_not_asked_about(extended: Start) -> None:
    one = extended((), [], "--tool-approval", "read-only")

    assert "mine\n" == one.pi.ask("bash", command="echo mine")["output"]


@pytest.mark.parametrize("mode", ["ask", "read-only"])
def test_without_a_client_approval_blocks(print_agent: OneShotStarter, mode: str) -> None:
    words = ["-p", "go", "--tool-approval", mode]
    one_shot = print_agent(words, [call("bash", command="touch ran"), DONE])

    assert (0, "done\n") == one_shot.end()[:2]
    assert not (one_shot.home.work / "ran").exists()


def test_an_approval_that_does_not_exist_is_refused(extended: Start) -> None:
    one = extended((), [], "--tool-approval", "sometimes", is_checked=False)

    assert 2 == one.pi.wait_exit()


def test_an_open_question_about_a_call_blocks_it_at_an_abort(extended: Start) -> None:
    one = extended((), [call("bash", command="touch ran"), DONE], "--tool-approval", "ask")
    one.begin("go")
    one.asked("select")
    one.pi.ask("abort")
    one.pi.wait({"type": "agent_settled"}, since=0)

    assert not (one.work / "ran").exists()


def test_a_link_that_leads_elsewhere_after_the_approval_is_asked_about_again(extended: Start) -> None:
    """Approved first, executed when the other call of the turn is approved, too."""
    script = [calls(("write", {"path": "docs/a", "content": "x"}), ("bash", {"command": "true"})), DONE]
    one = extended((), script, "--tool-approval", "ask")
    target = one.work.parent / "outside"
    target.mkdir()
    one.begin("go")
    first = one.asked("select")
    one.reply(first, value="Allow once")
    second = one.asked("select")
    (one.work / "docs").symlink_to(target)
    one.reply(second, value="Allow once")
    third = one.asked("select")
    one.reply(third, value="Deny")
    one.pi.wait({"type": "agent_settled"})

    work = os.path.realpath(one.work)
    assert f"path: {work}/docs/a\n" in first["title"]
    assert f"path: {os.path.realpath(target)}/a\n(named docs/a)\n(always asked about: it is outside" in third["title"]
    assert (first["toolCallId"], ["Allow once", "Deny"]) == (third["toolCallId"], third["options"])
    assert [] == os.listdir(target)
    assert {("bash", False), ("write", True)} == {
        (each["toolName"], each["isError"]) for each in one.pi.found({"type": "tool_execution_end"})
    }


def test_a_call_whose_file_keeps_changing_is_not_run(extended: Start, written: MakeExtension) -> None:
    source = """
        def extension(pi):
            asked = []

            @pi.on("tool_call")
            def bind(ctx, event):
                asked.append(event)
                event.bound_path = "/elsewhere"
                ctx.ui.notify(str(len(asked)))
    """
    one = extended(written(source), [call("write", path="a", content="x"), DONE])
    one.say("go")

    [(text, is_error)] = one.ends
    assert is_error
    assert "each time it was approved, its path led to another file" in text
    assert ["1", "2", "3"] == [each["message"] for each in one.frames("notify")]
    assert not (one.work / "a").exists()


def test_yes_for_this_session_does_not_let_the_model_write_what_the_agent_loads(agent: AgentStarter) -> None:
    paths = ["a", ".pi/settings.json", ".git/hooks/x", "gate.py", "../agent/trust.json", "b"]
    script = [*(call("write", path=path, content="") for path in paths), DONE]
    first = agent(script)
    put(first.home.work / "gate.py", "gate")
    one = Extended(agent((), "--tool-approval", "ask", "-e", "gate.py", again=first))
    one.begin("go")
    one.reply(one.asked("select"), value="Allow for this session")
    for reason in ("configures agents", "belongs to git", "is a loaded extension", "is in the agent folder"):
        question = one.asked("select")
        assert f"(always asked about: it {reason}" in question["title"]
        one.reply(question, value="Allow for this session")
    one.pi.wait({"type": "agent_settled"})

    assert [False, True, True, True, True, False] == [is_error for _, is_error in one.ends]
    assert ["a", "b"] == [name for name in ("a", "b") if (one.work / name).exists()]
    assert not (one.work / ".git").exists()
    assert "extension" in (one.work / "gate.py").read_text()


def test_an_example_works_from_the_folder_of_the_user(agent: AgentStarter) -> None:
    first = agent()
    folder = first.home.agent_dir / "extensions"
    folder.mkdir()
    (folder / "todo.py").write_text(textwrap.dedent((EXAMPLES / "todo.py").read_text()))

    assert ["todos"] == names(Extended(agent(again=first)))
