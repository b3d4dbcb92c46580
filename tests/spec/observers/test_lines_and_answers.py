"""What the observers say of lines and responses: nothing of good traces, the steps that prove it of bad ones."""

from collections.abc import Callable

import pytest

from pinnace_spec.observers import End, Report, judge
from pinnace_spec.observers.trace_file import step_of
from pinnace_spec.profiles.generations import generation

LONG_ID = "i" * 300

# Name, the invariant that is armed, the trace.
GOOD: list[tuple[str, str, str]] = [
    ("a record a line", "I-FRM-1", "< agent_start / agent_end"),
    ("records alone", "I-FRM-2", "< agent_start / agent_end"),
    (
        "delicate ids",
        "I-FRM-5",
        """
        > get_commands "a\u2028b"
        << {"type":"response","command":"get_commands","id":"a\\u2028b","success":true,"data":{"commands":[]}}
        """,
    ),
    (
        "a delicate name",
        "I-FRM-5",
        """
        > set_session_name a {"name": "x\\ud800y"}
        < ok a
        > get_state b
        < state b {"sessionName": "x\\ud800y"}
        """,
    ),
    ("alive", "I-FRM-6", "> get_state a\n@ 4\n< state a"),
    ("answered once", "I-RSP-1", "> prompt a hi\n> prompt b ho\n< no b busy\n< no a no\n$ exit 0"),
    (
        "answered without ids",
        "I-RSP-1",
        "> abort_retry -\n> abort_retry -\n< ok abort_retry / ok abort_retry\n$ exit 0",
    ),
    (
        "a line over a limit of the agent",
        "I-RSP-2",
        '>> {"type":"get_state","x":' + "[" * 600 + "]" * 600 + "}\n>> {}\n< no parse deep / no unknown what",
    ),
    ("the shape of an error", "I-RSP-2", ">> nonsense\n< no parse bad\n> bogus a\n< no a unknown"),
    ("an answer to a dialog", "I-RSP-3", '> extension_ui_response a {"value": 1}\n> abort_retry b\n< ok b'),
    ("its command before it", "I-RSP-4", "> abort_retry a\n< ok a"),
    ("a long id that is not echoed", "I-RSP-4", f"> get_commands {LONG_ID}\n< no get_commands long\n$ exit 0"),
    (
        "a refused read behind a delicate name",
        "I-FRM-5",
        """
        > set_session_name a {"name": "x\\ud800y"}
        < ok a
        > get_state "b\u2028c"
        < no "b\u2028c" busy
        """,
    ),
    ("no text yet", "I-RSP-2", '> get_last_assistant_text a\n< ok a {"text": null}'),
    ("a mode that is one", "I-RSP-2", '> set_follow_up_mode a {"mode": "all"}\n< ok a'),
    ("an error for people", "I-RSP-5", '> bogus a\n< no a "Unknown command: bogus"'),
]

