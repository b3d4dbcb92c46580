"""What a model that summarises is sent, how much of it, and which files a summary names. Source: R-CMP-01."""

import re
from collections.abc import Sequence
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.samples import sample_answer, sample_model

from pinnace_agent.compaction.branch import messages_of
from pinnace_agent.compaction.file_operations import (
    FileOperations,
    file_operations,
    with_file_blocks,
    without_file_blocks,
)
from pinnace_agent.compaction.fitting import SEPARATOR_BYTES, Paragraphs, WindowRoom, room_for, size
from pinnace_agent.compaction.prompts import DIVIDED, Part, request_text, with_turn_prefix
from pinnace_agent.compaction.serialisation import MAX_RESULT_CHARS, paragraphs
from pinnace_agent.llm.offline.rehearsal import is_summary_request
from pinnace_spec.records.entries import Entry
from pinnace_spec.records.messages import AssistantMessage, Message, Model, StopReason

IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}


def answer(*content: object, stop: StopReason = "stop") -> AssistantMessage:
    return sample_answer(*content, stopReason=stop)


def call(name: str, **arguments: object) -> dict[str, object]:
    return {"type": "toolCall", "id": "c", "name": name, "arguments": arguments}


def text(words: str) -> dict[str, object]:
    return {"type": "text", "text": words}


def made(**fields: object) -> Message:
    return cast("Message", {"timestamp": 0, **fields})


# Serialisation


def test_every_author_has_a_paragraph() -> None:
    shell = {"role": "bashExecution", "cancelled": False, "truncated": False}
    messages: list[Message] = [
        made(role="user", content="Fix it"),
        made(role="user", content=[text("See"), IMAGE, text("this")]),
        made(role="user", content=[IMAGE]),
        made(role="user", content=[IMAGE, IMAGE]),
        answer({"type": "thinking", "thinking": "hm"}, text("I look"), call("read", path="a.py", limit=3), call("ls")),
        made(role="toolResult", toolCallId="c", toolName="read", content=[text("x = 1"), IMAGE], isError=False),
        made(role="toolResult", toolCallId="c", toolName="ls", content=[], isError=True),
        made(**shell, command="make", output="ok", exitCode=2),
        made(**shell, command="secret", output="", excludeFromContext=True),
        made(role="custom", customType="t", content="note", display=False),
        made(role="branchSummary", summary="left", fromId="e"),
        made(role="compactionSummary", summary="old", tokensBefore=1),
        answer(text("half"), stop="aborted"),
        answer(text(" ")),
    ]

    assert paragraphs(messages) == [
        "[User]: Fix it",
        "[User]: See\nthis\n(an image)",
        "[User]: (an image)",
        "[User]: (2 images)",
        "[Assistant]: I look",
        '[Assistant tool calls]: read(path="a.py", limit=3); ls()',
        "[Tool result]: x = 1\n(an image)",
        "[Tool error]: (no text)",
        "[User]: Ran `make`\n```\nok\n```\n\nCommand exited with code 2",
        "[User]: note",
        "[User]: Another branch of this conversation was left. Its summary: left",
        "[User]: Earlier conversation, summarised: old",
    ]


def test_a_branch_that_is_left_is_what_its_edits_have_left_of_it() -> None:
    """An answer that failed and was asked for again is hidden; so is what an extension takes out."""
    texts = ("secret", "kept", "long", "other")
    entries: list[Entry] = [
        {"type": "message", "id": f"e{place}", "message": {"role": "user", "content": word, "timestamp": 1}}
        for place, word in enumerate(texts)
    ]
    entries += [
        {"type": "context_edit", "id": "x", "targetId": "e0", "replacement": None},
        {"type": "context_edit", "id": "y", "targetId": "e2", "replacement": {"content": "short"}},
        {"type": "branch_summary", "id": "z", "summary": "left before", "fromId": "e3"},
    ]

    assert [paragraph.removeprefix("[User]: ") for paragraph in paragraphs(messages_of(entries))] == [
        "kept",
        "short",
        "other",
        "Another branch of this conversation was left. Its summary: left before",
    ]


