"""Cycling through models and levels, over real pipes."""

from pinnace_fuzz.trials.workbench import AgentStarter


def test_cycling_stays_in_the_scope_and_takes_its_levels(agent: AgentStarter) -> None:
    """A pattern's level comes with its model; a model without thinking has none."""
    pi = agent([], "--models", "m2:high,m1")
    first = pi.request({"type": "cycle_model"})["data"]
    second = pi.request({"type": "cycle_model"})["data"]

    assert ("m2", "high", True) == (first["model"]["id"], first["thinkingLevel"], first["isScoped"])
    assert ("m1", "off", True) == (second["model"]["id"], second["thinkingLevel"], second["isScoped"])


def test_cycling_without_a_scope_goes_through_all_models_and_keeps_the_level_that_was_asked_for(
    agent: AgentStarter,
) -> None:
    """R-SET-03, deviation D-18: the level survives a model that can't have it."""
    pi = agent([])
    pi.request({"type": "set_thinking_level", "level": "low"})
    cycled = [pi.request({"type": "cycle_model"})["data"] for _ in range(2)]

    assert [("m2", "low"), ("m1", "off")] == [(each["model"]["id"], each["thinkingLevel"]) for each in cycled]
    assert [False, False] == [each["isScoped"] for each in cycled]


def test_levels_cycle_through_those_of_the_model_and_null_without_any(agent: AgentStarter) -> None:
    """R-SET-03: `null` says that there is nothing to choose."""
    pi = agent([])
    without = pi.request({"type": "cycle_thinking_level"})
    pi.request({"type": "set_model", "provider": "fake", "modelId": "m2"})
    pi.request({"type": "set_thinking_level", "level": "off"})
    levels = [pi.request({"type": "cycle_thinking_level"})["data"]["level"] for _ in range(5)]

    assert without["data"] is None
    assert ["minimal", "low", "medium", "high", "off"] == levels
