"""What the observers say of lines and responses: nothing of good traces, the steps that prove it of bad ones."""

from collections.abc import Callable, Sequence

import pytest

from pinnace_spec.observers import Report

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
    ("an answer to an answer", "I-RSP-3", "> extension_ui_response a\n< ok extension_ui_response", [(1, 2)]),
    ("an answer to an answer, with its id", "I-RSP-3", "> extension_ui_response a\n< ok a", [(1, 2)]),
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


@pytest.mark.parametrize(("invariant", "text"), [row[1:] for row in GOOD], ids=[row[0] for row in GOOD])
def test_nothing_is_said_of_a_good_trace(invariant: str, text: str, judged: Callable[..., Report]) -> None:
    report = judged(text)

    assert () == report.verdicts
    assert report.armed[invariant] > 0


@pytest.mark.parametrize(("invariant", "text", "steps"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_a_bad_trace_is_told_with_the_steps_that_prove_it(
    invariant: str,
    text: str,
    steps: list[tuple[int, ...]],
    judged: Callable[..., Report],
    cited: Callable[[Report, str], Sequence[tuple[int, ...]]],
) -> None:
    assert steps == cited(judged(text), invariant)
