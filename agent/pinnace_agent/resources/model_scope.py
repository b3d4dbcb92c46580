"""The scope: the models between which a client cycles, when `--models` or `enabledModels` narrows them.

Pure.
"""

from collections.abc import Sequence
from fnmatch import translate
from re import IGNORECASE
from re import compile as compile_pattern
from typing import NamedTuple

from pinnace_agent.resources.model_patterns import find, find_exact, full_name, split_level
from pinnace_spec.messages import THINKING_LEVELS, Model, ThinkingLevel


class ScopedModel(NamedTuple):
    """One model of the scope."""

    model: Model
    level: ThinkingLevel | None
    """The level that comes with it; None: the session's."""


class Scope(NamedTuple):
    """The models of all patterns, in the order of the patterns."""

    models: tuple[ScopedModel, ...] = ()
    warnings: tuple[str, ...] = ()


def resolve_scope(patterns: Sequence[str], available: Sequence[Model]) -> Scope:
    """Find the models that patterns name; a pattern that names none is told and passed over."""
    chosen: dict[tuple[str, str], ScopedModel] = {}
    warnings: list[str] = []
    for pattern in (part.strip() for part in patterns):
        if not pattern:
            continue
        found, level = _match(pattern, available, warnings)
        if not found:
            warnings.append(f'No available model matches "{pattern}".')
        for model in found:
            chosen.setdefault((model["provider"], model["id"]), ScopedModel(model, level))
    return Scope(tuple(chosen.values()), tuple(warnings))


def _match(
    pattern: str, available: Sequence[Model], warnings: list[str]
) -> tuple[Sequence[Model], ThinkingLevel | None]:
    if found := find_exact(pattern, available):
        return found, None
    rest, level = split_level(pattern)
    if any(letter in rest for letter in "*?["):
        glob = compile_pattern(translate(rest), IGNORECASE)
        hits = [model for model in available if glob.match(full_name(model)) or glob.match(model["id"])]
        return hits, level
    if (match := find(pattern, available)) is not None:
        return match.models, match.level
    before, colon, after = pattern.rpartition(":")
    if colon and before and (match := find(before, available)) is not None:
        warnings.append(f'"{after}" in "{pattern}" is no thinking level ({", ".join(THINKING_LEVELS)}).')
        return match.models, None
    return (), None


def next_model(
    candidates: Sequence[ScopedModel], current: Model | None, *, backwards: bool = False
) -> ScopedModel | None:
    """Return the candidate after the current model, the first after the last, or None if there is no other.

    A current model that is no candidate counts as the first.
    """
    if len(candidates) <= 1:
        return None
    index = 0
    if current is not None:
        names = [full_name(candidate.model) for candidate in candidates]
        index = names.index(full_name(current)) if full_name(current) in names else 0
    return candidates[(index + (-1 if backwards else 1)) % len(candidates)]
