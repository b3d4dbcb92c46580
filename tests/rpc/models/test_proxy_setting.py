"""`httpProxy`: requests to models go through it where the environment says nothing else."""

import pytest

from pinnace_fuzz.harness.adapters import pi_models
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

HELLO = {"text": "hello"}


def ask(agent: AgentStarter, direct: FakeLlm, setting: FakeLlm, address: str | None = None, **env: str) -> HomedAgent:
    models = pi_models(address or direct.base_url)
    pi = agent(direct, models=models, settings={"httpProxy": setting.base_url, "retry": {"enabled": False}}, env=env)
    pi.say("go")
    return pi


def test_requests_go_through_the_proxy_of_the_settings(agent: AgentStarter) -> None:
    with FakeLlm([HELLO]) as proxy, FakeLlm([]) as direct:
        pi = ask(agent, direct, proxy, "http://model.invalid")

        assert 1 == len(proxy.requests)
        assert "proxy" not in pi.ask("bash", command="env")["output"].lower()


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_a_proxy_of_the_environment_goes_before_it(name: str, agent: AgentStarter) -> None:
    with FakeLlm([HELLO]) as proxy, FakeLlm([]) as unused, FakeLlm([]) as direct:
        ask(agent, direct, unused, "http://model.invalid", **{name: proxy.base_url})

        assert (1, 0) == (len(proxy.requests), len(unused.requests))


def test_a_server_that_the_environment_exempts_is_asked_directly(agent: AgentStarter) -> None:
    with FakeLlm([]) as proxy, FakeLlm([HELLO]) as direct:
        ask(agent, direct, proxy, NO_PROXY="127.0.0.1")

        assert (0, 1) == (len(proxy.requests), len(direct.requests))


def test_an_unusable_proxy_is_reported_with_its_setting(agent: AgentStarter) -> None:
    with FakeLlm([]) as direct:
        pi = agent(direct, settings={"httpProxy": "gopher://me:mark@127.0.0.1:1"})
        pi.say("go")
        message = pi.wait({"type": "agent_end"}, since=0)["messages"][-1]

        assert "httpProxy" in message["errorMessage"]
        assert "mark" not in message["errorMessage"]


def test_variables_that_can_not_be_read_cost_only_what_they_concern(agent: AgentStarter) -> None:
    """What is exempt is reached although the proxy is none, and each is named by the start."""
    with FakeLlm([HELLO]) as direct:
        variables = {"HTTP_PROXY": "http://me:mark@[::1", "HTTPS_PROXY": "gopher://p:1", "NO_PROXY": "!!, 127.0.0.0/8"}
        pi = agent(direct, env=variables)
        pi.say("go")

        assert 1 == len(direct.requests)
        texts = [each["text"] for each in pi.ask("get_state")["warnings"]]
        assert [text.partition(":")[0] for text in texts] == ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"]
        assert "mark" not in "".join(texts)
