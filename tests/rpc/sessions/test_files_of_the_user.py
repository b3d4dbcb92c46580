"""An agent at work writes none of the user's files, whatever it is told."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from pinnace_fuzz.harness.adapters import pi_models
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import AgentStarter

LOGIN = {"type": "oauth", "access": "a", "refresh": "r", "expires": 1}


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir() if path.is_file()}


def test_a_choice_of_a_client_does_not_change_the_defaults_of_the_user(agent: AgentStarter) -> None:
    """R-SET-03."""
    pi = agent([], settings={"theme": "dark"})
    before = files(pi.home.agent_dir)
    pi.ask("set_model", provider="fake", modelId="m2")
    pi.ask("cycle_model")
    pi.ask("set_thinking_level", level="high")
    pi.ask("set_steering_mode", mode="all")
    pi.ask("set_follow_up_mode", mode="all")
    pi.ask("set_auto_compaction", enabled=False)
    pi.ask("set_auto_retry", enabled=False)
    pi.check_end()

    assert before == files(pi.home.agent_dir)


def test_a_login_that_has_expired_is_not_refreshed(agent: AgentStarter) -> None:
    """Who begins a refresh and is stopped has lost the login: its token can be used once."""
    first = agent([{"text": "hi"}])
    (first.home.agent_dir / "auth.json").write_text(json.dumps({"anthropic": LOGIN}))
    first.check_end()
    pi = agent([], again=first)
    before = files(pi.home.agent_dir)
    assert not pi.request({"type": "set_model", "provider": "anthropic", "modelId": "claude-opus-4-5"})["success"]
    pi.say("go")
    pi.check_end()

    assert before == files(pi.home.agent_dir)
    assert 1 == len(pi.llm.requests)
    assert [] == pi.llm.strays


def test_s6_listing_models_runs_no_command_of_a_key(
    agent: AgentStarter, llm: Callable[[Iterable[Scripted]], FakeLlm], tmp_path: Path
) -> None:
    fake = llm([{"text": "hi"}])
    models = pi_models(fake.base_url)
    models["providers"]["fake"]["apiKey"] = f"!echo x >> {tmp_path}/ran; echo sk"  # type: ignore[index]
    pi = agent(fake, models=models)
    assert 2 == len(pi.ask("get_available_models")["models"])
    pi.ask("cycle_model")
    pi.ask("get_state")
    assert not (tmp_path / "ran").exists()

    pi.say("go")
    assert "x\n" == (tmp_path / "ran").read_text(), "once, for the check and for the request"


def test_s7_a_variable_that_is_not_set_is_not_sent_as_a_key(
    agent: AgentStarter, llm: Callable[[Iterable[Scripted]], FakeLlm]
) -> None:
    fake = llm([])
    models = pi_models(fake.base_url)
    models["providers"]["fake"]["apiKey"] = "$NOT_SET"  # type: ignore[index]
    pi = agent(fake, models=models)
    refused = pi.request({"type": "prompt", "message": "go"})
    if refused["success"]:
        pi.wait({"type": "agent_settled"})

    assert [] == fake.requests
    assert "the variable NOT_SET is not set" in json.dumps([each.record for each in pi.records])
