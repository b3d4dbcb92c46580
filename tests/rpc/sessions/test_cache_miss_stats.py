"""What `get_session_stats` says about a prompt cache. Rule R-STA-11."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.records import Record
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import AgentStarter

FIRST = {"text": "one", "usage": {"input": 10, "output": 1, "cacheRead": 0, "cacheWrite": 5000}}
HIT = {"text": "two", "usage": {"input": 20, "output": 1, "cacheRead": 5000, "cacheWrite": 1000}}
MISS = {"text": "three", "usage": {"input": 7000, "output": 1, "cacheRead": 1010, "cacheWrite": 0}}
PRICES = {"input": 3, "output": 15, "cacheRead": 0.5, "cacheWrite": 3.75}


def _models(base_url: str) -> Record:
    model = {"contextWindow": 200_000, "maxTokens": 1000, "cost": PRICES}
    server = {"baseUrl": f"{base_url}/v1", "api": "openai-completions", "apiKey": "key"}
    return {"providers": {"fake": {**server, "models": [{"id": name, **model} for name in ("m1", "m2")]}}}


def test_the_stats_say_what_was_missed_and_why_also_after_a_restart(
    llm: Callable[[Iterable[Scripted]], FakeLlm], agent: AgentStarter, tmp_path: Path
) -> None:
    server = llm([FIRST, HIT, MISS])
    path = tmp_path / "s.jsonl"
    pi = agent(server, "--session", str(path), models=_models(server.base_url), has_session=True)
    pi.say("a", "b")
    assert pi.ask("get_session_stats")["cacheMisses"] == {
        "missCount": 0, "missedTokens": 0, "missedCost": 0, "reasons": []
    }  # fmt: skip
    pi.ask("set_model", provider="fake", modelId="m2")
    pi.say("c")

    stats = pi.ask("get_session_stats")

    assert stats["session"]["tokens"]["cacheRead"] == 6010
    # The second request had sent 6,020 tokens.
    found = {"missCount": 1, "missedTokens": 5010, "missedCost": pytest.approx(5010 * (3 - 0.5) / 1e6)}
    assert stats["cacheMisses"] == {**found, "reasons": [{"reason": "model", **found}]}
    pi.close_stdin()
    assert pi.wait_exit() == 0
    again = agent(server, "--session", str(path), models=_models(server.base_url), has_session=True)
    assert again.ask("get_session_stats")["cacheMisses"] == stats["cacheMisses"]
