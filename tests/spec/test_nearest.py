"""The nearest known name to a misspelt one."""

from hypothesis import given
from hypothesis import strategies as st

from pinnace_spec.nearest import all_near, did_you_mean, nearest, nearest_or_all

NAMES = ["get_state", "set_model", "Prompt"]


def test_the_nearest_name_is_found_in_any_case_of_letters() -> None:
    assert ["get_state", "Prompt", None] == [nearest(word, NAMES) for word in ("GETSTATE", "promt", "zzz")]
    assert "; did you mean set_model?" == did_you_mean("set_modle", NAMES)
    assert "there are get_state, set_model, Prompt" == nearest_or_all("zzz", NAMES)


@given(st.text(), st.lists(st.text(), max_size=5), st.integers(1, 4))
def test_a_suggestion_is_always_a_known_name(word: str, known: list[str], count: int) -> None:
    found = all_near(word, known, count, 0.3)

    assert len(found) <= count
    assert set(found) <= set(known)


def test_a_long_word_is_not_compared() -> None:
    assert nearest("x" * 101, ["x" * 101]) is None
