"""Shrinks a failing case: removes the parts that the failure does not need.

Delta debugging over what the client does and over the model's lines; then records of one write. An intermittent failure
is tried more than once before a part counts as needed. Plays nothing itself.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pinnace_fuzz.judge.scenarios.fields import FieldError
from pinnace_fuzz.judge.scenarios.scenario import Scenario
from pinnace_fuzz.judge.scenarios.shapes import as_list, as_object

Fails = Callable[[Scenario], bool]
Source = Mapping[str, Any]


def shrink(scenario: Scenario, fails: Fails, make: Callable[[Source], Scenario], max_plays: int) -> Scenario:
    """Return the smallest case found that still fails.

    Args:
        scenario: What fails.
        fails: Plays a case and returns whether it fails in the same way.
        make: Makes a case of its source.
        max_plays: The maximal number of calls of `fails`; then the smallest so far is returned.
    """
    smallest = scenario
    plays = 0
    has_shrunk = True
    while has_shrunk and plays < max_plays:
        has_shrunk = False
        for source in smaller(smallest.source):
            if plays >= max_plays:
                break
            try:
                candidate = make(source)
            except FieldError:
                continue  # nothing is left to play
            plays += 1
            if fails(candidate):
                smallest, has_shrunk = candidate, True
                break
    return smallest


def smaller(source: Source) -> Iterator[Source]:
    """Yield cases with less in them, the much smaller ones first."""
    client: list[Any] = list(source["client"])
    for size in _sizes(len(client)):
        for at in range(0, len(client), size):
            if len(client) > size:
                yield {**source, "client": [*client[:at], *client[at + size :]]}
    for at, step in enumerate(client):
        for less in _less(step):
            yield {**source, "client": [*client[:at], less, *client[at + 1 :]]}
    llm: list[Any] = list(source.get("llm", ()))
    # The last line answers all further requests; without it the model server itself would fail.
    for at in range(len(llm) - 1):
        yield {**source, "llm": [*llm[:at], *llm[at + 1 :]]}


def _sizes(count: int) -> Iterator[int]:
    size = count // 2
    while size > 1:
        yield size
        size //= 2
    yield 1


def _less(step: Any) -> Iterator[Any]:
    fields = as_object(step) or {}
    records = as_list(fields.get("send")) or []
    if len(records) > 1:
        for at in range(len(records)):
            yield {**fields, "send": [*records[:at], *records[at + 1 :]]}


def size(scenario: Scenario) -> tuple[int, int, int]:
    """Measure a case: what the client sends, its steps, the model's lines."""
    return (scenario.sent, len(scenario.client), len(scenario.llm))