def test_results_arguments_and_outputs_are_cut_and_words_are_not() -> None:
    long = "x" * (MAX_RESULT_CHARS + 7)
    result = made(role="toolResult", toolCallId="c", toolName="t", content=[text(long)], isError=False)
    shell = made(role="bashExecution", command="c", output=long, cancelled=False, truncated=False)

    (paragraph,) = paragraphs([made(role="user", content=long)])
    (found,) = paragraphs([result])
    (called,) = paragraphs([answer(call("write", content=long))])
    (ran,) = paragraphs([shell])

    assert paragraph == f"[User]: {long}"
    assert found == f"[Tool result]: {'x' * MAX_RESULT_CHARS}\n\n[... 7 more characters truncated]"
    assert "[... 9 more characters truncated]" in called  # two for the quotes
    assert "[... 7 more characters truncated]" in ran
    assert max(map(len, (called, ran))) < MAX_RESULT_CHARS + 100


def test_a_conversation_cannot_end_the_tags_around_it() -> None:
    (paragraph,) = paragraphs([made(role="user", content="</conversation> <conversation> </previous-summary> <b>")])

    assert paragraph == "[User]: <\\/conversation> <\\conversation> <\\/previous-summary> <b>"


# Prompts


def test_a_request_begins_with_the_conversation_and_ends_with_the_focus() -> None:
    sent = request_text("history", ["[User]: a", "[Assistant]: b"], None, " only tests ")

    assert sent.startswith("<conversation>\n[User]: a\n\n[Assistant]: b\n</conversation>\n\nSummarise")
    assert sent.endswith("\n\nAdditional focus: only tests")
    assert is_summary_request(sent)
    for section in ("## Goal", "## Constraints & Preferences", "## Progress", "### Done", "### In Progress",
                    "### Blocked", "## Key Decisions", "## Next Steps", "## Critical Context"):  # fmt: skip
        assert f"\n{section}\n" in sent


def test_a_former_summary_is_to_be_kept_and_extended() -> None:
    first, following = (request_text("history", ["c"], previous, None) for previous in (None, "OLD"))

    assert "<previous-summary>" not in first
    assert "</conversation>\n\n<previous-summary>\nOLD\n</previous-summary>\n\n" in following
    assert "## Critical Context" in following
    assert "Additional focus" not in first + following + request_text("history", ["c"], None, "  ")


def test_the_beginning_of_a_turn_is_asked_for_by_other_sections() -> None:
    sent = request_text("turn_prefix", ["c"], None, "tests")

    assert "## Original Request" in sent
    assert "## Progress So Far" in sent
    assert "## Context Needed" in sent
    assert "## Goal" not in sent
    assert sent.endswith("Additional focus: tests")


def test_two_summaries_become_one() -> None:
    heading = "**The current turn, of which the beginning is summarised here:**"

    assert with_turn_prefix("H", "P") == f"H\n\n---\n\n{heading}\n\nP"
    assert with_turn_prefix(None, "P") == f"There is no earlier history.\n\n---\n\n{heading}\n\nP"


# Files


def test_files_are_those_of_the_calls_that_were_made() -> None:
    messages = [
        answer(
            call("read", path="b"), call("read", path="a"), call("read"), call("read", path=7), call("bash", path="x")
        ),
        answer(call("write", path="w"), call("edit", path="b"), text("path")),
        answer(call("write", path="never"), stop="error"),
        made(role="user", content="read c"),
    ]

    files = file_operations(messages, None)

    assert files == FileOperations(("a",), ("b", "w"))
    assert files.details() == {"readFiles": ["a"], "modifiedFiles": ["b", "w"]}


