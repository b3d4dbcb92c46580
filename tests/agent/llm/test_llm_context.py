"""From a session's messages to what a provider may see of them."""

import copy
from collections.abc import Callable
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.samples import sample_answer, served_model, text_block, tool_result, user

from pinnace_agent.llm.context import ContextMessage, provider_messages, user_text
from pinnace_spec.records.messages import (
    AssistantContent,
    AssistantMessage,
    BashExecutionMessage,
    ImageContent,
    InputKind,
    Message,
    Model,
    StopReason,
    ToolCall,
    ToolResultMessage,
    UserContent,
    UserMessage,
)

IMAGE: ImageContent = {"type": "image", "data": "AAAA", "mimeType": "image/png"}


def model(*inputs: InputKind, provider: str = "p", api: str = "a", model_id: str = "m") -> Model:
    return served_model(
        id=model_id,
        api=api,
        provider=provider,
        baseUrl="",
        reasoning=True,
        input=list(inputs) or ["text", "image"],
        contextWindow=0,
        maxTokens=0,
    )


OWN = model()
OTHERS = [model(provider="other"), model(api="other"), model(model_id="other")]


def answer(*content: AssistantContent, stop: StopReason = "stop") -> AssistantMessage:
    return sample_answer(*content, stopReason=stop, timestamp=7)


def call(call_id: str, **more: str) -> ToolCall:
    return cast("ToolCall", {"type": "toolCall", "id": call_id, "name": "read", "arguments": {"a": 1}, **more})


def result(call_id: str, *content: UserContent) -> ToolResultMessage:
    return tool_result(call_id, *(content or [f"result of {call_id}"]), timestamp=8)


def shell(**more: object) -> BashExecutionMessage:
    plain = {"role": "bashExecution", "command": "ls", "output": "a.txt", "cancelled": False, "truncated": False}
    return cast("BashExecutionMessage", {**plain, "timestamp": 0, **more})


def keep(call_id: str) -> str:
    return call_id


def context(*messages: Message, target: Model = OWN, normal_id: Callable[[str], str] = keep) -> list[ContextMessage]:
    before = copy.deepcopy(messages)
    converted = provider_messages(messages, target, normal_id)
    assert messages == before, "the history was changed"
    return converted


def ids_of(message: AssistantMessage) -> list[str]:
    return [block["id"] for block in message["content"] if block["type"] == "toolCall"]


def briefly(messages: list[ContextMessage]) -> list[str]:
    """Say each message as its role and its ids."""
    words: list[str] = []
    for message in messages:
        if message["role"] == "toolResult":
            words.append(f"result {message['toolCallId']}")
        elif message["role"] == "assistant":
            words.append(" ".join(["assistant", *ids_of(message)]))
        else:
            words.append("user")
    return words


# Roles


def test_a_conversation_of_the_three_roles_stays_as_it_is() -> None:
    messages: list[Message] = [
        user(text_block("hi")),
        answer(text_block("a"), call("c1")),
        result("c1"),
        answer(text_block("b")),
    ]

    assert context(*messages) == messages


@pytest.mark.parametrize("stop", ["error", "aborted"])
def test_an_answer_that_failed_is_left_out_with_its_calls_and_results(stop: StopReason) -> None:
    messages = context(
        user(text_block("a")), answer(text_block("half"), call("c1"), stop=stop), result("c1"), user(text_block("b"))
    )

    assert messages == [user(text_block("a")), user(text_block("b"))]


def test_an_answer_that_was_cut_at_its_limit_stays() -> None:
    assert briefly(context(answer(text_block("a"), stop="length"))) == ["assistant"]


def test_a_shell_command_is_sent_as_a_user_message() -> None:
    (message,) = context(shell(exitCode=0))

    assert message == user(text_block("Ran `ls`\n```\na.txt\n```"))


