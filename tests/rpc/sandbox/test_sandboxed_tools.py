"""Tools of a real agent in a sandbox, under each mechanism: files, abort, kill -9 of the agent."""

import os
import shutil
import signal
import sysconfig
import venv
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tests.source_tree import REPOSITORY
from tests.waiting import wait_until

from pinnace_agent.sandbox.landlock import landlock_refusal
from pinnace_campaigns.trials.one_shot import OneShotStarter
from pinnace_fuzz.process_tree import words_of
from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

DONE = {"text": "done"}
SETTLED = {"type": "agent_settled"}
END_S = 60.0
PACKAGES = [
    REPOSITORY / name
    for name in (
        "spec/pinnace_spec",
        "statechart/pinnace_statechart",
        "agent/pinnace_agent",
        "rpc/pinnace_rpc",
        "rpc/pinnace",
    )
]
NO_CACHES = shutil.ignore_patterns("__pycache__")
REFUSED = "The sandbox (workspace-write) does not allow writing here"

needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap (bwrap)")
needs_landlock = pytest.mark.skipif(landlock_refusal() is not None, reason=f"needs Landlock: {landlock_refusal()}")
mechanisms = pytest.mark.parametrize(
    "mechanism", [pytest.param("bubblewrap", marks=needs_bubblewrap), pytest.param("landlock", marks=needs_landlock)]
)


def calls(*each: dict[str, Any]) -> dict[str, Any]:
    return {"tool_calls": [{"id": f"t{number}", **call} for number, call in enumerate(each)]}


def write(path: str) -> dict[str, Any]:
    return calls({"name": "write", "args": {"path": path, "content": "new"}})


def bash(command: str) -> dict[str, Any]:
    return calls({"name": "bash", "args": {"command": command}})


def results(pi: HomedAgent) -> list[str]:
    ends: list[Record] = pi.found({"type": "tool_execution_end"})
    return [end["result"]["content"][0]["text"] for end in ends]


def settings(mechanism: str) -> dict[str, Any]:
    return {"sandbox": {"mechanism": mechanism}}


@needs_bubblewrap
def test_file_tools_and_commands_see_the_same_files_and_no_others(agent: AgentStarter, tmp_path: Path) -> None:
    name = f"shared-{tmp_path.name}-{os.getpid()}"
    outside = tmp_path / "outside"
    outside.mkdir()
    edits = [{"oldText": "[core]", "newText": "[core]\n\tfsmonitor = x"}]
    script = [
        write("inside/new"),
        write(f"/tmp/{name}"),
        bash(f"cat /tmp/{name} inside/new"),
        write("/etc/new"),
        calls({"name": "edit", "args": {"path": ".git/config", "edits": edits}}),
        write(".git/hooks/pre-commit"),
        write(".pi/mcp.json"),
        calls({"name": "read", "args": {"path": f"{outside}/f"}}),
        calls({"name": "grep", "args": {"path": str(outside), "pattern": "secret"}}),
        calls({"name": "find", "args": {"path": str(outside), "pattern": "*"}}),
        DONE,
    ]
    pi = agent(script, "--sandbox", "workspace-write", "--tools", "read,bash,edit,write,grep,find")
    repository = pi.home.work / ".git"
    (repository / "hooks").mkdir(parents=True)
    (repository / "objects").mkdir()
    (repository / "HEAD").write_text("ref: refs/heads/main\n")
    (repository / "config").write_text("[core]\n")
    (outside / "f").write_text("secret")
    pi.say("go")

    first, second, shown, *refused, hidden, searched, found = results(pi)
    assert ("Successfully wrote to inside/new", f"Successfully wrote to /tmp/{name}") == (first, second)
    assert "newnew" == shown.strip()
    for text in refused:
        assert "EROFS" in text or "EACCES" in text, text
    assert [REFUSED in text for text in refused[:3]] == [True, True, True], refused
    assert "ENOENT" in hidden
    assert [f"Path not found: {outside}"] * 2 == [searched, found]
    assert not Path("/tmp", name).exists()
    assert "[core]\n" == (repository / "config").read_text()
    assert [] == os.listdir(repository / "hooks")


