"""What the observers say of reads and endings: nothing of good traces, the steps that prove it of bad ones."""

import json
from collections.abc import Callable

import pytest

from pinnace_campaigns.trials.short_trace import read_short
from pinnace_spec.observers import Report, edge

# Steps 1 to 6: a prompt, its answer, the run, the turn, the text; a whole run ends with step 14.
BEGUN = "> prompt a hi\n< ok a / agent_start / turn_start / user hi\n"
ENDED = "\n< turn_end / agent_end / settled\n"
WHOLE = BEGUN + "< says hello" + ENDED
STATE = "> get_state s\n< state s %s\n"
MESSAGES = "> get_messages m\n< messages m %s\n"
SHELL = '> bash b {"command": "ls"}\n< ok b {"output": "x", "cancelled": false, "truncated": false, "exitCode": 0}\n'
LISTED = '{"role": "bashExecution", "command": "ls", "output": "x", "timestamp": %d}'
ONE_SHELL = '{"messages": [' + LISTED % 1 + "]}"
TWO_SHELLS = '{"messages": [' + LISTED % 1 + ", " + LISTED % 2 + "]}"
STATS = (
    '> get_session_stats t\n< ok t {"sessionId": "s", "userMessages": %d, "assistantMessages": 1, '
    '"toolResults": 0, "toolCalls": 0, "tokens": {}}\n'
)
SUMMARY = '{"role": "compactionSummary", "summary": "in short"}'
COMPACTED = WHOLE + "< compact manual / compacted manual\n"  # to step 16
REFUSED = '> set_steering_mode r {"mode": "x"}\n< no r "mode must be all or one-at-a-time"\n'

GOOD: list[tuple[str, str, str]] = [
    (
        "idle, at work, idle",
        "I-STA-1",
        STATE % "" + BEGUN + STATE % '{"isStreaming": true}' + "< says x" + ENDED + STATE % "",
    ),
    (
        "as it was set",
        "I-STA-1",
        '> set_follow_up_mode f {"mode": "all"}\n< ok f\n' + STATE % '{"followUpMode": "all"}',
    ),
    (
        "named",
        "I-STA-1",
        '> set_session_name f {"name": " my  work "}\n< ok f\n' + STATE % '{"sessionName": "my work"}',
    ),
    (
        "compacting",
        "I-STA-1",
        "< compact manual\n" + STATE % '{"isCompacting": true}' + "< compacted manual\n" + STATE % "",
    ),
    (
        "a shell that was cancelled before it began",
        "I-STA-1",
        '> bash b {"command": "ls"}\n< ok b {"output": "", "cancelled": true, "truncated": false}\n'
        + WHOLE
        + STATE % '{"messageCount": 2}',
    ),
    (
        "a shell that ended while its session was left",
        "I-STA-1",
        WHOLE
        + '> bash b {"command": "ls"}\n> clone c\n'
        + '< ok b {"output": "x", "cancelled": false, "truncated": false}\n'
        + '< session_changed {"reason": "fork", "by": "client", "sessionId": "s"} / ok c {"cancelled": false}\n'
        + STATE % '{"messageCount": 2}',
    ),
    (
        "a shell that was summarised with the conversation around it",
        "I-STA-1",
        SHELL
        + BEGUN
        + "< says hello\n< turn_end / agent_end\n< compact threshold / compacted threshold / settled\n"
        + MESSAGES % f'{{"messages": [{SUMMARY}]}}'
        + STATE % '{"messageCount": 1}',
    ),
    (
        "an answer to abort_retry does not say that work is over",
        "I-STA-1",
        BEGUN
        + "< says hello\n< turn_end / agent_end\n> abort_retry r\n< ok r\n"
        + STATE % '{"isStreaming": true}'
        + "< settled\n"
        + STATE % "",
    ),
    (
        "two shells that said the same",
        "I-MSG-1",
        SHELL + MESSAGES % ONE_SHELL + SHELL + MESSAGES % TWO_SHELLS + MESSAGES % TWO_SHELLS,
    ),
    ("refused, and as before", "I-STA-2", STATE % "" + REFUSED + STATE % ""),
    ("what was reported", "I-MSG-1", WHOLE + MESSAGES % ""),
    (
        "with the result of a shell",
        "I-MSG-1",
        SHELL + MESSAGES % '{"messages": [{"role": "bashExecution", "command": "ls", "output": "x"}]}',
    ),
    ("a summary", "I-MSG-1", COMPACTED + MESSAGES % f'{{"messages": [{SUMMARY}]}}'),
    (
        "behind a summary a prompt that is being saved",
        "I-MSG-1",
        COMPACTED + "> prompt b next\n" + MESSAGES % f'{{"messages": [{SUMMARY}, {{"role": "user"}}]}}',
    ),
    (
        "of a new session",
        "I-MSG-1",
        WHOLE
        + '> new_session n\n< session_changed {"reason": "new", "by": "client"} / ok n {"cancelled": false}\n'
        + MESSAGES % '{"messages": []}',
    ),
    ("counted", "I-STAT-1", WHOLE + STATS % 1),
    ("closed", "I-EOF-1", WHOLE + "$ exit 0"),
    ("ended by a signal", "I-EOF-1", WHOLE + "$ exit 143"),
    ("nothing ended it", "I-CRASH", ">> nonsense\n< no parse bad\n$ exit 0"),
]