def test_an_excluded_shell_command_is_not_sent() -> None:
    assert context(shell(excludeFromContext=True)) == []


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"output": ""}, "Ran `ls`\n(no output)"),
        ({"exitCode": 2}, "Ran `ls`\n```\na.txt\n```\n\nCommand exited with code 2"),
        ({"cancelled": True, "exitCode": 137}, "Ran `ls`\n```\na.txt\n```\n\n(command cancelled)"),
        (
            {"truncated": True, "fullOutputPath": "/tmp/x.log"},
            "Ran `ls`\n```\na.txt\n```\n\n[Output truncated. Full output: /tmp/x.log]",
        ),
        ({"truncated": True, "fullOutputPath": None}, "Ran `ls`\n```\na.txt\n```"),
        ({"truncated": False, "fullOutputPath": "/tmp/x.log"}, "Ran `ls`\n```\na.txt\n```"),
        (
            {"output": "", "exitCode": 1, "truncated": True, "fullOutputPath": "/tmp/x.log"},
            "Ran `ls`\n(no output)\n\nCommand exited with code 1\n\n[Output truncated. Full output: /tmp/x.log]",
        ),
    ],
)
def test_the_end_of_a_shell_command_is_sent(fields: dict[str, object], text: str) -> None:
    assert user_text(shell(**fields)) == text


@pytest.mark.parametrize("content", ["words", [text_block("words")]])
def test_a_message_of_an_extension_is_sent_as_a_user_message(content: str | list[UserContent]) -> None:
    (message,) = context(
        {"role": "custom", "customType": "x", "content": content, "display": False, "details": {"a": 1}, "timestamp": 3}
    )

    assert message == {**user(text_block("words")), "timestamp": 3}


def test_summaries_are_sent_as_user_messages_in_brackets() -> None:
    branch, compaction = context(
        {"role": "branchSummary", "summary": "went left", "fromId": "1", "timestamp": 1},
        {"role": "compactionSummary", "summary": "did much", "tokensBefore": 9, "timestamp": 2},
    )

    assert branch["role"] == compaction["role"] == "user"
    assert "branch" in str(branch["content"])
    assert "<summary>\\nwent left\\n</summary>" in str(branch["content"])
    assert "compacted" in str(compaction["content"])
    assert "<summary>\\ndid much\\n</summary>" in str(compaction["content"])


def test_roles_of_other_programs_are_left_out() -> None:
    foreign = cast("Message", {"role": "system", "content": "x", "timestamp": 0})

    assert context(foreign, user(text_block("a"))) == [user(text_block("a"))]


def test_content_that_is_missing_or_null_is_empty() -> None:
    messages = [
        cast("Message", {**user(), "content": None}),
        cast("Message", {"role": "user", "timestamp": 0}),
        cast("Message", {**answer(), "content": None}),
        cast("Message", {"role": "custom", "customType": "x", "content": None, "display": True, "timestamp": 0}),
        answer(call("c1")),
        cast("Message", {**result("c1"), "content": None}),
    ]

    assert context(*messages) == [answer(call("c1")), {**result("c1"), "content": []}]


# Images


def test_a_model_without_images_gets_a_notice_for_each_row_of_images() -> None:
    blind = model("text")
    messages = context(
        user(text_block("a"), IMAGE, IMAGE, text_block("b"), IMAGE),
        answer(call("c1")),
        result("c1", IMAGE, IMAGE),
        target=blind,
    )

    notice = text_block("(image omitted: model does not support images)")
    assert messages[0] == user(text_block("a"), notice, text_block("b"), notice)
    assert messages[2] == result("c1", text_block("(tool image omitted: model does not support images)"))


def test_a_model_with_eyes_gets_the_images() -> None:
    messages = context(user(IMAGE), answer(call("c1")), result("c1", IMAGE))

    assert messages[0] == user(IMAGE)
    assert messages[2] == result("c1", IMAGE)


def test_a_users_plain_string_stays_one() -> None:
    plain: UserMessage = {"role": "user", "content": "old session", "timestamp": 0}

    assert context(plain, target=model("text")) == [plain]


# What only one model can read


