"""What the observers say of queues and aborts: nothing of good traces, the steps that prove it of bad ones."""

from collections.abc import Callable

import pytest

from pinnace_spec.observers import Report

# Steps 1 to 6: a prompt, its answer, the run, the turn, the text.
BEGUN = "> prompt a hi\n< ok a / agent_start / turn_start / user hi\n"
ENDED = "\n< turn_end / agent_end / settled\n"
# Steps 7 to 12: two texts that steer, each shown and accepted.
TWO = "> steer b B\n< queue B | / ok b\n> steer c C\n< queue B C | / ok c\n"
FOLLOW = "> follow_up f F\n< queue | F / ok f\n"  # three steps
KNOWN = "> get_state s\n< state s\n"  # two steps
ABORT = "> abort x\n< answer aborted" + ENDED + "< ok x\n"

# Who answers a second prompt before it is busy.
TOGETHER = '> prompt a A\n> prompt b B {"streamingBehavior": "steer"}\n< ok a / ok b / agent_start'

GOOD: list[tuple[str, str, str]] = [
    (
        "shown and counted",
        "I-QUE-1",
        BEGUN + TWO + '> get_state s\n< state s {"pendingMessageCount": 2, "isStreaming": true}\n',
    ),
    (
        "each delivered once",
        "I-QUE-2",
        BEGUN
        + TWO
        + (
            "< says x / turn_end / turn_start / queue C | / user B / says y / turn_end / turn_start / queue | "
            "/ user C / says z"
        )
        + ENDED
        + "$ exit 0",
    ),
    (
        "returned",
        "I-QUE-2",
        BEGUN
        + TWO
        + '> clear_queue d\n< queue | / ok d {"steering": ["B", "C"], "followUp": []} / says x'
        + ENDED
        + "$ exit 0",
    ),
    (
        "handed back at the end",
        "I-QUE-2",
        BEGUN + TWO + '< answer aborted / turn_end / agent_end / settled / queue | \n$ exit 0 {"after": 12}',
    ),
    (
        "in another wording",
        "I-QUE-2",
        '> prompt a "/skill:x y"\n< ok a / agent_start / turn_start / user "the skill" / says x' + ENDED + "$ exit 0",
    ),
    (
        "in order, one a turn",
        "I-QUE-3",
        KNOWN
        + BEGUN
        + TWO
        + (
            "< says x / turn_end / turn_start / queue C | / user B / says y / turn_end / turn_start / queue | "
            "/ user C / says z"
        )
        + ENDED,
    ),
    (
        "all at once",
        "I-QUE-3",
        KNOWN.replace("state s\n", "state s\n", 1).replace("< state s", '< state s {"steeringMode": "all"}')
        + BEGUN
        + TWO
        + "< says x / turn_end / turn_start / queue C | / user B / queue | / user C / says z"
        + ENDED,
    ),
    (
        "a follow-up where the run would stop",
        "I-QUE-4",
        BEGUN + FOLLOW + "< says x / turn_end / turn_start / queue | / user F / says y" + ENDED,
    ),
    (
        "nothing left",
        "I-QUE-5",
        BEGUN + FOLLOW + "< says x / turn_end / turn_start / queue | / user F / says y" + ENDED,
    ),
    ("held by an abort", "I-QUE-5", BEGUN + TWO + ABORT + '> get_state s\n< state s {"pendingMessageCount": 2}\n'),
    ("closed and quiet", "I-ABT-1", BEGUN + ABORT),
    (
        "new work behind it",
        "I-ABT-1",
        BEGUN
        + TWO
        + ABORT
        + (
            "> prompt p new\n< ok p / agent_start / turn_start / user new / queue C | / user B / says y / "
            "turn_end / turn_start / queue | / user C / says z"
        )
        + ENDED,
    ),
    (
        "an abort that goes on",
        "I-ABT-1",
        BEGUN
        + FOLLOW
        + (
            '> abort x {"queue": "continue"}\n< answer aborted / turn_end / agent_end / ok x / agent_start / '
            "turn_start / queue | / user F / says y"
        )
        + ENDED,
    ),
]

