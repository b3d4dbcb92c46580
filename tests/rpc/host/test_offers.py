"""What a `hello` of one of several clients becomes, and which of them get what it has asked for."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinnace_rpc.host.offers import Offers, are_folders
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


def test_what_sub_agents_do_is_shown_while_the_host_or_a_client_asks() -> None:
    """R-SUB-09: no client is sent what the host alone has asked for."""
    offers = Offers()
    asked = [dict(offers.follow(is_wanted=True)), dict(offers.follow(is_wanted=True))]
    unasked = offers.audience(begins("a"))
    members = [offers.take(1, {"subagents": each}).members["subagents"] for each in (True, False)]
    offers.take(1, {"subagents": True})
    kept = dict(offers.follow(is_wanted=False))
    offers.leave(1)
    withdrawn = dict(offers.withdrawal())
    again = dict(offers.follow(is_wanted=True))
    ended = dict(offers.follow(is_wanted=False))

    assert ([{"subagents": True}, {}], []) == (asked, unasked)
    assert ([True, None], {}) == (members, kept)
    assert [{"subagents": False}, {"subagents": True}, {"subagents": False}] == [withdrawn, again, ended]


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


def test_the_look_of_a_client_that_has_left_is_replaced_by_that_of_one_that_is_there() -> None:
    """R-UI-22, R-UI-31."""
    offers = Offers()
    light: dict[str, JsonValue] = {"themes": ["light"], "theme": "light"}
    offers.take(1, {"surfaces": True, **LOOK})
    offers.take(2, {"surfaces": True, **light})
    offers.leave(2)
    left = [dict(offers.withdrawal()), dict(offers.withdrawal())]
    offers.take(2, {"surfaces": True, **light})
    spoken = dict(offers.take(1, {"theme": "dim"}).members)
    offers.leave(1)
    second = dict(offers.withdrawal())
    offers.take(3, {"surfaces": True, "toolsExpanded": True})
    offers.take(2, {"theme": "dim"})
    offers.leave(2)
    third = dict(offers.withdrawal())

    assert [LOOK, {}] == left
    assert {"themes": ["dark"], "toolsExpanded": True} == spoken
    assert {**light, "toolsExpanded": False} == second
    assert {"surfaces": True, "toolsExpanded": True} == third  # nothing else has the process forget themes


class Process:
    """What the process of an agent believes of its client, by the rules R-UI-22 and R-UI-31."""

    def __init__(self) -> None:
        self.draws = False
        self.look: dict[str, object] = {}

    def take(self, fields: Mapping[str, object]) -> None:
        if (draws := fields.get("surfaces")) is not None:
            self.draws, self.look = bool(draws), {}
        if self.draws:
            self.look |= {name: fields[name] for name in LOOK if fields.get(name) is not None}


SAID: dict[str, st.SearchStrategy[JsonValue]] = {
    "themes": st.sampled_from([None, ["dark"], ["light"], 5]),
    "theme": st.sampled_from([None, "dark", "light"]),
    "toolsExpanded": st.sampled_from([None, True, False]),
}
HELLOS = st.fixed_dictionaries({"surfaces": st.sampled_from([True, True, None, False])}, optional=SAID)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(1, 3), st.none() | HELLOS), max_size=8))
def test_the_process_has_the_look_of_the_newest_client_that_draws_and_is_there(
    steps: list[tuple[int, dict[str, JsonValue] | None]],
) -> None:
    """R-UI-11, R-UI-22, R-UI-31: whoever comes, speaks, withdraws, is refused or leaves (None)."""
    offers, process = Offers(), Process()
    looks: dict[int, dict[str, object]] = {}
    for connection, fields in steps:
        if fields is None:
            offers.leave(connection)
            process.take(offers.withdrawal())
            looks.pop(connection, None)
        elif fields.get("themes") != 5:
            process.take({**fields, **offers.take(connection, fields).members})
            said = {name: fields[name] for name in LOOK if fields.get(name) is not None}
            draws = fields.get("surfaces")
            former = looks.pop(connection, None) if draws is not None or said else None
            if draws or (draws is None and former is not None):
                looks[connection] = {**({} if draws or former is None else former), **said}
        else:
            assert ({}, {}) == offers.take(connection, fields)
        expected = [*looks.values(), {}][len(looks) - 1] if looks else {}

        assert (bool(looks), {"toolsExpanded": False, **expected}) == (
            process.draws,
            {"toolsExpanded": False, **process.look},
        )


@pytest.mark.parametrize("wrong", [{"surfaces": 5}, {"themes": ["a", 5]}, {"theme": []}, {"subagents": "yes"}])
def test_a_hello_that_is_refused_offers_nothing(wrong: dict[str, JsonValue]) -> None:
    """R-FIL-05: also what is right in it; the offer of another client holds."""
    offers = Offers()
    offers.take(1, {"delegate": ["read_text_file"]})
    refused = offers.take(2, {"delegate": ["read_text_file"], "subagents": True, "surfaces": True, **wrong})
    withdrawn = offers.take(2, {"delegate": []})
    offers.leave(2)

    assert ({}, {}) == refused
    assert ({}, {"delegate": None}) == withdrawn
    assert ({}, 1) == (offers.withdrawal(), offers.serves_files)


async def test_only_folders_are_taken_as_directories(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    texts = [str(tmp_path), str(tmp_path / "file"), str(tmp_path / "none"), ".", "/\0"]

    assert [True, False, False, False, False] == [await are_folders([each]) for each in texts]
    assert await are_folders(None)


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
