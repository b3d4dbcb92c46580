"""A message that no request can hold: its beginning and its end stay, of any text and for any room. Rule R-CMP-01."""

from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.compaction.fitting import shortened, weight
from pinnace_agent.compaction.prompts import cut_out

TEXTS = st.text(st.sampled_from("aé汉😀\ud800\n"), min_size=1, max_size=400)


def test_a_message_that_is_too_long_keeps_its_ends() -> None:
    cut = shortened("begin" + "x" * 10_000 + "end", 40, cut_out)

    assert cut is not None
    assert cut.startswith("beginx")
    assert cut.endswith("xend")
    assert "characters of this message are left out" in cut


def test_a_message_for_which_there_is_no_room_is_not_cut() -> None:
    assert shortened("x" * 10_000, 10, cut_out) is None


@given(TEXTS, st.integers(0, 400))
def test_a_message_that_was_cut_fits(text: str, number: int) -> None:
    room = number % weight(text)  # less than it needs
    cut = shortened(text, room, cut_out)

    assert cut is None or weight(cut) <= room