BAD: list[tuple[str, str, str, list[tuple[int, ...]]]] = [
    ("a text that no client sent is queued", "I-QUE-1", BEGUN + "< queue B |", [(7,)]),
    ("queued in another order", "I-QUE-1", BEGUN + TWO + "< queue C B |", [(7, 8, 13)]),
    (
        "one that was in the midst is gone",
        "I-QUE-1",
        BEGUN + TWO + "> steer d D\n< queue B C D | / ok d / queue B D |",
        [(7, 8, 16), (13, 14, 16)],
    ),
    (
        "another count",
        "I-QUE-1",
        BEGUN + TWO + '> get_state s\n< state s {"pendingMessageCount": 1, "isStreaming": true}\n',
        [(11, 14)],
    ),
    ("no list", "I-QUE-1", '< queue_update {"steering": "x", "followUp": []}', [(1,)]),
    (
        "delivered twice",
        "I-QUE-2",
        BEGUN + TWO + "< says x / turn_end / turn_start / queue C | / user B / says y / turn_end / turn_start / user B",
        [(7, 9, 21, 30)],
    ),
    ("delivered without a request", "I-QUE-2", BEGUN + "< says x / turn_end / turn_start / user B", [(14,)]),
    (
        "accepted, and no run",
        "I-QUE-2",
        BEGUN.replace("< ok a", "> prompt b ho\n< ok a / ok b") + "< says x" + ENDED + "$ exit 0",
        [(2, 4, 16)],
    ),
    ("lost from its queue", "I-QUE-2", BEGUN + FOLLOW + "< queue | / says x" + ENDED + "$ exit 0", [(7, 9, 18)]),
    ("never queued", "I-QUE-2", BEGUN + "> steer b B\n< ok b / says x" + ENDED + "$ exit 0", [(7, 8)]),
    (
        "given back and delivered",
        "I-QUE-2",
        BEGUN
        + FOLLOW
        + (
            '> clear_queue d\n< queue | / ok d {"steering": [], "followUp": ["F"]} / says x / turn_end / '
            "turn_start / user F"
        ),
        [(7, 9, 12, 20)],
    ),
    (
        "refused after it was delivered",
        "I-QUE-2",
        "> prompt a hi\n< agent_start / turn_start / user hi / no a late",
        [(1, 4, 6)],
    ),
    (
        "gone with its session",
        "I-QUE-2",
        BEGUN
        + TWO
        + '> new_session n\n< answer aborted / turn_end / agent_end / settled / ok n {"cancelled": false}\n$ exit 0',
        [(7, 9, 19), (10, 12, 19)],
    ),
    ("the second one first", "I-QUE-3", BEGUN + TWO + "< says x / turn_end / turn_start / user C", [(7, 10, 20)]),
    (
        "two in a turn",
        "I-QUE-3",
        KNOWN + BEGUN + TWO + "< says x / turn_end / turn_start / queue C | / user B / queue | / user C / says z",
        [(23, 26)],
    ),
    (
        "not all of them",
        "I-QUE-3",
        KNOWN.replace("< state s", '< state s {"steeringMode": "all"}')
        + BEGUN
        + TWO
        + "< says x / turn_end / turn_start / queue C | / user B / says z",
        [(21, 23, 25)],
    ),
    (
        "a follow-up before what steers",
        "I-QUE-3",
        BEGUN
        + (
            "> follow_up f F\n< queue | F / ok f\n> steer b B\n< queue B | F / ok b / says x / turn_end / "
            "turn_start / user F / says y"
        ),
        [(11, 20)],
    ),
    ("a text behind the answer", "I-QUE-4", BEGUN + TWO + "< says x / user B", [(13, 18)]),
    ("a text outside of a run", "I-QUE-4", BEGUN + TWO + "< says x" + ENDED + "< user B", [(13, 21)]),
    (
        "a follow-up behind tools",
        "I-QUE-4",
        BEGUN + FOLLOW + "< calls c1 / tool c1 / tool_end c1 / result c1 / turn_end / turn_start / user F",
        [(16, 18)],
    ),
    ("left behind", "I-QUE-5", BEGUN + FOLLOW + "< says x" + ENDED + "> get_state s", [(8, 17)]),
    (
        "left behind while idle",
        "I-QUE-5",
        '> steer b B\n< queue B | / ok b\n> get_state s\n< state s {"pendingMessageCount": 1}',
        [(2, 5)],
    ),
    (
        "left behind by the next text",
        "I-QUE-5",
        BEGUN
        + TWO
        + ABORT
        + "> prompt p new\n< ok p / agent_start / turn_start / user new / says y"
        + ENDED
        + "> get_state s",
        [(11, 33)],
    ),
    ("answered in the midst", "I-ABT-1", BEGUN + "> abort x\n< ok x", [(4, 7, 8)]),
    (
        "a run behind it",
        "I-ABT-1",
        BEGUN + FOLLOW + ABORT + "< agent_start / turn_start / queue | / user F",
        [(10, 16, 17)],
    ),
    (
        "a turn to say so",
        "I-ABT-1",
        BEGUN
        + (
            '< calls c1 / tool c1\n> abort x\n< tool_end c1 {"isError": true} / result c1 {"isError": true, '
            '"content": [{"type": "text", "text": "Command aborted"}]} / turn_end / turn_start / answer aborted'
        ),
        [(14, 15, 17)],
    ),
    (
        "called an error",
        "I-ABT-1",
        BEGUN + '> abort x\n< answer error {"errorMessage": "This operation was aborted"}',
        [(7, 9)],
    ),
]