@needs_landlock
def test_landlock_refuses_writes_of_tools_and_commands_and_reports_its_limits(agent: AgentStarter) -> None:
    attributes = "chmod 777 file; touch -d 2001-01-01 file; setfattr -n user.x -v y file; chown nobody file"
    script = [
        write("new"),
        bash("echo x > new; echo x > $TMPDIR/t && cat $TMPDIR/t file"),
        bash(attributes),
        bash("touch new"),
        DONE,
    ]
    pi = agent(script, "--sandbox", "read-only", settings=settings("landlock"))
    (pi.home.work / "file").write_text("read\n")
    before = (pi.home.work / "file").stat()
    data = pi.ask("get_state")["sandbox"]
    pi.say("go")

    assert ("read-only", "landlock", []) == (data["mode"], data["mechanism"], data["writable"])
    assert 4 == len(data["limits"])
    refused, shown, _, denied = results(pi)
    assert "Permission denied" in denied
    assert "[A sandbox is active (read-only): only $TMPDIR can be written. There is no network." in denied
    assert "EACCES" in refused
    assert refused.endswith("The sandbox (read-only) does not allow writing here")
    assert shown.splitlines()[-2:] == ["x", "read"], shown
    assert not (pi.home.work / "new").exists()
    after = (pi.home.work / "file").stat()
    assert (before.st_mode, before.st_mtime_ns) == (after.st_mode, after.st_mtime_ns)


@mechanisms
@pytest.mark.parametrize("end", ["abort", "kill"])
def test_no_process_of_a_command_outlives_an_abort_or_the_agent(
    mechanism: str, end: str, agent: AgentStarter, tmp_path: Path
) -> None:
    """P02, P03: ten processes in sessions of their own that ignore signals."""
    name = f"left-{tmp_path.name}-{os.getpid()}"
    each = f"setsid sh -c 'trap \"\" TERM HUP; : {name}; sleep 60; :' &"
    command = f"trap '' TERM; for i in 1 2 3 4 5 6 7 8 9 10; do {each} done; sleep 0.05; echo begun; wait"
    pi = agent([bash(command), DONE], "--sandbox", "read-only", settings=settings(mechanism), is_checked=end == "abort")
    pi.send({"type": "prompt", "message": "go"})
    # Each of the ten, and what has the whole command in its arguments.
    wait_until(lambda: len(processes_named(name)) > 10)
    if mechanism == "bubblewrap":
        # It ends with the thread that has started it, and threads of trio end when they are idle.
        started = Path(f"/proc/{pi.process.pid}/task/{pi.process.pid}/children").read_text().split()
        assert any(word.endswith(b"bwrap") for pid in started for word in words_of(int(pid)))
    if end == "abort":
        pi.ask("abort")
        pi.wait(SETTLED)
    else:
        os.kill(pi.process.pid, signal.SIGKILL)

    wait_until(lambda: not processes_named(name))


@needs_bubblewrap
def test_an_agent_that_is_killed_while_a_command_starts_leaves_nothing(agent: AgentStarter, tmp_path: Path) -> None:
    """P03: bubblewrap has not begun yet, so its own guard is not there."""
    name = f"left-{tmp_path.name}-{os.getpid()}"
    slow, starting, go = (tmp_path / each for each in ("slow", "starting", "go"))
    programs = tmp_path / "bin"
    programs.mkdir()
    os.mkfifo(go)
    (programs / "bwrap").write_text(
        f'#!/bin/sh\n[ -e {slow} ] && touch {starting} && read -r x < {go}\nexec {shutil.which("bwrap")} "$@"\n'
    )
    (programs / "bwrap").chmod(0o755)
    script = [bash(f"touch {tmp_path}/outside; : {name}; sleep 60; :"), DONE]
    pi = agent(script, "--sandbox", "read-only", path_first=programs, is_checked=False)
    pi.ask("get_state")
    slow.touch()
    pi.send({"type": "prompt", "message": "go"})
    wait_until(starting.exists)
    os.kill(pi.process.pid, signal.SIGKILL)
    pi.wait_exit(60)
    with open(os.open(go, os.O_RDWR), "w") as file:  # whether it still waits or not
        file.write("go\n")
        file.flush()
        wait_until(lambda: not processes_named(name))
    assert not (tmp_path / "outside").exists()


@needs_bubblewrap
def test_a_long_output_is_read_inside_and_written_by_the_agent_alone(agent: AgentStarter) -> None:
    pi = agent([bash("seq 100000"), DONE], "--sandbox", "workspace-write")
    pi.say("go")
    (end,) = pi.found({"type": "tool_execution_end"})
    path = end["result"]["details"]["fullOutputPath"]
    later = [
        bash(f"tail -n 1 {path}; echo x >> {path}"),
        calls({"name": "read", "args": {"path": path, "limit": 1}}),
        write(path),
        DONE,
    ]
    for each in later:
        pi.llm.add(each)
    pi.say("again")

    _, shown, read, written = results(pi)
    assert shown.startswith("100000\n")
    assert "Read-only file system" in shown
    assert read.startswith("1\n")
    assert REFUSED in written


