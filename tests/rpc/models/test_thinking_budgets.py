"""The setting `thinkingBudgets`: every request to a model that counts its thoughts carries it."""

from typing import Any

from pinnace_fuzz.harness.adapters import pi_models
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.trials.workbench import AgentStarter

FIELD = "thinking_budget_tokens"


def test_a_budget_of_the_settings_goes_with_answers_and_summaries(agent: AgentStarter) -> None:
    with FakeLlm([{"text": "one"}, {"text": "two"}, {"text": "SUMMARY"}, {"text": "of the turn"}]) as llm:
        models: Any = pi_models(llm.base_url)
        models["providers"]["fake"]["compat"] = {"thinkingTokenBudgetField": FIELD}
        settings = {"thinkingBudgets": {"high": 777}, "compaction": {"keepRecentTokens": 1}}
        pi = agent(llm, "--model", "fake/m2", "--thinking", "high", models=models, settings=settings)
        pi.say("first " * 50, "second")
        pi.ask("compact")

        assert [777] * 4 == [request.body.get(FIELD) for request in llm.requests]


def test_a_level_without_a_budget_of_its_own_has_the_usual_one(agent: AgentStarter) -> None:
    with FakeLlm([{"text": "one"}]) as llm:
        models: Any = pi_models(llm.base_url)
        models["providers"]["fake"]["compat"] = {"thinkingTokenBudgetField": FIELD}
        settings = {"thinkingBudgets": {"high": 777}}
        pi = agent(llm, "--model", "fake/m2", "--thinking", "low", models=models, settings=settings)
        pi.say("go")

        assert [2048] == [request.body.get(FIELD) for request in llm.requests]