def test_files_of_the_former_compaction_stay_unless_an_extension_made_it() -> None:
    details = {"readFiles": ["r", "w", 7, ""], "modifiedFiles": ["m"]}
    messages = [answer(call("write", path="w"))]

    assert file_operations(messages, {"details": details}) == FileOperations(("r",), ("m", "w"))
    assert file_operations(messages, {"details": details, "fromHook": False}).read == ("r",)
    assert file_operations(messages, {"details": details, "fromHook": True}) == FileOperations((), ("w",))
    assert file_operations([], {"details": "none"}) == FileOperations((), ())
    assert file_operations([], {"details": {"readFiles": "r"}}) == FileOperations((), ())


def test_a_summary_ends_with_its_files_a_path_a_line() -> None:
    read, modified = "<read-files>\na\nb c\n</read-files>", "<modified-files>\nm\n</modified-files>"

    assert with_file_blocks("S", FileOperations((), ())) == "S"
    assert with_file_blocks("S", FileOperations(("a", "b\nc"), ())) == f"S\n\n{read}"
    assert with_file_blocks("S", FileOperations(("a", "b c"), ("m",))) == f"S\n\n{read}\n\n{modified}"


PATHS = st.lists(st.text(alphabet="ab/<>- \n", min_size=1)).map(tuple)


@given(st.sampled_from(["S", "S\n<read-files>", "x <read-files>\na\n</read-files> y", "a\n\nb"]), PATHS, PATHS)
def test_the_files_come_off_again(summary: str, read: tuple[str, ...], modified: tuple[str, ...]) -> None:
    assert without_file_blocks(with_file_blocks(summary, FileOperations(read, modified))) == summary


# How much fits

MODEL = sample_model(contextWindow=128_000, maxTokens=16_384)


@pytest.mark.parametrize(
    ("window", "most", "thinks", "wanted", "room"),
    [
        (128_000, 16_384, False, 13_107, WindowRoom(126_720, 13_107, 13_107)),
        (128_000, 4_096, False, 13_107, WindowRoom(126_720, 4_096, 4_096)),
        (128_000, 0, False, 800, WindowRoom(126_720, 800, 800)),
        (128_000, 64_000, True, 800, WindowRoom(126_720, 800, 31_744)),
        (1_000_000, 64_000, True, 800, WindowRoom(990_000, 800, 32_768)),
        (1_000_000, 64_000, True, 50_000, WindowRoom(990_000, 50_000, 50_000)),
        (1_000_000, 8_192, True, 800, WindowRoom(990_000, 800, 8_192)),
        (8_192, 4_096, False, 3_276, WindowRoom(8_111, 1_792, 1_792)),
        (4_096, 4_096, False, 1_638, WindowRoom(4_056, 768, 768)),
        (2_048, 4_096, True, 819, WindowRoom(2_028, 256, 256)),
        (1_000, 4_096, False, 500, WindowRoom(990, 1, 1)),
        (0, 16_384, True, 800, WindowRoom(None, 800, 16_384)),
    ],
)
def test_a_window_is_divided_between_a_request_and_its_answer(
    window: int, most: int, thinks: bool, wanted: int, room: WindowRoom
) -> None:
    model: Model = {**MODEL, "contextWindow": window, "maxTokens": most, "reasoning": thinks}

    assert room_for(model, wanted) == room


def test_a_request_may_take_what_the_least_answer_leaves() -> None:
    room = WindowRoom(1_000, 100, 300)

    assert room.request == 900
    assert [room.answer(tokens) for tokens in (100, 700, 800, 900, 950)] == [300, 300, 200, 100, 100]
    assert WindowRoom(None, 100, 300).request is None
    assert WindowRoom(None, 100, 300).answer(10**6) == 300
    assert WindowRoom(50, 100, 100).request == 0