@needs_bubblewrap
@pytest.mark.parametrize("way", ["settings", "option", "both ways of a folder"])
def test_code_of_extensions_in_the_working_folder_is_not_written(agent: AgentStarter, tmp_path: Path, way: str) -> None:
    """A reload would run it outside. Also under a name that a command has given to the folder above."""
    tools = tmp_path / "agent-1" / "work" / "more" / "tools"
    tools.mkdir(parents=True)
    file = tools / ("extension.py" if way == "both ways of a folder" else "own.py")
    file.write_text("def extension(pi):\n    pass\n")
    named = str(tools if way == "both ways of a folder" else file)
    script = [bash(f"echo x >> {file}; mv more less"), write(str(file)), DONE]
    flags = () if way == "settings" else ("--extension", named)
    found = {} if way == "option" else {"extensions": [named]}
    pi = agent(script, "--sandbox", "workspace-write", *flags, settings=found)
    pi.say("go")

    shown, written = results(pi)
    assert "Read-only file system" in shown
    assert "Device or resource busy" in shown
    assert REFUSED in written
    assert "def extension(pi):\n    pass\n" == file.read_text()


@needs_bubblewrap
def test_nothing_is_imported_from_where_commands_write(agent: AgentStarter, tmp_path: Path) -> None:
    """An export loads packages that nothing else needs: from a folder of PYTHONPATH before all others."""
    ran, modules = tmp_path / "ran", tmp_path / "agent-1" / "work" / "src"
    modules.mkdir(parents=True)
    command = f"echo \"open('{ran}', 'w')\" > src/jinja2.py"
    flags = ("--sandbox", "workspace-write")
    pi = agent([bash(command), DONE], *flags, has_session=True, env={"PYTHONPATH": str(modules)})
    pi.say("go")
    pi.request({"type": "export_html"})

    assert (modules / "jinja2.py").exists()
    assert not ran.exists()


@needs_bubblewrap
def test_what_is_hidden_gets_into_no_prompt_by_a_link(agent: AgentStarter, tmp_path: Path) -> None:
    """Context files are read outside: a command makes one that leads there, and the next session reads it."""
    hidden = tmp_path / "agent-1" / "work" / "hidden"
    hidden.mkdir(parents=True)
    (hidden / "key").write_text("of the hidden file")
    settings = {"sandbox": {"hide": [str(hidden)]}}
    script = [bash("ln -s hidden/key AGENTS.md"), DONE, {"text": "again"}]
    pi = agent(script, "--sandbox", "workspace-write", settings=settings)
    pi.say("go")
    pi.ask("reload")
    pi.ask("new_session")
    pi.say("again")

    assert (hidden.parent / "AGENTS.md").is_symlink()
    assert "of the hidden file" not in str(pi.llm.requests[-1].body)


def processes_named(name: str) -> list[int]:
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f": {name};".encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@needs_bubblewrap
def test_a_client_serves_what_is_not_on_the_disk_where_nothing_can_be_hidden_alone(
    agent: AgentStarter, tmp_path: Path
) -> None:
    """R-FIL-01: a missing file of the working folder; not of a folder that is another one inside, or is hidden."""
    outside = f"/tmp/none-{tmp_path.name}-{os.getpid()}"
    reads = ["unsaved", outside, "hidden/none", "link/none", "../none"]
    script = [calls({"name": "read", "args": {"path": path}}) for path in reads]
    hiding = {"sandbox": {"hide": [str(tmp_path.resolve() / "agent-1/work/hidden")]}}
    pi = agent([*script, DONE], "--sandbox", "workspace-write", settings=hiding)
    work = pi.home.work.resolve()
    (work / "link").symlink_to("/tmp")
    (work / "hidden").mkdir()
    pi.ask("hello", delegate=["read_text_file"])
    pi.send({"type": "prompt", "message": "go"})
    asked = pi.wait({"type": "client_request"})
    pi.send({"type": "client_response", "id": asked["id"], "success": True, "content": "typed"})
    pi.wait(SETTLED)

    assert [str(work / "unsaved")] == [each["path"] for each in pi.found({"type": "client_request"})]
    served, *missing = results(pi)
    assert "typed" == served
    assert ["ENOENT"] * 4 == [each.partition(":")[0] for each in missing]


