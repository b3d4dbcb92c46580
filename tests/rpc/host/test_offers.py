"""What a `hello` of one of several clients becomes, and which of them get what it has asked for."""

import pytest

from pinnace_rpc.host.offers import Offers
from pinnace_spec.wire.json_text import JsonValue

LOOK: dict[str, JsonValue] = {"themes": ["dark"], "theme": "dark", "toolsExpanded": True}


def begins(agent: str) -> bytes:
    return b'{"type":"subagent_event","agentId":"%b","agent":{"task":"\\"state\\":\\"","state":"running"}}\n' % (
        agent.encode()
    )


def works(agent: str) -> bytes:
    return b'{"type":"subagent_event","agentId":"%b","event":{"text":"\\"state\\":\\"running\\""}}\n' % agent.encode()


def ends(agent: str) -> bytes:
    return (
        b'{"type":"subagent_event","agentId":"%b","agent":{"task":"\\"state\\":\\"running\\"","state":"failed"}}\n'
        % (agent.encode())
    )


def test_each_client_is_shown_a_sub_agent_from_its_beginning_to_its_end() -> None:
    """R-SUB-09: a beginning that is repeated for one that asks later is for that one alone."""
    offers = Offers()
    offers.take(1, {"subagents": True})
    first = [offers.audience(each) for each in (begins("a"), works("a"))]
    offers.take(2, {"subagents": True})
    early = offers.audience(works("a"))
    second = [offers.audience(each) for each in (begins("a"), works("a"), begins("b"))]
    offers.take(1, {"subagents": False})
    third = [offers.audience(each) for each in (works("a"), ends("a"), works("a"), ends("b"))]

    assert [[1], [1]] == first
    assert [1] == early
    assert [[2], [1, 2], [1, 2]] == second
    assert [[2], [2], [], [2]] == third
    assert offers.audience(b'{"type":"agent_start"}\n') is None


@pytest.mark.parametrize("name", ["surfaces", "subagents"])
def test_a_client_withdraws_what_it_has_asked_for_itself_alone(name: str) -> None:
    """R-UI-11, R-SUB-09: the process learns only of the last one."""
    offers = Offers()
    asked = [offers.take(each, {name: True}).members[name] for each in (1, 2)]
    left = [offers.take(each, {name: False}).members[name] for each in (3, 1, 2)]
    offers.take(4, {name: True})
    offers.leave(4)
    withdrawn = [dict(offers.withdrawal()), dict(offers.withdrawal())]

    assert [True, True] == asked
    assert [None, None, False] == left
    assert [{name: False}, {}] == withdrawn


def test_a_client_that_does_not_draw_does_not_say_how_those_look_that_do() -> None:
    """R-UI-22, R-UI-31."""
    offers = Offers()
    alone = offers.take(1, {**LOOK}).members
    drawing = offers.take(1, {"surfaces": True, **LOOK}).members
    other = offers.take(2, {**LOOK}).members
    later = offers.take(1, {"theme": "light"}).members

    assert {} == alone
    assert {"surfaces": True} == drawing
    assert dict.fromkeys(LOOK) == other
    assert {} == later


def test_a_newer_offer_of_files_ends_the_requests_of_the_former_one() -> None:
    """R-FIL-05: also where the former client has just left; a malformed offer changes nothing."""
    offers = Offers()
    first = offers.take(1, {"delegate": ["read_text_file"]}).before
    malformed = offers.take(2, {"delegate": ["x"]}).before
    serving = offers.serves_files
    offers.leave(1)
    second = offers.take(2, {"delegate": ["read_text_file"]}).before
    kept = dict(offers.withdrawal())
    offers.leave(2)
    withdrawn = dict(offers.withdrawal())

    assert ({}, {}, 1) == (first, malformed, serving)
    assert {"delegate": []} == second
    assert {} == kept
    assert {"delegate": []} == withdrawn