# Name, the invariant that is broken, the trace, the steps of each of its verdicts.
BAD: list[tuple[str, str, str, list[tuple[int, ...]]]] = [
    ("bytes that are no text", "I-FRM-1", '<< {"type":"x","y":"\udcff"}', [(1,)]),
    ("a separator that some split at", "I-FRM-1", '<< {"type":"x","y":"\u2028"}', [(1,)]),
    ("a last line without LF", "I-FRM-1", '< agent_start\n$ exit 0 {"rest": "{"}', [()]),
    ("a word of a library", "I-FRM-2", "<< warning: deprecated\n< agent_start", [(1,)]),
    ("no object", "I-FRM-2", "< agent_start\n<< [1]", [(2,)]),
    ("no number", "I-FRM-2", '<< {"type":"x","y":NaN}', [(1,)]),
    (
        "an id that lost a character",
        "I-FRM-5",
        (
            '> get_commands "a\u2028b"\n<< {"type":"response","command":"get_commands","id":"a '
            'b","success":true,"data":{}}'
        ),
        [(1, 2)],
    ),
    (
        "a name that lost a character",
        "I-FRM-5",
        """
        > set_session_name a {"name": "x\\ud800y"}
        < ok a
        > get_state b
        < state b {"sessionName": "x?y"}
        """,
        [(1, 4)],
    ),
    ("answered late", "I-FRM-6", "> get_state a\n@ 6\n< state a", [(1, 2)]),
    ("never answered", "I-FRM-6", "> get_state a\n$ hang", [(1,)]),
    ("answered twice", "I-RSP-1", "> prompt a hi\n< ok a\n< no a late", [(1, 2, 3)]),
    ("not answered at the end", "I-RSP-1", '> bash a {"command": "x"}\n$ exit 0', [(1,)]),
    ("forgotten", "I-RSP-1", "> abort_retry a\n> abort_retry b\n< ok b\n$ exit 0", [(1,)]),
    ("without command", "I-RSP-2", '> bogus a\n<< {"type":"response","id":"a","success":false,"error":"x"}', [(1, 2)]),
    (
        "an error of a success",
        "I-RSP-2",
        '> abort_retry a\n<< {"type":"response","id":"a","command":"abort_retry","success":true,"error":"x"}',
        [(1, 2)],
    ),
    (
        "another command",
        "I-RSP-2",
        '> abort_retry a\n<< {"type":"response","id":"a","command":"abort","success":true}',
        [(1, 2)],
    ),
    ("a line that is none, taken", "I-RSP-2", ">> nonsense\n< ok parse", [(1, 2)]),
    ("without what it is about", "I-RSP-2", "> get_messages a\n< ok a", [(1, 2)]),
    ("a mode that is none", "I-RSP-2", '> get_state a\n< state a {"steeringMode": "bogus"}', [(1, 2)]),
    ("an answer to the answer to a request", "I-RSP-3", "> client_response a\n< ok client_response", [(1, 2)]),
    ("an answer to an answer", "I-RSP-3", "> extension_ui_response a\n< ok extension_ui_response", [(1, 2)]),
    ("an answer to an answer, with its id", "I-RSP-3", "> extension_ui_response a\n< ok a", [(1, 2)]),
    ("a text left out", "I-RSP-2", "> get_last_assistant_text a\n< ok a {}", [(1, 2)]),
    ("a mode that is none", "I-RSP-2", '> set_steering_mode a {"mode": "x"}\n< ok a', [(1, 2)]),
    ("no mode at all", "I-RSP-2", "> set_follow_up_mode a\n< ok a", [(1, 2)]),
    ("neither true nor false", "I-RSP-2", '> set_auto_compaction a {"enabled": 1}\n< ok a', [(1, 2)]),
    ("before its command", "I-RSP-4", "< ok abort_retry\n> abort_retry -", [(1,)]),
    ("of nobody", "I-RSP-4", "> abort_retry a\n< ok a\n< ok get_state", [(3,)]),
    (
        "a runtime's error",
        "I-RSP-5",
        "> bogus a\n< no a \"Cannot read properties of undefined (reading 'x')\"",
        [(1, 2)],
    ),
    ("a traceback", "I-RSP-5", '> bogus a\n< no a "Traceback (most recent call last): KeyError"', [(1, 2)]),
]


def test_an_id_may_come_back_as_another_notation_of_its_number(judged: Callable[..., Report]) -> None:
    line, answer = '{"id":-0.0,"type":"abort_bash"}', '{"id":0,"type":"response","command":"abort_bash","success":true}'

    assert () == judged(f">> {line}\n<< {answer}\n$ exit 0").verdicts