@needs_bubblewrap
def test_a_client_is_asked_for_nothing_of_a_folder_that_is_another_one_inside(
    agent: AgentStarter,
) -> None:
    """R-SBX-04: what a command has made in its own /tmp leads no client to the file of that name outside."""
    with TemporaryDirectory(dir="/tmp") as outside:
        Path(outside, "read").write_text("of the machine")
        script = [
            bash(f"mkdir -p {outside} && cd {outside} && echo mine | tee read edit"),
            calls({"name": "read", "args": {"path": f"{outside}/read"}}),
            write(f"{outside}/write"),
            calls(
                {"name": "edit", "args": {"path": f"{outside}/edit", "edits": [{"oldText": "mine", "newText": "x"}]}}
            ),
        ]
        pi = agent([*script, DONE], "--sandbox", "workspace-write", "--add-dir", outside)
        pi.ask("hello", delegate=["read_text_file", "write_text_file"])
        pi.ask("prompt", message="go")
        pi.wait(SETTLED)

        assert [] == pi.found({"type": "client_request"})
        _, read, *changed = results(pi)
        assert "mine" == read.strip()
        assert ["Successfully"] * 2 == [each.split()[0] for each in changed]
        assert ["read"] == os.listdir(outside)


@needs_bubblewrap
@pytest.mark.parametrize("is_hidden", [False, True])
def test_an_attachment_is_read_in_the_sandbox(print_agent: OneShotStarter, tmp_path: Path, is_hidden: bool) -> None:
    """R-SBX-04."""
    hidden = tmp_path / "hidden.txt"
    hidden.write_text("secret")

    def prepare(work: Path) -> None:
        (work / "shown.txt").write_text("attached")

    word = f"@{hidden}" if is_hidden else "@shown.txt"
    one_shot = print_agent(["-p", word, "hello", "--sandbox", "read-only"], [DONE], prepare=prepare)
    ended = one_shot.end()

    if is_hidden:
        assert (1, []) == (ended.code, one_shot.llm.requests)
        assert f"{hidden} is hidden by the sandbox: sandbox.readable shows it" in ended.err
    else:
        assert 0 == ended.code, ended.err
        assert "attached" in str(one_shot.asked)


@mechanisms
def test_file_tools_work_where_the_program_is_installed_below_tmp(mechanism: str, tmp_path: Path) -> None:
    """A sandbox replaces /tmp; the interpreter's environment and the program in it stay visible, read-only."""
    with TemporaryDirectory(dir="/tmp") as folder:
        copies = [shutil.copytree(path, Path(folder, "packages", path.name), ignore=NO_CACHES) for path in PACKAGES]
        Path(folder, "link").symlink_to("packages")  # a path that is not there inside
        venv.create(Path(folder, "venv"), symlinks=True)
        here = sysconfig.get_path("purelib")
        there = sysconfig.get_path("purelib", vars={"base": f"{folder}/venv"})
        Path(there, "ours.pth").write_text(f"{folder}/link\n{here}\n")
        script = [
            calls(
                {"name": "read", "args": {"path": "f"}},
                {"name": "grep", "args": {"pattern": "inside", "path": "."}},
                {"name": "bash", "args": {"command": f"touch {copies[0]}/new || cat {folder}/secret"}},
            ),
            DONE,
        ]
        Path(folder, "secret").write_text("hidden")
        command = (f"{folder}/venv/bin/python", "-P", "-m", "pinnace_rpc")
        with AgentStarter(command, tmp_path, {"PATH": "/usr/bin:/bin", "PYTHONPATH": ""}, is_specified=True) as start:
            pi = start(script, "--sandbox", "read-only", "--tools", "read,grep,bash", settings=settings(mechanism))
            (pi.home.work / "f").write_text("what is inside")
            pi.say("go")

            by_id = {end["toolCallId"]: end for end in pi.found({"type": "tool_execution_end"})}
            texts = {name: by_id[name]["result"]["content"][0]["text"] for name in ("t0", "t1", "t2")}
            assert ("what is inside", False) == (texts["t0"], by_id["t0"]["isError"])
            assert "what is inside" in texts["t1"]
            assert "hidden" not in texts["t2"]
            assert by_id["t2"]["isError"]
            assert not Path(copies[0], "new").exists()
