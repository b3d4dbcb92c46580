"""What a project may do to an agent: nothing, until the user trusts it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.source_tree import PYTHONPATH

from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent


def bring(work: Path, **settings: object) -> None:
    (work / ".pi").mkdir(exist_ok=True)
    (work / ".pi" / "settings.json").write_text(json.dumps(settings))


def pinnace(first: HomedAgent, *words: str) -> str:
    command = [sys.executable, "-P", "-m", "pinnace_rpc", *words]
    env = {**first.home.env, "PYTHONPATH": PYTHONPATH}
    done = subprocess.run(command, env=env, cwd=first.home.work, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return f"{done.returncode} {done.stdout}{done.stderr}"


@pytest.fixture
def first(agent: AgentStarter) -> HomedAgent:
    """An agent in a home without a project; the project is brought into it afterwards."""
    started = agent()
    assert started.ask("get_state")["projectTrusted"]
    started.check_end()
    return started


def state(agent: AgentStarter, first: HomedAgent, *flags: str) -> tuple[bool, str]:
    running = agent([], *flags, again=first)
    told = running.ask("get_state")
    running.check_end()
    assert (not told["projectTrusted"]) == ("is not trusted" in running.stderr_text)
    return told["projectTrusted"], told["steeringMode"]


def test_s2_the_settings_of_a_project_are_not_read_until_it_is_trusted(agent: AgentStarter, first: HomedAgent) -> None:
    bring(first.home.work, steeringMode="all", shellCommandPrefix=f"touch {first.home.root}/ran;")
    assert (False, "one-at-a-time") == state(agent, first)
    running = agent([], again=first)
    running.ask("bash", command="true")
    running.check_end()
    assert "is not read (.pi/settings.json)" in running.stderr_text
    assert not (first.home.root / "ran").exists()


def test_flags_trust_for_one_run_and_keep_nothing(agent: AgentStarter, first: HomedAgent) -> None:
    bring(first.home.work, steeringMode="all")

    assert (True, "all") == state(agent, first, "--approve")
    assert (True, "all") == state(agent, first, "-na", "--trust")
    assert (False, "one-at-a-time") == state(agent, first, "-a", "-na")
    assert (False, "one-at-a-time") == state(agent, first)
    assert not (first.home.agent_dir / "trust.json").exists()


def test_trust_is_given_and_taken_by_commands(agent: AgentStarter, first: HomedAgent) -> None:
    bring(first.home.work, steeringMode="all")
    work = first.home.work
    assert f"0 {work}: trusted\n" == pinnace(first, "trust")
    assert (True, "all") == state(agent, first)
    assert f"0 {work}: already trusted\n" == pinnace(first, "trust", ".")
    assert f"0 {work}: not trusted\n" == pinnace(first, "untrust")
    assert (False, "one-at-a-time") == state(agent, first)
    assert f"0 {work.parent}: trusted\n" == pinnace(first, "trust", "..")
    assert (False, "one-at-a-time") == state(agent, first)
    assert f"0 trusted      {work.parent}\nnot trusted  {work}\n" == pinnace(first, "trust", "--list")


@pytest.mark.parametrize("words", [("trust", "--list", "."), ("trust", "a", "b"), ("untrust", "--what")])
def test_a_command_line_that_makes_no_sense_is_refused(words: tuple[str, ...], first: HomedAgent) -> None:
    assert pinnace(first, *words).startswith("2 ")


def test_a_folder_that_is_not_there_is_not_trusted(first: HomedAgent) -> None:
    assert "1 pinnace: nowhere: no such folder\n" == pinnace(first, "trust", "nowhere")


def test_a_file_of_decisions_that_makes_no_sense_trusts_nothing_and_stays(
    agent: AgentStarter, first: HomedAgent
) -> None:
    bring(first.home.work, steeringMode="all")
    (first.home.agent_dir / "trust.json").write_text("{")
    running = agent([], again=first)

    assert not running.ask("get_state")["projectTrusted"]
    running.check_end()
    assert "trust.json: is not valid JSON" in running.stderr_text
    assert pinnace(first, "trust").startswith("1 pinnace: ")
    assert "{" == (first.home.agent_dir / "trust.json").read_text()


def test_s3_a_project_that_is_not_trusted_cant_say_where_transcripts_go(agent: AgentStarter) -> None:
    started = agent([{"text": "hi"}], has_session=True)
    started.check_end()
    home = started.home
    bring(home.work, sessionDir=str(home.root / "elsewhere"))
    command = [sys.executable, "-P", "-m", "pinnace_rpc", "--mode", "rpc", "--provider", "fake", "--model", "m1"]
    for flags, is_there in (((), False), (("-a",), True)):
        done = subprocess.run(
            [*command, *flags],
            input=b'{"type":"get_state"}\n',
            env={**home.env, "PYTHONPATH": PYTHONPATH},
            cwd=home.work,
            capture_output=True,
            check=True,
        )
        assert is_there == (b"elsewhere" in done.stdout)


@pytest.mark.parametrize("folder", ["transcripts", ".", "../work/x"])
def test_s3_a_trusted_project_cant_have_them_in_a_repository(
    folder: str, agent: AgentStarter, first: HomedAgent
) -> None:
    home = first.home
    (home.work / ".git").mkdir()
    bring(home.work, sessionDir=folder)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pinnace_rpc", "--mode", "rpc", "--provider", "fake", "--model", "m1", "-a"],
        input=b'{"type":"get_state"}\n',
        env={**home.env, "PYTHONPATH": PYTHONPATH},
        cwd=home.work,
        capture_output=True,
        check=True,
    )

    assert b"is in the repository" in done.stderr
    assert str(home.agent_dir / "sessions").encode() in done.stdout
