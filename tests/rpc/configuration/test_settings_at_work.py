"""What settings do in a process: each is seen from outside."""

import json
from collections.abc import Callable, Iterable

import pytest

from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import AgentStarter

LATER = {"error": {"status": 429, "headers": {"retry-after": "30"}, "body": {"error": {"message": "later"}}}}


def tools_of(agent: AgentStarter, *flags: str, **settings: object) -> list[str]:
    pi = agent([{"text": "hi"}], *flags, settings=settings)
    pi.say("go")
    return [tool["function"]["name"] for tool in json.loads(pi.llm.requests[0].text)["tools"]]


def test_the_tools_are_those_of_the_settings(agent: AgentStarter) -> None:
    assert ["read", "edit", "write", "ls"] == tools_of(agent, defaultTools=["+ls", "-bash"])
    assert ["read", "bash"] == tools_of(agent, "--tools", "+bash", defaultTools=["read"])


@pytest.mark.parametrize(("limit_ms", "delay_ms"), [(1_000, 5), (30_000, 30_000), (0, 30_000)])
def test_a_server_gets_the_wait_that_it_asks_for_if_it_is_not_too_long(
    limit_ms: int, delay_ms: int, agent: AgentStarter
) -> None:
    settings = {"retry": {"baseDelayMs": 5, "provider": {"maxRetryDelayMs": limit_ms}}}
    pi = agent([LATER, {"text": "hi"}], settings=settings)
    pi.ask("prompt", message="go")

    assert delay_ms == pi.wait({"type": "auto_retry_start"})["delayMs"]


def test_a_server_that_is_silent_for_too_long_is_given_up(agent: AgentStarter) -> None:
    settings = {"retry": {"enabled": False, "provider": {"timeoutMs": 50}}}
    pi = agent([{"chunks": [{"text": "be"}, {"hang": True}]}], settings=settings)
    pi.say("go")

    assert "error" == pi.wait({"type": "agent_end"}, since=0)["messages"][-1]["stopReason"]


def test_a_model_is_compacted_by_its_own_figures(
    agent: AgentStarter, llm: Callable[[Iterable[Scripted]], FakeLlm]
) -> None:
    """All but a thousandth of the window is to stay free, for this model alone."""
    override = {"fake/m1": {"reserveTokens": 127_900, "keepRecentTokens": 1}}
    for overrides, is_compacted in ((override, True), ({"fake/m2": override["fake/m1"]}, False)):
        usage = {"input": 1000, "output": 5}
        fake = llm([{"text": "hi", "usage": usage}] * 2 + [{"text": "summary"}] * 3)
        pi = agent(fake, settings={"compaction": {"keepRecentTokens": 1, "modelOverrides": overrides}})
        pi.say("one " * 50, "two " * 50)

        assert is_compacted == bool(pi.found({"type": "compaction_start"}))
