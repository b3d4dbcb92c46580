"""Homes for pi-like agents, and what is checked of each agent at the end."""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pinnace_fuzz.harness.adapters import prepare_pi_home
from pinnace_fuzz.harness.agent_process import DriverTimeout
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.trials import workbench
from pinnace_fuzz.trials.workbench import AgentStarter, find_problems
from pinnace_spec.profiles.profiles import Profile

STAND_IN = [sys.executable, str(Path(__file__).parents[1] / "harness" / "stand_in_agent.py")]


@pytest.fixture
def starter(tmp_path: Path) -> Iterator[AgentStarter]:
    """Not the fixture's end but each test says when the agents are checked."""
    starter = AgentStarter(STAND_IN, tmp_path, {"SHARED": "yes"})
    yield starter
    starter.__exit__()


def test_a_home_names_the_fake_llm_and_both_models(tmp_path: Path) -> None:
    home = prepare_pi_home(tmp_path / "run", "http://127.0.0.1:1234", settings={"retry": {"enabled": False}})

    provider = json.loads((home.agent_dir / "models.json").read_text())["providers"]["fake"]
    assert (provider["baseUrl"], provider["api"]) == ("http://127.0.0.1:1234/v1", "openai-completions")
    assert provider["apiKey"] == "sk-fake"
    models = {model["id"]: model for model in provider["models"]}
    assert (models["m1"]["reasoning"], models["m1"]["contextWindow"]) == (False, 128_000)
    assert (models["m1"]["maxTokens"], models["m1"]["input"]) == (4096, ["text", "image"])
    assert (models["m2"]["reasoning"], models["m2"]["contextWindow"]) == (True, 64_000)
    assert json.loads((home.agent_dir / "settings.json").read_text()) == {"retry": {"enabled": False}}
    assert " ".join(home.arguments) == "--mode rpc --no-session --provider fake --model m1"


def test_nothing_of_our_own_environment_gets_into_a_home(tmp_path: Path) -> None:
    home = prepare_pi_home(tmp_path, "http://127.0.0.1:1", env={"TERM": "vt100"}, path_first=tmp_path / "bin")

    ours = {name for name, value in home.env.items() if os.environ.get(name) == value}
    assert ours <= {"LANG", "TZ"}
    assert Path(home.env["HOME"]).parent == home.root
    assert Path(home.env["PI_CODING_AGENT_DIR"]) == home.agent_dir
    assert Path(home.env["TMPDIR"]).is_dir()
    assert home.env["TERM"] == "vt100"
    assert home.env["PATH"].split(os.pathsep)[0] == str(tmp_path / "bin")


def test_an_agent_starts_in_its_home_with_its_arguments(starter: AgentStarter) -> None:
    agent = starter([{"text": "x"}], "--extra", protocol="seed", env={"MORE": "too"}, has_session=True)
    found = agent.request({"type": "environment"})["data"]

    assert found["cwd"] == str(agent.home.work)
    assert found["argv"] == [*agent.home.arguments, "--protocol", "seed", "--extra"]
    assert str(agent.home.sessions) in found["argv"]
    assert (found["environment"]["SHARED"], found["environment"]["MORE"]) == ("yes", "too")
    assert agent.llm.base_url in (agent.home.agent_dir / "models.json").read_text()


def test_agents_can_share_an_llm_and_have_homes_of_their_own(starter: AgentStarter) -> None:
    with FakeLlm() as llm:
        first, second = starter(llm), starter(llm)
        assert first.llm is second.llm is llm
        assert first.home.root != second.home.root


def test_an_agent_can_start_again_in_the_same_home(starter: AgentStarter) -> None:
    first = starter()
    (first.home.agent_dir / "settings.json").write_text('{"kept": true}')
    first.close_stdin()
    first.wait_exit()
    second = starter(again=first)

    assert second.home is first.home
    assert (second.home.agent_dir / "settings.json").read_text() == '{"kept": true}'


def test_an_agent_that_keeps_the_contract_passes(starter: AgentStarter) -> None:
    agent = starter()
    agent.request({"type": "anything"})
    agent.pause_reading()

    starter.__exit__()
    assert agent.wait_exit(0) == 0


