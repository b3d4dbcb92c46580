"""Which text of a file counts when the client and the disk differ. R-FIL-06."""

from pinnace_agent.client_files.common_texts import MAX_FILES, CommonTexts


def test_what_the_disk_held_before_is_outdated_when_it_has_another_text_or_none() -> None:
    texts = CommonTexts()
    assert not texts.is_outdated("/a", b"one", b"one")

    assert texts.is_outdated("/a", b"one", b"two")
    assert texts.is_outdated("/a", b"one", None)
    assert not texts.is_outdated("/b", b"one", b"two")


def test_a_text_that_the_disk_never_held_is_the_users() -> None:
    """Also one that the agent had the client write, which it has not saved."""
    texts = CommonTexts()
    texts.is_outdated("/a", b"one", b"one")
    assert not texts.is_outdated("/a", b"typed", b"two")

    texts.written("/a", b"edited", b"one")
    assert not texts.is_outdated("/a", b"edited", b"two")
    texts.written("/a", b"edited", b"edited")
    assert texts.is_outdated("/a", b"edited", b"two")


def test_of_too_many_files_those_are_forgotten_that_were_not_taken_for_long() -> None:
    texts = CommonTexts()
    for number in range(MAX_FILES):
        texts.is_outdated(f"/{number}", b"one", b"one")
    texts.is_outdated("/0", b"one", b"one")
    texts.is_outdated("/more", b"one", b"one")

    assert texts.is_outdated("/0", b"one", b"two")
    assert not texts.is_outdated("/1", b"one", b"two")
