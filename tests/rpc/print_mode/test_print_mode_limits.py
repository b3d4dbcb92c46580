"""Limits in modes text and json: an end that says why, and an exit code."""

import json

import pytest

from pinnace_campaigns.trials.one_shot import OneShotStarter
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.reading import record_faults

CALLING: Scripted = {"tool_calls": [{"name": "bash", "args": {"command": "echo again"}}], "repeat": -1}
HANGING: Scripted = {"chunks": [{"text": "one"}, {"hang": True}]}
SLEEPING: Scripted = {"tool_calls": [{"name": "bash", "args": {"command": "sleep 600 & sleep 600"}}]}

LIMITS: dict[str, tuple[str, str, Scripted]] = {
    "turns": ("--max-turns", "2", CALLING),
    "cost": ("--max-cost", "0.00003", CALLING),
    "a model that hangs": ("--max-run-seconds", "0.3", HANGING),
    "a tool that hangs": ("--max-run-seconds", "0.3", SLEEPING),
}


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("mode", ["text", "json"])
def test_a_limit_ends_a_run_that_would_go_on_for_ever(mode: str, name: str, print_agent: OneShotStarter) -> None:
    flag, value, answer = LIMITS[name]
    one_shot = print_agent(["--mode", mode, flag, value, "go", "never sent"], [answer])
    ended = one_shot.end()

    assert 1 == ended.code
    assert ended.err.startswith(f"pinnace: ended by {flag}, or the setting limits.")
    assert 1 == ended.err.count("\n")
    assert all("never sent" not in json.dumps(request.body) for request in one_shot.llm.requests)
    assert [] == one_shot.left_behind()
    if mode == "text":
        assert "" == ended.out
        return
    assert [] == record_faults(ended.events)
    assert ("agent_settled", True, "limit") == tuple(ended.events[-1][key] for key in ("type", "aborted", "reason"))


def test_a_limit_of_cost_is_refused_for_a_model_without_prices(print_agent: OneShotStarter) -> None:
    """A limit of cost that can't hold must not look like one that does."""
    models = {"providers": {"local": {"baseUrl": "http://127.0.0.1:9", "api": "openai-completions", "apiKey": "none"}}}
    models["providers"]["local"]["models"] = [{"id": "m1"}]  # type: ignore[assignment]
    words = ["--provider", "local", "--max-cost", "1", "-p", "--no-tools"]

    ended = print_agent(words, models=models).end()
    assert (2, "") == (ended.code, ended.out)
    assert "--max-cost (limits.maxCost) can't be enforced: local/m1 has no prices" in ended.err
