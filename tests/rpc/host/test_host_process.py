"""The host as a process: its socket, who may connect, one host for each folder, its end."""

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.rpc.host.attached import OFFLINE, TIMEOUT_S, HostProcess, command, environment_of, started

from pinnace_rpc.host.protocol import AgentAction, Answer, AskStatus, Attach, ListAgents, encode_frame


def test_socket_and_folders_are_for_the_user_alone(host: HostProcess) -> None:
    path = Path(host.socket_path)
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.lstat().st_mode) == 0o700
    assert stat.S_IMODE((host.folder / "agent" / "host").lstat().st_mode) == 0o700


def test_a_second_host_names_the_first(host: HostProcess) -> None:
    second = host.run("--socket", f"{host.folder}/other/host.sock")
    assert second.returncode == 1
    assert f"process {host.process.pid} on {socket.gethostname()}" in second.stderr
    assert not Path(f"{host.folder}/other").exists()


def test_the_socket_of_another_folders_host_is_not_taken(host: HostProcess) -> None:
    environment = {**host.environment, "PI_CODING_AGENT_DIR": f"{host.folder}/second"}
    second = subprocess.run(command(), env=environment, capture_output=True, text=True, check=False)
    assert second.returncode == 1
    assert "another agent folder" in second.stderr
    assert host.ask(AskStatus())["pid"] == host.process.pid


def test_the_socket_of_a_dead_host_is_removed_by_the_next(folder: Path) -> None:
    with started(folder, environment_of(folder)) as host:
        host.process.kill()
        host.process.wait()
        assert Path(host.socket_path).exists()
    with started(folder, environment_of(folder)) as host:
        assert host.ask(AskStatus())["pid"] == host.process.pid


def test_a_removed_socket_is_bound_again(host: HostProcess) -> None:
    with host.attach() as connection:
        shutil.rmtree(Path(host.socket_path).parent)
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                running = host.ask(AskStatus())["running"]
                break
            except OSError:  # not there yet, or bound and not listened at
                assert time.monotonic() < deadline
                time.sleep(0.02)
        assert running == 1
        assert connection.ask({"id": "1", "type": "get_state"})["success"]


