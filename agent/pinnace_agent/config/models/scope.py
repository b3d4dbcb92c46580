"""The scope: the models between which a client cycles, when `--models` or `enabledModels` narrows them.

Pure.
"""

from collections.abc import Sequence
from typing import NamedTuple

from pinnace_agent.config.models.patterns import find, find_exact, full_name, split_level
from pinnace_spec.records.messages import THINKING_LEVELS, Model, ThinkingLevel


class ScopedModel(NamedTuple):
    """A model that a pattern of the scope names, and the thinking level of that pattern."""

    model: Model
    level: ThinkingLevel | None
    """The level that comes with it; None: the session's."""


class Scope(NamedTuple):
    """The models of all patterns, in the order of the patterns."""

    models: tuple[ScopedModel, ...] = ()
    warnings: tuple[str, ...] = ()


def resolve_scope(patterns: Sequence[str], available: Sequence[Model]) -> Scope:
    """Find the models that patterns name; a pattern without a match is reported as a warning."""
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
        return _match_glob(rest, available), level
    if (match := find(pattern, available)) is not None:
        return match.models, match.level
    before, colon, after = pattern.rpartition(":")
    if colon and before and (match := find(before, available)) is not None:
        warnings.append(f'"{after}" in "{pattern}" is no thinking level ({", ".join(THINKING_LEVELS)}).')
        return match.models, None
    return (), None


def _match_glob(pattern: str, available: Sequence[Model]) -> list[Model]:
    """Return the models whose id or full name matches the pattern; `*` does not match a slash, `**` does."""
    from pinnace_agent.search.glob_match import BadGlob, Glob

    try:
        # Absolute, or it would match the ends of names too.
        glob = Glob(f"/{pattern.lower()}")
    except BadGlob:
        return []
    return [
        model
        for model in available
        if any(glob.matches(f"/{name.lower()}") for name in (full_name(model), model["id"]))
    ]


def next_model(
    candidates: Sequence[ScopedModel], current: Model | None, *, backwards: bool = False
) -> ScopedModel | None:
    """Return the candidate after the current model, the first after the last, or None if there is no other.

    After a current model that is no candidate comes the first; backwards, the last.
    """
    if len(candidates) <= 1:
        return None
    # Not by their full names: `a/b` with `c` and `a` with `b/c` have the same.
    names = [(candidate.model["provider"], candidate.model["id"]) for candidate in candidates]
    name = None if current is None else (current["provider"], current["id"])
    if name not in names:
        return candidates[-1 if backwards else 0]
    return candidates[(names.index(name) + (-1 if backwards else 1)) % len(candidates)]