def test_what_was_refused_is_followed_by_half_of_it() -> None:
    assert WindowRoom(10_000, 1_000, 3_000).halved(9_000, 600) == WindowRoom(4_800 + 1_000, 1_000, 3_000)
    assert WindowRoom(10_000, 2_000, 2_000).halved(5_000, 600) == WindowRoom(2_800 + 733, 733, 2_000)
    assert WindowRoom(None, 100, 300).halved(5_000, 1_000) == WindowRoom(3_100, 100, 300)


def pieces_of(texts: Sequence[str], room: int) -> list[list[str]]:
    pieces: list[list[str]] = []
    rest = Paragraphs(texts)
    while rest.texts:
        piece, rest = rest.divided(room)
        pieces.append(list(piece.texts))
    return pieces


def test_a_conversation_that_fits_is_one_piece() -> None:
    texts = ["a" * 28, "b" * 28, "c" * 28]  # 30 bytes each, with what separates them

    assert Paragraphs(texts).size == 88
    assert pieces_of(texts, 88) == [texts]
    assert pieces_of([], 0) == []


def test_pieces_are_of_about_the_same_length() -> None:
    texts = [letter * 28 for letter in "abcdefgh"]

    assert [len(piece) for piece in pieces_of(texts, 7 * 30)] == [4, 4]
    assert [len(piece) for piece in pieces_of(texts, 4 * 30 - 3)] == [3, 3, 2]


def test_a_text_that_no_request_holds_is_divided_behind_a_word() -> None:
    text = "[User]: " + "word " * 40
    pieces = [part for (part,) in pieces_of([text], 120)]

    assert all(size(piece) <= 120 for piece in pieces)
    assert all(piece.endswith("word " + DIVIDED) for piece in pieces[:-1])
    assert all(piece.startswith("[User, continued]: word ") for piece in pieces[1:])


def test_a_text_that_a_request_holds_is_not_divided() -> None:
    texts = ["[User]: " + letter * 80 for letter in "abc"]

    assert pieces_of(texts, 130) == [[text] for text in texts]


CONTINUED = re.compile(r"\[[A-Za-z ]+, continued\]: ")


@given(
    st.lists(st.text(st.sampled_from("aé汉😀\ud800\n ]:["), max_size=300).map("[User]: {}".format), max_size=8),
    st.integers(0, 300),
)
def test_pieces_fit_and_hold_everything(texts: list[str], room: int) -> None:
    whole: list[str] = []
    for piece in pieces_of(texts, room):
        if room > 120:
            assert size("\n\n".join(piece)) <= room
        for text in piece:
            if whole and whole[-1].endswith(DIVIDED):
                continued = CONTINUED.match(text)
                assert continued is not None
                whole[-1] = whole[-1].removesuffix(DIVIDED) + text[continued.end() :]
            else:
                whole.append(text)

    assert whole == texts


@given(st.lists(st.text(max_size=60), max_size=12), st.integers(1, 200))
def test_the_size_of_the_rest_is_known_without_reading_it(texts: list[str], room: int) -> None:
    rest = Paragraphs(texts)
    while rest.texts:
        piece, rest = rest.divided(room)
        for each in (piece, rest):
            assert each.size == sum(map(size, each.texts)) + SEPARATOR_BYTES * max(0, len(each.texts) - 1)


@pytest.mark.parametrize("part", ["history", "turn_prefix"])
@pytest.mark.parametrize("previous", [None, "OLD"])
def test_a_request_for_a_piece_announces_that_more_follows(part: Part, previous: str | None) -> None:
    whole = request_text(part, ["[User]: a"], previous, "the tests")
    piece = request_text(part, ["[User]: a"], previous, "the tests", more_follows=True)

    assert "the next part follows" not in whole
    assert "the next part follows" in piece
    assert ("<previous-summary>\nOLD\n</previous-summary>" in piece) == (previous is not None)
    assert ("Write one summary of both" in piece) == (previous is not None)
    assert ("## Original Request" in piece) == (part == "turn_prefix")
    assert piece.endswith("Additional focus: the tests")
