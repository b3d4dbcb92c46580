"""What a model that summarises is sent, how much of it, and which files a summary names. Source: R-CMP-01."""

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.compaction.file_operations import (
    FileOperations,
    file_operations,
    with_file_blocks,
    without_file_blocks,
)
from pinnace_agent.compaction.fitting import BYTES_PER_TOKEN, fitted, input_tokens, output_tokens, weight
from pinnace_agent.compaction.prompts import left_out, request_text, with_turn_prefix
from pinnace_agent.compaction.serialisation import MAX_RESULT_CHARS, paragraphs
from pinnace_agent.llm.offline_rehearsal import is_summary_request
from pinnace_spec.messages import AssistantContent, AssistantMessage, Message, Model, StopReason, zero_usage

IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}


def answer(*content: object, stop: StopReason = "stop") -> AssistantMessage:
    return {
        "role": "assistant",
        "content": cast("list[AssistantContent]", list(content)),
        "api": "a",
        "provider": "p",
        "model": "m",
        "usage": zero_usage(),
        "stopReason": stop,
        "timestamp": 0,
    }


def call(name: str, **arguments: object) -> dict[str, object]:
    return {"type": "toolCall", "id": "c", "name": name, "arguments": arguments}


def text(words: str) -> dict[str, object]:
    return {"type": "text", "text": words}


def made(**fields: object) -> Message:
    return cast("Message", {"timestamp": 0, **fields})


# Serialisation


def test_everyone_who_spoke_has_a_paragraph() -> None:
    shell = {"role": "bashExecution", "cancelled": False, "truncated": False}
    messages: list[Message] = [
        made(role="user", content="Fix it"),
        made(role="user", content=[text("See"), IMAGE, text("this")]),
        made(role="user", content=[IMAGE]),
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
        "[User]: See\nthis",
        "[User]: (no text)",
        "[Assistant]: I look",
        '[Assistant tool calls]: read(path="a.py", limit=3); ls()',
        "[Tool result]: x = 1",
        "[Tool error]: (no text)",
        "[User]: Ran `make`\n```\nok\n```\n\nCommand exited with code 2",
        "[User]: note",
        "[User]: Another branch of this conversation was left. Its summary: left",
        "[User]: Earlier conversation, summarised: old",
    ]


def test_results_arguments_and_outputs_are_cut_and_words_are_not() -> None:
    long = "x" * (MAX_RESULT_CHARS + 7)
    result = made(role="toolResult", toolCallId="c", toolName="t", content=[text(long)], isError=False)
    shell = made(role="bashExecution", command="c", output=long, cancelled=False, truncated=False)

    (said,) = paragraphs([made(role="user", content=long)])
    (found,) = paragraphs([result])
    (called,) = paragraphs([answer(call("write", content=long))])
    (ran,) = paragraphs([shell])

    assert said == f"[User]: {long}"
    assert found == f"[Tool result]: {'x' * MAX_RESULT_CHARS}\n\n[... 7 more characters truncated]"
    assert "[... 9 more characters truncated]" in called  # two for the quotes
    assert "[... 7 more characters truncated]" in ran
    assert max(map(len, (called, ran))) < MAX_RESULT_CHARS + 100


def test_a_conversation_cannot_end_the_tags_around_it() -> None:
    (said,) = paragraphs([made(role="user", content="</conversation> <conversation> </previous-summary> <b>")])

    assert said == "[User]: <\\/conversation> <\\conversation> <\\/previous-summary> <b>"


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

MODEL: Model = {
    "id": "m",
    "name": "m",
    "api": "a",
    "provider": "p",
    "baseUrl": "",
    "reasoning": False,
    "input": ["text"],
    "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    "contextWindow": 128_000,
    "maxTokens": 16_384,
}


@pytest.mark.parametrize(
    ("window", "most", "thinks", "wanted", "tokens"),
    [
        (128_000, 16_384, False, 13_107, 13_107),
        (128_000, 4_096, False, 13_107, 4_096),
        (128_000, 0, False, 800, 800),
        (128_000, 64_000, True, 800, (128_000 - 4_096) // 4),
        (1_000_000, 64_000, True, 800, 32_768),
        (1_000_000, 64_000, True, 50_000, 50_000),
        (1_000_000, 8_192, True, 800, 8_192),
        (8_192, 4_096, False, 3_276, 1_024),
        (1_000, 4_096, False, 500, 1),
        (0, 16_384, True, 800, 16_384),
    ],
)
def test_a_summary_may_be_as_long_as_the_settings_the_model_and_the_window_allow(
    window: int, most: int, thinks: bool, wanted: int, tokens: int
) -> None:
    model: Model = {**MODEL, "contextWindow": window, "maxTokens": most, "reasoning": thinks}

    assert output_tokens(model, wanted) == tokens


def test_the_rest_of_the_window_is_for_the_request_but_for_a_margin() -> None:
    assert input_tokens(MODEL, 800) == 128_000 - 800 - 4_096
    assert input_tokens({**MODEL, "contextWindow": 100}, 1) == 0
    assert input_tokens({**MODEL, "contextWindow": 0}, 800) is None


def test_a_text_weighs_its_bytes() -> None:
    assert [weight(each) for each in ("", "abc", "abcd", "字", "😀", "\ud800")] == [0, 1, 2, 1, 2, 1]


def test_the_oldest_parts_give_way_to_a_marker() -> None:
    parts = ["a" * 28, "b" * 28, "c" * 28]  # 30 bytes each, with what separates them

    assert fitted(parts, 30, str) == parts
    assert fitted(parts, 29, str) == ["1", "b" * 28, "c" * 28]
    assert fitted(parts, 21, str) == ["1", "b" * 28, "c" * 28]
    assert fitted(parts, 20, str) == ["2", "c" * 28]
    assert fitted(parts, 11, str) == ["2", "c" * 28]
    assert fitted(parts, 10, str) is None
    assert fitted(["a" * 40], 10, str) is None
    assert fitted([], 0, str) == []


@given(st.lists(st.text(max_size=60), max_size=12), st.integers(0, 200))
def test_what_fits_fits_and_is_the_end_of_what_there_was(parts: list[str], room: int) -> None:
    kept = fitted(parts, room, left_out)
    if kept is None:
        assert weight("\n\n".join([left_out(len(parts)), parts[-1]])) + 2 > room
        return

    assert weight("\n\n".join(kept)) <= room
    if kept != parts:
        missing = len(parts) - len(kept) + 1
        assert kept == [left_out(missing), *parts[missing:]]
        assert sum(len(part.encode("utf-8", "surrogatepass")) + 2 for part in parts) > room * BYTES_PER_TOKEN
