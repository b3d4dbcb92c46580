"""Models of Azure in the whole program: the address of the resource comes from the user's variables."""

from collections.abc import Callable, Iterable

from pinnace_fuzz.harness.adapters import API_KEY
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import AgentStarter

MakeLlm = Callable[[Iterable[Scripted]], FakeLlm]
LONG = "word " * 30_000


def test_variables_of_auth_json_locate_prompts_and_summaries(llm: MakeLlm, agent: AgentStarter) -> None:
    """They take precedence over those of the process."""
    server = llm([{"text": LONG}, {"text": LONG}, {"text": "A summary.", "repeat": 2}])
    variables = {
        "AZURE_OPENAI_BASE_URL": f"{server.base_url}/mine/",
        "AZURE_OPENAI_DEPLOYMENT_NAME_MAP": "gpt-5=mine",
    }
    auth = {"azure": {"type": "api_key", "key": API_KEY, "env": variables}}
    env = {"AZURE_OPENAI_BASE_URL": "http://127.0.0.1:9", "AZURE_OPENAI_API_VERSION": "2025-04-01-preview"}
    pi = agent(
        server, "--model", "azure/gpt-5", names_model=False, models={}, files={"auth.json": auth}, env=env,
        settings={"compaction": {"keepRecentTokens": 1000}},
    )  # fmt: skip
    pi.say("P", "Q")
    pi.ask("compact")

    assert {request.path for request in server.requests} == {"/mine/responses?api-version=2025-04-01-preview"}
    assert {request.body["model"] for request in server.requests} == {"mine"}
    assert {request.headers["api-key"] for request in server.requests} == {API_KEY}
    assert len(server.requests) == 4


def test_without_an_address_a_prompt_fails_with_the_names_of_the_variables(llm: MakeLlm, agent: AgentStarter) -> None:
    """Its text gives the remedy, so no hint about models.json is added."""
    env = {"AZURE_OPENAI_API_KEY": API_KEY}
    pi = agent(llm(()), "--model", "azure/gpt-5", names_model=False, models={}, env=env)
    pi.say("P")
    message = pi.ask("get_messages")["messages"][-1]

    assert (message["stopReason"], message["errorCode"]) == ("error", "bad_address")
    assert "AZURE_OPENAI_RESOURCE_NAME" in message["errorMessage"]
    assert message["errorMessage"].endswith("attempt 1, not tried again.")