LOST = [
    ("that was to steer", TOGETHER + " / turn_start / user A / says x" + ENDED + "$ exit 0", ("R-PRM-02",)),
    ("and nothing works", "> prompt a A\n< ok a\n@ 1.5\n> get_state s\n< state s\n$ exit 0", ("R-PRM-02",)),
    ("as stdin ends", "> prompt a A\n< ok a\n@ 0.5\n> get_state s\n< state s\n$ exit 0", ("R-EOF-01",)),
]


@pytest.mark.parametrize(("text", "rules"), [row[1:] for row in LOST], ids=[row[0] for row in LOST])
def test_a_prompt_that_is_lost_is_reported_with_the_rule(
    text: str, rules: tuple[str, ...], judged: Callable[..., Report]
) -> None:
    assert rules in [each.rules for each in judged(text, "0.87").verdicts if each.invariant == "I-QUE-2"]


def test_a_text_is_not_lost_by_who_settles_inside_of_its_run(judged: Callable[..., Report]) -> None:
    text = "> prompt a A\n< ok a / agent_start / settled / turn_start / user A / says x" + ENDED + "$ exit 0"

    assert "I-QUE-2" not in [each.invariant for each in judged(text, "0.87").verdicts]


def test_a_message_whose_return_could_not_be_saved_is_queued_again(judged: Callable[..., Report]) -> None:
    """R-QUE-12: it left the queue for the time of the try, and is not lost."""
    again = "> clear_queue d\n< queue | / queue B C | / no d full / says x" + ENDED + "$ exit 0"

    assert not [each for each in judged(BEGUN + TWO + again).verdicts if each.invariant == "I-QUE-2"]


@pytest.mark.parametrize("is_fresh", [False, True], ids=["opened", "new"])
def test_a_repetition_that_can_not_be_confirmed_leaves_its_message_delivered(
    judged: Callable[..., Report], is_fresh: bool
) -> None:
    """R-QUE-14: only where a former process may have accepted it, and only for this reason."""
    refused = '< no a full {"errorCode": "session_not_saved"}'
    trace = "> steer a A\n> abort b\n< ok b / agent_start / turn_start / user A\n" + refused

    found = [each for each in judged(trace, is_fresh=is_fresh).verdicts if each.invariant == "I-QUE-2"]

    assert is_fresh == bool(found)


def test_an_abort_is_answered_before_what_a_later_message_begins(judged: Callable[..., Report]) -> None:
    """C-7: the run of the message comes behind the answer, also when that has waited for the disk."""
    begun = BEGUN + "> abort x\n> steer y Y\n< answer aborted / turn_end / agent_end / queue Y | / ok y"
    run = " / agent_start / turn_start / queue | / user Y"

    good, bad = (judged(begun + rest) for rest in (" / ok x" + run, run + " / ok x"))

    assert not [each for each in good.verdicts if each.invariant == "I-ABT-1"]
    assert [each for each in bad.verdicts if each.invariant == "I-ABT-1"]
