"""Thinking levels: which levels a model has, the nearest one to another, and the next one.

Pure. Source: R-MSG-04; levels have no effect on a model without reasoning.
"""

from typing import TypeGuard

from pinnace_spec.records.messages import THINKING_LEVELS, Model, ThinkingLevel

# These cost far more than the others, so a model has them only if its description says so.
_EXPLICIT_LEVELS = ("xhigh", "max")


def is_level(text: object) -> TypeGuard[ThinkingLevel]:
    """Return whether this is the name of a level."""
    return text in THINKING_LEVELS


def supported_levels(model: Model) -> list[ThinkingLevel]:
    """Return the levels that a model has, from least to most; never empty."""
    if not model["reasoning"]:
        return ["off"]
    named = model.get("thinkingLevelMap", {})

    def has(level: ThinkingLevel) -> bool:
        if level in named:
            return named[level] is not None
        return level not in _EXPLICIT_LEVELS

    return [level for level in THINKING_LEVELS if has(level)] or ["off"]


def clamp_level(model: Model, level: ThinkingLevel) -> ThinkingLevel:
    """Return the level itself if the model has it, else the nearest higher one, else the nearest lower."""
    supported = supported_levels(model)
    wanted = THINKING_LEVELS.index(level)
    for candidate in (*THINKING_LEVELS[wanted:], *THINKING_LEVELS[wanted::-1]):
        if candidate in supported:
            return candidate
    return "off"


def next_level(model: Model, level: ThinkingLevel) -> ThinkingLevel | None:
    """Return the level after this one, the first after the last, or None if there is only one."""
    supported = supported_levels(model)
    if len(supported) <= 1:
        return None
    index = supported.index(level) if level in supported else -1
    return supported[(index + 1) % len(supported)]