# Lines that this judge can't read and an agent may: nobody has sent nothing, whatever else is wrong.
MISREAD = [
    (
        "an id",
        '{"id":"\udcff","type":"abort_bash"}',
        '"id":"\ufffd","command":"abort_bash","success":true',
        "R-FRM-05",
    ),
    ("a type", '{"type":"\udcff"}', '"command":"\ufffd","success":false,"error":"Unknown command"', "R-FRM-05"),
    ("a number", '{"id":"v","type":1e400}', '"id":"v","success":false,"error":"Unknown command: Infinity"', "R-ERR-01"),
]


@pytest.mark.parametrize(("line", "answer", "rule"), [row[1:] for row in MISREAD], ids=[row[0] for row in MISREAD])
def test_a_line_that_is_read_leniently_is_no_answer_without_a_command(
    line: str, answer: str, rule: str, judged: Callable[..., Report]
) -> None:
    report = judged(f'>> {line}\n<< {{"type":"response",{answer}}}\n$ exit 0', "0.87")

    assert [("I-RSP-2", (rule,), "nonstrict")] == [(each.invariant, each.rules, each.level) for each in report.verdicts]


REFUSED = '{"type":"response","command":"parse","success":false,"error":"no JSON"}'


@pytest.mark.parametrize("answers", [[], [REFUSED]], ids=["ignored", "refused"])
@pytest.mark.parametrize("line", ["\u00a0", "\u2003\u3000"])
def test_a_wider_blank_may_be_ignored_or_refused(line: str, answers: list[str]) -> None:
    # The short form has no such line.
    steps = [step_of(1, "in", line), *(step_of(2, "out", answer) for answer in answers)]

    assert () == judge(steps, End("exit", 0), generation("pi")).verdicts


def test_what_is_blank_for_everybody_is_not_answered() -> None:
    steps = [step_of(1, "in", " \t"), step_of(2, "out", REFUSED)]

    (verdict,) = judge(steps, End("exit", 0), generation("0.87")).verdicts

    assert ("I-RSP-4", ("R-FRM-04",), (1, 2), "nonstrict") == (
        verdict.invariant,
        verdict.rules,
        verdict.steps,
        verdict.level,
    )


def test_a_deep_id_that_comes_back_is_a_record_though_this_judge_can_not_read_it() -> None:
    deep = "[" * 3000 + "]" * 3000
    answer = f'{{"id":{deep},"type":"response","command":"get_commands","success":true,"data":{{"commands":[]}}}}'
    steps = [step_of(1, "in", f'{{"id":{deep},"type":"get_commands"}}'), step_of(2, "out", answer)]

    assert () == judge(steps, End("exit", 0), generation("0.87")).verdicts


@pytest.mark.parametrize(
    "text",
    [
        '>> {"id": "v", "type": "bogus", "more": 1e400}\n> get_state v\n'
        '<< {"id": "v", "type": "response", "command": "bogus", "success": false, "error": "Unknown command: bogus"}\n'
        "< state v",
        '>> {"id": "v", "type": "abort_retry", "more": 1e400}\n>> nonsense\n'
        '<< {"type": "response", "command": "parse", "success": false, "error": "Failed to parse command: none"}\n'
        '<< {"id": "v", "type": "response", "command": "abort_retry", "success": true}',
        '>> \n>> {"id": "v", "type": "abort_retry", "more": 1e400}\n> bogus v\n'
        '<< {"type": "response", "command": "parse", "success": false, "error": "Failed to parse command: none"}\n'
        '<< {"id": "v", "type": "response", "command": "abort_retry", "success": true}\n'
        '<< {"id": "v", "type": "response", "command": "bogus", "success": false, "error": "Unknown command: bogus"}',
    ],
    ids=["the same id again", "nonsense behind it", "a blank line before it"],
)
def test_an_agent_that_reads_a_number_others_can_t_has_no_other_finding(
    text: str, judged: Callable[..., Report]
) -> None:
    verdicts = judged(text, "0.87").verdicts

    assert [("I-RSP-2", "nonstrict")] == [(each.invariant, each.level) for each in verdicts]
