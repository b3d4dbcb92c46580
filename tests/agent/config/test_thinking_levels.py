"""Thinking levels of a model (R-MSG-04)."""

import pytest

from pinnace_agent.config.models.models import clamp_level, next_level, supported_levels
from pinnace_spec.records.messages import THINKING_LEVELS, Model, ThinkingLevel


def thinker(levels: dict[str, object] | None = None, reasoning: bool = True) -> Model:
    found: Model = {
        "id": "m",
        "name": "m",
        "api": "openai-completions",
        "provider": "p",
        "baseUrl": "",
        "reasoning": reasoning,
        "input": ["text"],
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        "contextWindow": 1,
        "maxTokens": 1,
    }
    if levels is not None:
        found["thinkingLevelMap"] = levels
    return found


ALL_NULL: dict[str, object] = dict.fromkeys(THINKING_LEVELS)


@pytest.mark.parametrize(
    ("model", "levels"),
    [
        (thinker(reasoning=False), "off"),
        (thinker({"high": "h"}, reasoning=False), "off"),
        (thinker(), "off minimal low medium high"),
        (thinker({"xhigh": "x"}), "off minimal low medium high xhigh"),
        (thinker({"max": "x", "xhigh": None}), "off minimal low medium high max"),
        (thinker({"off": None, "minimal": None}), "low medium high"),
        (thinker({"low": "l", "future": "x"}), "off minimal low medium high"),
        (thinker(ALL_NULL), "off"),
    ],
)
def test_a_model_has_these_levels(model: Model, levels: str) -> None:
    assert levels.split() == supported_levels(model)


@pytest.mark.parametrize(
    ("model", "wanted", "level"),
    [
        (thinker(), "medium", "medium"),
        (thinker(), "max", "high"),
        (thinker({"low": None}), "low", "medium"),
        (thinker({"off": None}), "off", "minimal"),
        (thinker({"high": None, "medium": None}), "medium", "low"),
        (thinker({"max": "x"}), "xhigh", "max"),
        (thinker(reasoning=False), "high", "off"),
        (thinker(ALL_NULL), "high", "off"),
    ],
)
def test_a_level_that_is_not_there_becomes_the_next_higher_else_the_next_lower(
    model: Model, wanted: ThinkingLevel, level: ThinkingLevel
) -> None:
    assert level == clamp_level(model, wanted)


def test_levels_go_round() -> None:
    model = thinker({"minimal": None})
    assert ["low", "medium", "high", "off"] == [next_level(model, one) for one in supported_levels(model)]


def test_a_level_that_the_model_does_not_have_is_followed_by_its_first() -> None:
    assert "off" == next_level(thinker(), "max")


def test_a_model_that_does_not_think_has_no_next_level() -> None:
    assert next_level(thinker(reasoning=False), "off") is None
