"""Work on another machine, with a program in the place of ssh."""

from pathlib import Path

import pytest
from tests.rpc.extensions.conftest import EXAMPLES, Extended, Start, call

from pinnace_campaigns.trials.one_shot import OneShotStarter
from pinnace_fuzz.script import Scripted

NAME = "remote_operations.py"
DONE: Scripted = {"text": "done"}
# A machine that is a folder here; it notes what it is asked.
FAKE_SSH = """#!/bin/sh
echo "$1" >> "$(dirname "$0")/asked"
shift
MACHINE=there exec sh -c "$*"
"""
BROKEN_SSH = """#!/bin/sh
echo "ssh: connect to host far: No route to host" >&2
exit 255
"""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    folder = tmp_path / "machine"
    folder.mkdir()
    (folder / "a.txt").write_text("from there")
    return folder


def ssh_in(machine: Path, program: str) -> Path:
    """Put a program in the place of ssh; return its folder."""
    tools = machine.parent / "bin"
    tools.mkdir()
    (tools / "ssh").write_text(program)
    (tools / "ssh").chmod(0o755)
    return tools


def remote(extended: Start, machine: Path, *script: Scripted, ssh: str = FAKE_SSH) -> Extended:
    tools = ssh_in(machine, ssh)
    return extended(NAME, script, "--ssh", f"far:{machine}", path_first=tools)


def test_files_are_those_of_the_other_machine(extended: Start, machine: Path) -> None:
    one = remote(
        extended,
        machine,
        call("read", path="a.txt"),
        call("write", path="sub/b.txt", content="written"),
        call("edit", path="sub/b.txt", edits=[{"oldText": "written", "newText": "edited"}]),
        call("read", path="missing.txt"),
        DONE,
    )
    one.say("go")

    assert "edited" == (machine / "sub" / "b.txt").read_text()
    assert [] == list(one.work.iterdir())
    texts = [text for text, _ in one.ends]
    assert "from there" == texts[0]
    assert [False, False, False, True] == [is_error for _, is_error in one.ends]
    assert "ENOENT" in texts[3]
    assert {"far"} == set((machine.parent / "bin" / "asked").read_text().split())


def test_commands_run_there(extended: Start, machine: Path) -> None:
    one = remote(extended, machine, call("bash", command="pwd; echo $MACHINE; exit 3"), DONE)
    one.say("go")

    [(text, is_error)] = one.ends
    assert is_error
    assert text.startswith(f"{machine}\nthere\n")
    assert "3" in text


def test_a_command_of_the_user_runs_remotely_as_well(extended: Start, machine: Path) -> None:
    one = remote(extended, machine)
    result = one.pi.ask("bash", command="cat a.txt; echo $MACHINE")

    assert ("from therethere\n", 0) == (result["output"], result["exitCode"])


def test_the_prompt_names_the_remote_folder(extended: Start, machine: Path) -> None:
    one = remote(extended, machine, DONE)
    one.say("go")

    assert f"You work on far, in {machine}" in one.prompt
    assert "on far" == one.frames("setStatus")[0]["statusText"]


def test_a_machine_out_of_reach_is_not_replaced_by_this_one(extended: Start, machine: Path) -> None:
    write = call("write", path=str(machine / "a.txt"), content="overwritten")
    one = remote(extended, machine, call("bash", command="touch here"), write, DONE, ssh=BROKEN_SSH)
    one.say("go")
    refused = one.pi.request({"type": "bash", "command": "touch here"})

    assert [True, True] == [is_error for _, is_error in one.ends]
    assert "No route to host" in str(one.ends)
    assert "from there" == (machine / "a.txt").read_text()
    assert [] == list(one.work.iterdir())
    assert not refused["success"] or refused["data"]["exitCode"] != 0


@pytest.mark.parametrize("tool", ["grep", "find", "ls"])
def test_a_command_without_operations_is_denied(extended: Start, machine: Path, tool: str) -> None:
    script: list[Scripted] = [call(tool, pattern="x") if tool != "ls" else call(tool), DONE]
    tools = ssh_in(machine, FAKE_SSH)
    one = extended(NAME, script, "--ssh", f"far:{machine}", "--tools", "read,bash,grep,find,ls", path_first=tools)
    one.say("go")

    assert [(f"{tool} does not reach far; use bash.", True)] == one.ends


def test_without_the_flag_everything_is_as_always(extended: Start) -> None:
    one = extended(NAME, [call("bash", command="echo here"), DONE])
    one.say("go")

    assert [("here\n", False)] == one.ends
    assert "You work on" not in one.prompt


def test_an_abort_ends_the_connection(extended: Start, machine: Path) -> None:
    one = remote(extended, machine, call("bash", command="echo begun; sleep 60"), DONE)
    one.begin("go")
    one.pi.wait({"type": "tool_execution_update", "partialResult": {"content": [{"type": "text", "text": "begun\n"}]}})
    one.pi.ask("abort")
    one.pi.wait({"type": "agent_settled"})

    assert "begun" in one.ends[0][0]


def test_the_flag_needs_a_value(extended: Start) -> None:
    one = extended(NAME, [], "--ssh", is_checked=False)

    assert 0 != one.pi.wait_exit()
    assert "Option --ssh needs a value" in one.pi.stderr_text


def test_it_works_without_a_client(print_agent: OneShotStarter, machine: Path) -> None:
    tools = ssh_in(machine, FAKE_SSH)
    words = ["-p", "go", "-e", str(EXAMPLES / NAME), "--ssh", f"far:{machine}"]
    one_shot = print_agent(words, [call("bash", command="echo $MACHINE > here"), DONE], path_first=tools)

    assert (0, "done\n", "") == one_shot.end()
    assert "there\n" == (machine / "here").read_text()
