"""What the observers say of announcements: nothing of good traces, the steps that prove it of bad ones."""

from collections.abc import Callable

from pinnace_spec.observers import Report

NEW = "> new_session n\n"
MADE = '< ok n {"cancelled": false}\n'
MOVE = '> navigate_tree m {"entryId": "e1"}\n'
MOVED = '< ok m {"cancelled": false, "leafId": "e1"%s}\n'
FAILED = '< no n "it can not be made"%s\n'


def changed(reason: str = "new", session: str = "t", leaf: str = "null", by: str | None = "client") -> str:
    origin = "" if by is None else f'"by": "{by}", '
    return f'< session_changed {{"reason": "{reason}", {origin}"sessionId": "{session}", "leafId": {leaf}}}\n'


def state(session: str) -> str:
    return f'> get_state g\n< state g {{"sessionId": "{session}"}}\n'


def asked(timeout: str = "") -> str:
    return f'< extension_ui_request {{"id": "d", "method": "confirm", "title": "", "message": ""{timeout}}}\n'


def resolved(reason: str = "cancelled") -> str:
    return f'< extension_ui_resolved {{"id": "d", "reason": "{reason}"}}\n'


RUN = "> prompt p hi\n< ok p / agent_start / turn_start\n"
ENTRIES = '> get_entries g\n< ok g {"entries": [], "leafId": "e9"}\n'

GOOD: list[tuple[str, str, str]] = [
    ("a new session", "I-SES-1", state("s") + NEW + changed() + MADE + state("t")),
    (
        "two in one write",
        "I-SES-1",
        "> new_session n\n> new_session o\n"
        + changed()
        + MADE
        + changed(session="u")
        + '< ok o {"cancelled": false}\n'
        + state("u"),
    ),
    (
        "one before another that is refused at once",
        "I-SES-1",
        state("s") + NEW + "> clone o\n" + changed() + '< no o "nothing to copy"\n' + MADE + state("t"),
    ),
    ("one that is vetoed", "I-SES-1", state("s") + NEW + '< ok n {"cancelled": true}\n' + state("s")),
    (
        "the same one again",
        "I-SES-1",
        state("s") + '> switch_session n {"sessionPath": "/s"}\n' + changed("resume", "s") + MADE + state("s"),
    ),
    ("a move", "I-SES-1", ENTRIES + MOVE + changed("navigate", "s", '"e1"') + MOVED % "" + state("s")),
    ("a move to where it is", "I-SES-1", ENTRIES.replace("e9", "e1") + MOVE + MOVED % "" + state("s") + state("s")),
    ("one by an extension", "I-SES-1", state("s") + changed(by="extension") + state("t")),
    (
        "one that withdraws messages",
        "I-SES-1",
        RUN + NEW + "< turn_end / agent_end\n" + changed() + "< settled\n" + MADE,
    ),
    ("an end in its middle", "I-SES-1", NEW + changed() + FAILED % ' {"errorCode": "shutting_down"}'),
    ("one that another process had", "I-SES-1", state("s") + changed("takeover", "s", '"e2"', None) + state("s")),
    ("a dialog whose time is over", "I-UI-1", asked(', "timeout": 5') + resolved("timeout")),
    ("a dialog that is answered when it is over", "I-UI-1", asked() + resolved() + "> extension_ui_response d\n"),
    ("a dialog of another client", "I-UI-1", asked() + "> extension_ui_response d\n" + resolved("answered")),
]
BAD: list[tuple[str, str, str, list[tuple[int, ...]]]] = [
    ("a new session that is not announced", "I-SES-1", NEW + MADE, [(1, 2)]),
    ("a session that changes", "I-SES-1", state("s") + state("t"), [(2, 4)]),
    ("another one than was announced", "I-SES-1", NEW + changed() + MADE + state("s"), [(2, 5)]),
    ("one that is announced twice", "I-SES-1", NEW + changed() + changed(session="u") + MADE, [(2, 3)]),
    ("one that nobody has asked for", "I-SES-1", changed(), [(1,)]),
    ("one that is announced behind its response", "I-SES-1", NEW + MADE + changed(), [(1, 2), (3,)]),
    ("one that is refused", "I-SES-1", NEW + changed() + FAILED % "", [(2, 3)]),
    (
        "two, of which both are refused",
        "I-SES-1",
        NEW + "> clone o\n" + changed() + '< no o "nothing to copy"\n' + FAILED % "",
        [(3, 5)],
    ),
    ("a copy that is called new", "I-SES-1", "> clone n\n" + changed() + MADE, [(2, 3)]),
    ("a new one with the former id", "I-SES-1", state("s") + NEW + changed(session="s") + MADE, [(2, 4)]),
    (
        "a move to another session",
        "I-SES-1",
        state("s") + MOVE + changed("navigate", "t", '"e1"') + MOVED % "",
        [(2, 4)],
    ),
    ("a move to another entry", "I-SES-1", MOVE + changed("navigate", "s", '"e2"') + MOVED % "", [(2, 3)]),
    ("a move that is not announced", "I-SES-1", ENTRIES + MOVE + MOVED % "", [(2, 4)]),
    ("a move before a message that is not announced", "I-SES-1", MOVE + MOVED % ', "editorText": "x"', [(2,)]),
    ("one in a run", "I-SES-1", RUN + NEW + changed() + MADE, [(3, 6)]),
    ("a dialog that is taken back twice", "I-UI-1", asked() + resolved() + resolved(), [(2, 3)]),
    ("a dialog that was not asked", "I-UI-1", resolved(), [(1,)]),
    ("a dialog without a time", "I-UI-1", asked() + resolved("timeout"), [(1, 2)]),
    ("a dialog that nobody has answered", "I-UI-1", asked() + resolved("answered"), [(1, 2)]),
]


def test_of_an_agent_without_the_record_nothing_is_expected(judged: Callable[..., Report]) -> None:
    assert () == judged(NEW + MADE + state("t"), "1.5").verdicts