def test_an_agent_that_stays_after_the_end_of_stdin_fails(starter: AgentStarter) -> None:
    agent = starter([], "--stay", is_checked=False)
    with pytest.raises(DriverTimeout, match="no exit within"):
        agent.check_end(exit_timeout_s=0.2)


@pytest.mark.parametrize(
    "command",
    [
        {"type": "say_bytes", "text": "noise\n"},
        {"type": "say_bytes", "text": '{"type":"response","id":"1"}\n'},
        {"type": "unanswered"},
        {"type": "exit", "code": 1},
        {"type": "spawn"},
    ],
)
def test_an_agent_that_breaks_the_contract_fails(
    starter: AgentStarter, command: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    # What the agent leaves behind here does not end by itself.
    monkeypatch.setattr(workbench, "LEFT_BEHIND_TIMEOUT_S", 1.0)
    agent = starter()
    agent.send({**command, "id": "1"})
    with pytest.raises(AssertionError):
        starter.__exit__()
    assert not agent.alive
    assert agent.descendants() == []


@pytest.mark.parametrize(("last_words", "is_kept"), [("{}\n", True), ("{}", False)])
def test_the_last_byte_must_be_lf(starter: AgentStarter, last_words: str, is_kept: bool) -> None:
    agent = starter(is_checked=False)
    agent.send({"type": "exit", "code": 0, "last_words": last_words})
    agent.wait_exit()
    with contextlib.nullcontext() if is_kept else pytest.raises(AssertionError):
        agent.check_end()


def test_an_agent_that_the_test_ended_is_only_held_to_what_it_could_do(starter: AgentStarter) -> None:
    killed, silenced, unchecked = starter(), starter(), starter(is_checked=False)
    killed.send({"type": "unanswered", "id": "1"})
    killed.signal(signal.SIGKILL)
    killed.wait_exit()
    silenced.close_stdout()
    silenced.send({"type": "x", "id": "1"})
    silenced.wait_exit()
    unchecked.send({"type": "say_bytes", "text": "noise\n"})

    starter.__exit__()


def test_our_own_agent_is_held_to_the_specification_record_by_record(tmp_path: Path) -> None:
    """The stand-in's first record is none that any profile has; others may write what theirs allows."""
    starter = AgentStarter(STAND_IN, tmp_path, is_specified=True)
    starter()

    with pytest.raises(
        AssertionError, match=r"record 0 \(hello, profile pi\): type: 'hello' is no record of profile pi"
    ):
        starter.__exit__()


@pytest.mark.parametrize(
    ("protocol", "flags", "variable", "profile"),
    [
        (None, (), None, "pi"),
        ("seed", (), None, "seed"),
        (None, ("--protocol", "1.5"), None, "1.5"),
        (None, (), "seed", "seed"),
        ("1.5", (), "seed", "1.5"),
    ],
)
def test_records_are_held_to_the_profile_that_the_agent_was_started_with(
    tmp_path: Path, protocol: Profile | None, flags: tuple[str, ...], variable: str | None, profile: Profile
) -> None:
    """R-PRO-01: the flag before the variable."""
    with AgentStarter(STAND_IN, tmp_path, is_specified=True) as starter:
        env = {} if variable is None else {"PINNACE_PROTOCOL": variable}
        agent = starter([], *flags, protocol=protocol, env=env, is_checked=False)

        assert profile == agent.profile


def test_records_are_held_to_the_profile_that_hello_chose_from_its_answer_on() -> None:
    settled = {"type": "agent_settled", "aborted": False}
    hello = {
        "type": "response",
        "command": "hello",
        "success": True,
        "data": {
            "name": "n",
            "version": "1",
            "protocols": ["pi", "seed"],
            "protocol": "seed",
            "commands": [],
            "events": [],
            "limits": {"recordBytes": 1, "nesting": 1},
            "mcp": {"installed": True, "servers": 0},
        },
    }
    refused = {"type": "response", "command": "hello", "success": False, "error": "late", "errorCode": "too_late"}

    assert find_problems([settled, refused, settled], "pi") == []
    assert [
        "record 2 (agent_settled, profile seed): type: 'agent_settled' is no record of profile seed"
    ] == find_problems([settled, hello, settled], "pi")