BAD: list[tuple[str, str, str, list[tuple[int, ...]]]] = [
    ("idle in a run", "I-STA-1", BEGUN + STATE % "", [(3, 8)]),
    ("at work for nothing", "I-STA-1", WHOLE + STATE % '{"isStreaming": true}', [(14, 16)]),
    ("not compacting in a compaction", "I-STA-1", "< compact manual\n" + STATE % "", [(1, 3)]),
    ("compacting nothing", "I-STA-1", STATE % '{"isCompacting": true}', [(2,)]),
    ("another mode than was set", "I-STA-1", '> set_steering_mode f {"mode": "all"}\n< ok f\n' + STATE % "", [(2, 4)]),
    ("a mode that changes by itself", "I-STA-1", STATE % "" + STATE % '{"steeringMode": "all"}', [(2, 4)]),
    ("another name", "I-STA-1", '< session_info_changed {"name": "x"}\n' + STATE % '{"sessionName": "y"}', [(1, 3)]),
    ("messages that nobody reported", "I-STA-1", WHOLE + STATE % '{"messageCount": 3}', [(11, 16)]),
    (
        "another count of what waits",
        "I-STA-1",
        BEGUN + "> steer b B\n< queue B | / ok b\n" + STATE % '{"isStreaming": true}',
        [(8, 11)],
    ),
    ("refused, and changed", "I-STA-2", STATE % "" + REFUSED + STATE % '{"steeringMode": "all"}', [(2, 3, 6)]),
    ("refused, and another level", "I-STA-2", STATE % "" + REFUSED + STATE % '{"thinkingLevel": "high"}', [(2, 3, 6)]),
    ("a message that lacks", "I-MSG-1", WHOLE + MESSAGES % '{"messages": []}', [(6, 16)]),
    ("another message", "I-MSG-1", WHOLE + MESSAGES % '{"messages": [{"role": "user", "content": "x"}]}', [(6, 16)]),
    (
        "without the second of two that said the same",
        "I-MSG-1",
        SHELL + MESSAGES % ONE_SHELL + SHELL + MESSAGES % ONE_SHELL,
        [(6, 8)],
    ),
    ("without the result of a shell", "I-MSG-1", SHELL + MESSAGES % '{"messages": []}', [(2, 4)]),
    ("without the summary", "I-MSG-1", COMPACTED + MESSAGES % "", [(16, 18)]),
    (
        "another summary",
        "I-MSG-1",
        COMPACTED + MESSAGES % '{"messages": [{"role": "compactionSummary", "summary": "x"}]}',
        [(16, 18)],
    ),
    (
        "behind a summary what was never reported",
        "I-MSG-1",
        COMPACTED + MESSAGES % f'{{"messages": [{SUMMARY}, {{"role": "user"}}]}}',
        [(16, 18)],
    ),
    (
        "behind a summary what was never reported, while a prompt is being saved",
        "I-MSG-1",
        COMPACTED + "> prompt b next\n" + MESSAGES % f'{{"messages": [{SUMMARY}, {{"role": "toolResult"}}]}}',
        [(16, 19)],
    ),
    (
        "of the former session",
        "I-MSG-1",
        WHOLE + '> new_session n\n< ok n {"cancelled": false}\n' + MESSAGES % "",
        [(18,)],
    ),
    ("another count of users", "I-STAT-1", WHOLE + STATS % 2, [(11, 16)]),
    (
        "another count after a new session",
        "I-STAT-1",
        WHOLE + '> new_session n\n< ok n {"cancelled": false}\n' + STATS % 0,
        [(18,)],
    ),
    ("open at the end", "I-EOF-1", BEGUN + "$ exit 0", [(4,), (3,)]),
    ("a tool open at the end", "I-EOF-1", BEGUN + "< calls c / tool c\n$ exit 0", [(9,), (4,), (3,)]),
    ("too late", "I-EOF-1", WHOLE + '$ exit 0 {"seconds": 9, "after": 14}', [(14,)]),
    ("never", "I-EOF-1", WHOLE + "$ hang", [()]),
    ("a crash", "I-CRASH", ">> null\n$ exit 1", [(1,)]),
    ("a signal of the machine's", "I-CRASH", "> get_state a\n$ exit -11", [(1,)]),
]


def test_a_crash_is_reported_with_the_line_that_names_the_error(judged: Callable[..., Report]) -> None:
    stderr = r"TypeError: no x\n    at f (file:1:2)\n\nNode.js v22"
    report = judged(f'>> null\n$ exit 1 {{"stderr": "{stderr}"}}')
    (verdict,) = [each for each in report.verdicts if each.invariant == "I-CRASH"]

    assert verdict.text.endswith('"TypeError: no x"')


RETRIED = (
    BEGUN + '< answer error / turn_end / agent_end {"willRetry": true} / retry 1 3\n@ 2\n'
    "< agent_start / turn_start / says hello / retry_end 1 ok" + ENDED
)


@pytest.mark.parametrize(
    ("speaks", "count", "is_right"), [("seed", 1, True), ("seed", 2, False), ("pi", 1, True), ("pi", 2, True)]
)
def test_a_failure_that_was_retried_may_be_counted_by_those_who_count_the_file(
    judged: Callable[..., Report], speaks: str, count: int, is_right: bool
) -> None:
    """It is no message of the context any more, as `get_messages` shows."""
    reported = [step.record for step in read_short(RETRIED).steps]
    ends = [edge.inner(each, "message") for each in reported if each and each.get("type") == "message_end"]
    context = [each for each in ends if each.get("stopReason") != "error"]
    assert len(context) == len(ends) - 1
    stats = (STATS % 1).replace('"assistantMessages": 1', f'"assistantMessages": {count}')
    report = judged(RETRIED + MESSAGES % json.dumps({"messages": context}) + stats, speaks)

    assert [] == [each for each in report.verdicts if each.invariant == "I-MSG-1"]
    assert is_right == (not [each for each in report.verdicts if each.invariant == "I-STAT-1"])