def test_a_folder_that_others_may_enter_is_refused(folder: Path) -> None:
    (folder / "pinnace").mkdir(mode=0o755)
    refused = subprocess.run(command(), env=environment_of(folder), capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "chmod 700" in refused.stderr


def test_a_path_too_long_for_a_socket_is_an_error(folder: Path) -> None:
    words = command("--socket", f"{folder}/{'x' * 120}/s")
    refused = subprocess.run(words, env=environment_of(folder), capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "--socket" in refused.stderr


def test_a_signal_ends_host_and_agents_in_order(host: HostProcess) -> None:
    with host.attach() as connection:
        connection.ask({"id": "1", "type": "get_state"})
        (agent,) = host.ask(ListAgents(watches=False))["agents"]
        host.process.send_signal(signal.SIGTERM)
        ended = connection.ended()
    assert host.process.wait(TIMEOUT_S) == 0
    assert (ended.exit_code, ended.error) == (75, "the host has ended")
    assert not os.path.exists(f"/proc/{agent['pid']}")
    assert not Path(host.socket_path).exists()


def test_stop_and_status_reach_the_host_by_its_lock(folder: Path) -> None:
    environment = environment_of(folder)
    with started(folder, environment) as host:
        status = json.loads(host.run("status").stdout)
        assert (status["pid"], status["socket"]) == (host.process.pid, host.socket_path)
        assert host.run("stop").returncode == 0
        assert host.process.wait(TIMEOUT_S) == 0
        none = host.run("status")
        assert none.returncode == 69
        assert "no host runs" in none.stderr


def test_no_common_version_is_refused_with_both_releases(host: HostProcess) -> None:
    refused = host.refusal(host.request(agent="a")._replace(versions=(99,), release="9.9"))
    assert refused.exit_code == 69
    assert "9.9" in refused.error
    assert "pinnace host stop" in refused.error


def test_hostile_bytes_end_their_connection_alone(host: HostProcess) -> None:
    for bytes_ in (b"\0" * 100, b"j\xff\xff\xff\xff", encode_frame("j", b"{}"), encode_frame("d", b"x\n")):
        with host.connect(bytes_) as connection:
            while connection.pump():
                pass
    with host.connect(encode_frame("j", b'{"type":"status"}')[:-1]):
        pass  # leaves in the middle of a frame
    assert host.ask(AskStatus())["pid"] == host.process.pid


def test_what_does_not_fit_is_refused(host: HostProcess) -> None:
    with host.attach("main", is_new=True):
        request: Attach = host.request(agent="main")
        assert "fixed at its start" in host.refusal(request._replace(profile="seed")).error
        assert "other flags" in host.refusal(request._replace(start=("--model", "x"))).error
        assert "there is an agent" in host.refusal(request._replace(is_new=True)).error
    assert "no such agent" in host.refusal(host.request(agent="nope", since="ab.1:1")).error
    assert "no agent" in host.refusal(AgentAction("stop", "nope")).error


def test_an_agent_that_refuses_its_flags_is_reported_with_its_words(host: HostProcess) -> None:
    with host.attach("main", start=("--no-such-flag",)) as connection:
        ended = connection.ended()
    assert ended.exit_code == 2
    assert "--no-such-flag" in (ended.error or "")


@pytest.mark.parametrize("words", [("--typo", "x"), ("--typo",)], ids=["named", "unnamed"])
def test_flags_that_are_refused_are_reported_although_stdin_has_ended(
    host: HostProcess, words: tuple[str, ...]
) -> None:
    """The agent reads its flags when it starts: the end of stdin, which is there before, does not hide the error."""
    for _ in range(2):  # the second time the agent is known, and has failed
        done = host.attach_program(*words)
        assert (done.returncode, done.stdout) == (2, "")
        assert "No such option '--typo'" in done.stderr


@pytest.mark.parametrize("name", [("main",), ()], ids=["named", "unnamed"])
def test_an_extension_that_is_missing_is_reported_although_stdin_has_ended(
    host: HostProcess, name: tuple[str, ...]
) -> None:
    """The agent answers reads before it finds that it can't start."""
    done = host.attach_program(*name, *OFFLINE, "-e", "missing.py")
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert "missing.py: does not exist" in done.stderr


def test_the_hosts_program_is_light() -> None:
    """It keeps no agent in its memory: neither models nor HTTP nor pydantic."""
    code = "import sys, pinnace_rpc.host.server; print({'pydantic', 'httpx', 'pinnace_agent'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-P", "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout == "set()\n"


def test_an_agent_without_use_sleeps_and_continues_its_session(folder: Path) -> None:
    """It is another process, with the memory that the host grants each."""
    words = ("--idle-minutes", "0.01", "--agent-memory", "4096")
    with started(folder, environment_of(folder), *words) as host:
        with host.attach() as connection:
            connection.send({"id": "1", "type": "prompt", "message": "hello"})
            connection.until(type="agent_settled")
            former = connection.ask({"id": "2", "type": "get_state"})["data"]
            assert str(4096 * 2**20) in Path(f"/proc/{former['pid']}/limits").read_text()
        with host.connect(ListAgents(watches=True)) as watching:
            while True:
                answer = watching.control()
                assert isinstance(answer, Answer)
                (row,) = json.loads(json.dumps(answer.record))["agents"]
                if row["state"] == "asleep":
                    break
        assert row["pid"] is None
        with host.attach(has_cursors=True) as connection:
            assert connection.record()["sessionId"] == former["sessionId"]
            assert connection.ask({"id": "3", "type": "get_state"})["data"]["messageCount"] == former["messageCount"]


def test_a_restart_replaces_the_process_and_ends_plain_clients(host: HostProcess) -> None:
    with host.attach() as plain, host.attach(start=(), has_cursors=True) as numbered:
        former = plain.ask({"id": "1", "type": "get_state"})["data"]["pid"]
        assert host.ask(AgentAction("restart", "main"))["type"] == "done"
        assert plain.ended().exit_code == 75
        assert numbered.until(type="agent_restarted")[-1]["reason"] == "upgrade"
        assert numbered.ask({"id": "2", "type": "get_state"})["data"]["pid"] != former