SIGNED: list[AssistantContent] = [
    {"type": "thinking", "thinking": "", "thinkingSignature": "s"},
    {"type": "thinking", "thinking": "", "redacted": True},
    {"type": "thinking", "thinking": "hm"},
    {"type": "text", "text": "a", "textSignature": "s"},
    call("c1", thoughtSignature="s"),
]


def test_the_same_model_gets_its_thoughts_and_signatures_back() -> None:
    empty: AssistantContent = {"type": "thinking", "thinking": ""}

    assert context(answer(*SIGNED, empty), result("c1"))[0] == answer(*SIGNED)


@pytest.mark.parametrize("other", OTHERS)
def test_another_model_gets_words_and_calls_alone(other: Model) -> None:
    message = context(answer(*SIGNED), result("c1"), target=other)[0]

    assert message["content"] == [text_block("a"), call("c1")]


def test_the_error_of_a_call_is_not_sent_to_another_model() -> None:
    broken = call("c1", argumentsError="bad", thoughtSignature="s")

    assert context(answer(broken), result("c1"), target=OTHERS[0])[0]["content"] == [call("c1")]


@pytest.mark.parametrize("other", OTHERS)
def test_ids_of_another_models_calls_are_made_acceptable_with_their_results(other: Model) -> None:
    messages: list[Message] = [answer(call("a|b"), call("c")), result("c"), result("a|b")]

    assert briefly(context(*messages, target=other, normal_id=lambda each: each.replace("|", "_") + "!")) == [
        "assistant a_b! c!",
        "result a_b!",
        "result c!",
    ]


def test_the_models_own_ids_are_left_alone() -> None:
    assert briefly(context(answer(call("a|b")), result("a|b"), normal_id=str.upper)) == ["assistant a|b", "result a|b"]


# Calls and results


def test_a_call_without_a_result_gets_one_that_says_so() -> None:
    messages = context(answer(call("c1"), call("c2")), result("c1"), user(text_block("go on")))

    assert briefly(messages) == ["assistant c1 c2", "result c1", "result c2", "user"]
    assert messages[2] == {
        "role": "toolResult",
        "toolCallId": "c2",
        "toolName": "read",
        "content": [text_block("No result provided")],
        "isError": True,
        "timestamp": 7,
    }


@pytest.mark.parametrize("after", [[], [answer(text_block("next"))], [user(text_block("next"))], [shell()]])
def test_whatever_follows_an_orphan_it_gets_its_result_first(after: list[Message]) -> None:
    assert briefly(context(answer(call("c1")), *after))[:2] == ["assistant c1", "result c1"]


def test_results_stand_right_behind_their_calls_in_the_order_of_the_calls() -> None:
    messages = context(answer(call("c1"), call("c2")), shell(), result("c2"), user(text_block("steer")), result("c1"))

    assert briefly(messages) == ["assistant c1 c2", "result c1", "result c2", "user", "user"]


def test_a_result_without_a_call_is_left_out() -> None:
    assert briefly(context(result("c0"), user(text_block("a")), result("c1"), answer(text_block("b")))) == [
        "user",
        "assistant",
    ]


def test_a_result_belongs_to_the_answer_before_it() -> None:
    messages = context(answer(call("c1")), answer(call("c1")), result("c1", text_block("second")))

    assert [message["content"] for message in messages if message["role"] == "toolResult"] == [
        [text_block("No result provided")],
        [text_block("second")],
    ]


def test_of_two_results_with_the_same_id_one_belongs_to_each_call() -> None:
    messages = context(answer(call("c"), call("c")), result("c", text_block("1")), result("c", text_block("2")))

    assert [message["content"] for message in messages[1:]] == [[text_block("1")], [text_block("2")]]


def test_calls_with_the_same_id_or_none_get_distinct_ids_with_their_results() -> None:
    """Sessions hold them, and servers refuse a request with two calls of one id for ever."""
    messages = context(
        answer(call("c"), call("c"), call(""), call("")),
        *(
            result("c", text_block("1")),
            result("c", text_block("2")),
            result("", text_block("3")),
            result("", text_block("4")),
        ),
    )

    ids = briefly(messages)[0].split()[1:]
    assert ids[0] == "c"
    assert len(set(ids)) == 4
    assert briefly(messages)[1:] == [f"result {each}" for each in ids]
    assert [message["content"] for message in messages[1:]] == [[text_block(each)] for each in "1234"]
    assert context(*messages) == messages


