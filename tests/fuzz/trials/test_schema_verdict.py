"""The judge by schema: what it says, of which alternative, and that a shape is judged once."""

from typing import Any

from pinnace_fuzz.trials.record_shapes import Sieve, live_problems
from pinnace_fuzz.trials.schema_verdict import SchemaVerdict
from pinnace_spec.generate.schema import bundles

# The edge of JSON.
Json = Any

USAGE: Json = {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 3}
USAGE |= {"cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}}
ANSWER: Json = {"role": "assistant", "content": [{"type": "text", "text": "x"}], "api": "a", "provider": "p"}
ANSWER |= {"model": "m", "usage": USAGE, "stopReason": "stop", "timestamp": 1}
END: Json = {"type": "message_end", "message": ANSWER}
SETTLED: Json = {"type": "agent_settled", "aborted": False}


def verdict() -> SchemaVerdict:
    return SchemaVerdict(bundles.bundle("pi"))


def test_a_valid_record_has_no_problem() -> None:
    assert [] == verdict().output_problems(END)


def test_a_problem_names_its_place() -> None:
    record = {**END, "message": {**ANSWER, "content": [{"type": "text", "text": 5}]}}

    assert ["message.content[0].text: 5 is not of type 'string'"] == verdict().output_problems(record)


def test_of_the_alternatives_only_the_one_that_was_meant_is_named() -> None:
    record = {**END, "message": {**ANSWER, "timestamp": "soon"}}

    assert ["message.timestamp: 'soon' is not of type 'integer'"] == verdict().output_problems(record)


def test_a_field_that_is_not_described_is_a_problem_of_ours_and_of_no_other() -> None:
    record = {**SETTLED, "mood": "good"}

    assert ["record: Additional properties are not allowed ('mood' was unexpected)"] == verdict().output_problems(
        record
    )
    assert [] == SchemaVerdict(bundles.foreign_bundle("1.5")).output_problems(record)


def test_what_no_definition_fits_is_said() -> None:
    assert ["no record of this bundle: type 'news', command None"] == verdict().output_problems({"type": "news"})
    assert ["no command of this bundle: 'sing'"] == verdict().command_problems({"type": "sing"})
    assert ["no record of this bundle: type [1], command None"] == verdict().output_problems({"type": [1]})


def test_an_answer_is_judged_by_its_command() -> None:
    answer = {"type": "response", "command": "get_tree", "success": True, "data": {"tree": [], "leafId": None}}

    assert [] == verdict().output_problems(answer)
    assert ["no record of this bundle: type 'response', command 'parse'"] == verdict().output_problems(
        {**answer, "command": "parse"}
    )


def test_a_shape_is_judged_once() -> None:
    sieve = Sieve(bundles.bundle("pi"))

    assert sieve.problems({"type": "agent_settled"})
    assert [] == sieve.problems({"type": "agent_settled"})
    assert [] == sieve.problems(SETTLED)


def test_what_makes_a_difference_to_a_schema_makes_another_shape() -> None:
    sieve = Sieve(bundles.bundle("pi"))
    sieve.problems(SETTLED)
    sieve.problems(END)
    wrong: list[Json] = [
        {**SETTLED, "aborted": 0},
        {**SETTLED, "aborted": None},
        {**SETTLED, "more": 1},
        {**END, "message": {**ANSWER, "stopReason": "bored"}},
        {**END, "message": {**ANSWER, "timestamp": 1.5}},
        {**END, "message": {**ANSWER, "content": [*ANSWER["content"], {"type": "video"}]}},
    ]

    assert [] == [each for each in wrong if not sieve.problems(each)]


def test_what_makes_no_difference_is_the_same_shape() -> None:
    sieve = Sieve(bundles.bundle("pi"))
    call = {"type": "tool_execution_start", "toolCallId": "1", "toolName": "bash", "args": {"command": "ls"}, "bad": 1}

    assert sieve.problems(call)
    assert [] == sieve.problems({**call, "toolCallId": "2", "args": {"path": "x", "lines": [1]}})


def test_a_live_record_is_judged_by_the_models_of_the_moment() -> None:
    """Another shape than any test has: what is judged once is not judged here again."""
    assert ["record: Additional properties are not allowed ('unheard' was unexpected)"] == live_problems(
        {**SETTLED, "unheard": 1}, "1.5"
    )