MESSAGES = st.one_of(
    st.just(user(text_block("u"))),
    st.just(shell()),
    st.builds(
        lambda ids, stop: answer(*map(call, ids), stop=stop),
        st.lists(st.sampled_from(["", "a", "b", "a_2"]), max_size=3),
        st.sampled_from(["stop", "toolUse", "aborted"]),
    ),
    st.sampled_from(["", "a", "b", "c"]).map(result),
)


@given(st.lists(MESSAGES, max_size=8), st.sampled_from([OWN, *OTHERS]))
def test_every_call_has_exactly_its_results_right_behind_it(messages: list[Message], target: Model) -> None:
    expected: list[str] = []
    said: list[str] = []
    for message in context(*messages, target=target):
        if message["role"] == "toolResult":
            said.append(message["toolCallId"])
        else:
            assert said == expected
            said = []
            expected = ids_of(message) if message["role"] == "assistant" else []
            assert len(expected) == len(set(expected))
    assert said == expected


CONTROLS = frozenset(chr(code) for code in range(0x20)) - frozenset("\t\n\r")
dirty = st.text(st.sampled_from("ab é\0\x07\b\x1b[]m;31\r\n\t\x9b\x0c\x1f\ufff9\ud800"), max_size=12)


def strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for each in value.items() for text in strings(list(each))]
    return [text for each in value for text in strings(each)] if isinstance(value, list) else []


@given(st.lists(dirty, min_size=9, max_size=9), st.sampled_from([OWN, OTHERS[0]]))
def test_no_message_for_a_model_holds_a_control_character(texts: list[str], target: Model) -> None:
    """R-TOL-11: whatever tools, users and other programs have left in a session."""
    spoken: AssistantContent = {"type": "text", "text": texts[0]}
    thought: AssistantContent = {"type": "thinking", "thinking": texts[1]}
    called = cast("ToolCall", {**call("c1"), "arguments": {texts[2]: [texts[3], {"deep": texts[3]}]}})
    rest = {"timestamp": 0, "fromId": "x", "tokensBefore": 0}
    messages: list[Message] = [
        user(texts[4]),
        cast("Message", {**user(""), "content": [text_block(texts[4]), IMAGE]}),
        answer(spoken, thought, called),
        result("c1", text_block(texts[5])),
        shell(output=texts[6], command=texts[6]),
        cast("Message", {"role": "custom", "customType": "x", "content": texts[7], "display": True, **rest}),
        cast("Message", {"role": "branchSummary", "summary": texts[8], **rest}),
        cast("Message", {"role": "compactionSummary", "summary": texts[8], **rest}),
    ]

    for text in strings([dict(message) for message in context(*messages, target=target)]):
        assert CONTROLS.isdisjoint(text)
        assert text.count("\r") == text.count("\r\n")


@given(st.text(st.sampled_from("ab é\r\n\t[31m\x7f"), max_size=20))
def test_a_text_without_control_characters_is_sent_as_it_is(text: str) -> None:
    """R-TOL-11: line ends of files too."""
    text = text.replace("\r", "\r\n")
    messages: list[Message] = [
        user(text),
        answer(text_block(text), call("c1", name=text)),
        result("c1", text_block(text)),
    ]

    assert context(*messages) == messages


def test_what_a_call_was_is_shown_and_what_is_signed_is_left() -> None:
    """R-TOL-11: a call without its controls would be another one, and a signature would no longer fit."""
    signed: AssistantContent = {"type": "thinking", "thinking": "a\0b", "thinkingSignature": "s"}
    made = cast("ToolCall", {**call("c1"), "arguments": {"command": "printf '\x1b[0m\r\n'"}})
    [sent, _] = context(answer(signed, made))

    assert sent["content"] == [signed, {**made, "arguments": {"command": "printf '␛[0m\r\n'"}}]
