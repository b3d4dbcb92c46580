"""The offline model: scripts played, prompts answered, cancelled, held back."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import trio
from tests.agent.samples import text_of
from trio.testing import MockClock, wait_all_tasks_blocked

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.offline.provider import (
    DELAY_MS,
    DELAY_VARIABLE,
    OFFLINE_MODEL,
    SCRIPT_VARIABLE,
    OfflineProvider,
    offline_model,
)
from pinnace_agent.llm.providers import SUPPORTED_APIS, find_provider, unsupported_api
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_spec.records.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingLevel,
    ToolResultMessage,
    UserMessage,
)

TOOLS = (ToolSpec("bash", "", {}), ToolSpec("read", "", {}))
IMAGE: ImageContent = {"type": "image", "data": "AAAA", "mimeType": "image/png"}


class Recorder:
    """Writes each event down with the time, and can be closed."""

    def __init__(self, limit: trio.CancelScope | None = None, limit_s: float = 0) -> None:
        """Cancel `limit` a time after the start: before it a thread reads the script, in no time that is known."""
        self.limit = limit
        self.limit_s = limit_s
        self.starts: list[float] = []
        self.words: list[str] = []
        self.times: list[float] = []
        self.rooms = 0
        self.is_open = trio.Event()
        self.is_open.set()

    def started(self, message: AssistantMessage) -> None:
        self.starts.append(trio.current_time())
        if self.limit is not None:
            self.limit.deadline = trio.current_time() + self.limit_s

    def update(self, event: Mapping[str, object], builder: MessageBuilder) -> None:
        what = event.get("delta", event.get("content", event.get("toolName", "")))
        self.words.append(f"{event['type']} {event['contentIndex']} {what}".rstrip())
        self.times.append(trio.current_time())

    async def room(self) -> None:
        self.rooms += 1
        await trio.lowlevel.checkpoint()
        await self.is_open.wait()


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SCRIPT_VARIABLE, raising=False)
    monkeypatch.setenv(DELAY_VARIABLE, "0")


def user(text: str, *images: ImageContent, timestamp: int = 0) -> UserMessage:
    block: TextContent = {"type": "text", "text": text}
    return {"role": "user", "content": [block, *images], "timestamp": timestamp}


def result(call_id: str, text: str, *, is_error: bool = False) -> ToolResultMessage:
    return {
        "role": "toolResult",
        "toolCallId": call_id,
        "toolName": "bash",
        "content": [{"type": "text", "text": text}],
        "isError": is_error,
        "timestamp": 0,
    }


def request(*messages: Message, script: Path | None = None, level: ThinkingLevel = "medium") -> LlmRequest:
    model = OFFLINE_MODEL if script is None else offline_model(str(script))
    return LlmRequest(model, "Be brief.", messages, TOOLS, level, None, {}, "session")


async def ask(provider: OfflineProvider, asked: LlmRequest, recorder: Recorder | None = None) -> AssistantMessage:
    builder = MessageBuilder(asked.model, recorder or Recorder(), 0)
    await provider.stream(asked, builder)
    assert builder.is_finished
    return builder.message


async def rehearse(*messages: Message, level: ThinkingLevel = "medium") -> AssistantMessage:
    return await ask(OfflineProvider(), request(*messages, level=level))


def calls_of(message: AssistantMessage) -> list[tuple[str, str, dict[str, object]]]:
    return [(each["id"], each["name"], each["arguments"]) for each in message["content"] if each["type"] == "toolCall"]


class Stage:
    """A script in a file, and a provider that plays it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.provider = OfflineProvider()

    def write(self, script: str) -> None:
        self.path.write_text(script)

    async def ask(
        self, prompt: str = "hi", recorder: Recorder | None = None, level: ThinkingLevel = "medium"
    ) -> AssistantMessage:
        return await ask(self.provider, request(user(prompt), script=self.path, level=level), recorder)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path / "script.yaml")


# Scripts


async def test_a_turn_says_its_thoughts_its_text_and_its_calls_in_this_order(stage: Stage) -> None:
    stage.write("- {thinking: [hm], text: [Hel, lo], tools: [{name: bash, arguments: {command: ls -la /tmp}}]}")
    recorder = Recorder()
    message = await stage.ask(recorder=recorder)

    assert recorder.words == [
        *("thinking_start 0", "thinking_delta 0 hm", "thinking_end 0 hm"),
        *("text_start 1", "text_delta 1 Hel", "text_delta 1 lo", "text_end 1 Hello"),
        *(
            "toolcall_start 2 bash",
            'toolcall_delta 2 {"command":"',
            'toolcall_delta 2 ls -la /tmp"',
            "toolcall_delta 2 }",
        ),
        "toolcall_end 2",
    ]
    assert message["stopReason"] == "toolUse"
    assert calls_of(message) == [("call_1", "bash", {"command": "ls -la /tmp"})]


async def test_thoughts_are_not_said_when_thinking_is_off(stage: Stage) -> None:
    stage.write("- {thinking: hm, text: a}")

    assert [block["type"] for block in (await stage.ask(level="off"))["content"]] == ["text"]


async def test_turns_are_played_one_after_the_other_and_then_the_rehearsal_answers(stage: Stage) -> None:
    stage.write("- text: one\n- {text: two, repeat: 2}\n")

    assert [text_of(await stage.ask()) for _ in range(3)] == ["one", "two", "two"]
    assert text_of(await stage.ask()).startswith('You said: "hi"')


async def test_a_turn_for_ever_is_never_used_up(stage: Stage) -> None:
    stage.write("- {text: again, repeat: forever}\n- text: never\n")

    assert [text_of(await stage.ask()) for _ in range(4)] == ["again"] * 4


async def test_a_turn_with_a_pattern_waits_for_a_prompt_that_fits(stage: Stage) -> None:
    stage.write("- {match: '^bye', text: farewell}\n- text: hello\n")

    assert text_of(await stage.ask("hi")) == "hello"
    assert text_of(await stage.ask("Bye now")) == "farewell"


async def test_requests_for_a_summary_use_up_no_turn_without_a_pattern(stage: Stage) -> None:
    stage.write("- text: for the user\n- {match: <conversation>, text: for the summary}\n")

    assert text_of(await stage.ask("<conversation>\n...\n</conversation>")) == "for the summary"
    assert text_of(await stage.ask("<conversation>\n...\n</conversation>")).startswith("Rehearsal summary: 3 lines")
    assert text_of(await stage.ask()) == "for the user"


async def test_a_script_that_is_written_anew_starts_again(stage: Stage) -> None:
    stage.write("- text: old\n")
    assert text_of(await stage.ask()) == "old"

    stage.write("- text: a newer one\n")
    assert text_of(await stage.ask()) == "a newer one"


async def test_calls_without_an_id_get_one_that_the_conversation_has_not_seen(stage: Stage) -> None:
    stage.write("- {tools: [{name: bash}, {name: bash, id: mine}, {name: bash}], repeat: forever}")
    first = await stage.ask()
    second = await ask(stage.provider, request(user("hi"), first, result("call_1", ""), script=stage.path))

    assert [each[0] for each in calls_of(first)] == ["call_1", "mine", "call_3"]
    assert [each[0] for each in calls_of(second)] == ["call_4", "mine", "call_6"]


@pytest.mark.parametrize(
    ("turn", "stop"),
    [("text: a", "stop"), ("tools: [{name: a}]", "toolUse"), ("{text: a, stop: length}", "length")],
)
async def test_a_turn_ends_as_it_says_or_as_its_content_does(turn: str, stop: str, stage: Stage) -> None:
    stage.write(f"- {turn}\n")

    assert (await stage.ask())["stopReason"] == stop


async def test_usage_is_the_scripts_or_an_estimate(stage: Stage) -> None:
    stage.write("- {text: abcdefgh, usage: {input: 5, output: 6, cache_read: 7, cache_write: 8}}\n- text: abcdefgh\n")
    scripted = (await stage.ask())["usage"]
    estimated = (await stage.ask())["usage"]

    assert [scripted[name] for name in ("input", "output", "cacheRead", "cacheWrite")] == [5, 6, 7, 8]
    assert scripted["totalTokens"] == 26
    assert estimated["output"] == 2
    assert 10 < estimated["input"] < 100
    assert scripted["cost"]["total"] == estimated["cost"]["total"] == 0


async def test_an_error_with_a_status_comes_before_anything_is_said(stage: Stage) -> None:
    stage.write("- {text: never, error: {status: 529, message: Overloaded}}\n")
    recorder = Recorder()
    message = await stage.ask(recorder=recorder)

    assert (message["stopReason"], message.get("errorMessage")) == ("error", '529: {"message":"Overloaded"}')
    assert (recorder.starts, recorder.words) == ([], [])


async def test_an_error_without_a_status_comes_after_everything_is_said(stage: Stage) -> None:
    stage.write("- {text: half, error: Connection lost}\n")
    message = await stage.ask()

    assert (message["stopReason"], message.get("errorMessage")) == ("error", "Connection lost")
    assert text_of(message) == "half"


async def test_a_script_that_is_wrong_is_an_error_at_every_request(stage: Stage) -> None:
    stage.write("- txet: a\n")

    for _ in range(2):
        message = await stage.ask()
        assert message["stopReason"] == "error"
        assert f"Offline script {stage.path}: turns[0]: unknown key txet" in message.get("errorMessage", "")


@pytest.mark.parametrize("path", ["no/such.yaml", "~nobody-of-that-name/s.yaml", "a\0b.yaml", "~/no-such-script.yaml"])
async def test_a_script_that_is_not_there_is_an_error(path: str) -> None:
    message = await ask(OfflineProvider(), request(user("hi"))._replace(model=offline_model(path)))

    assert message.get("errorMessage", "").startswith("Offline script ")


async def test_the_variable_names_the_script_of_the_built_in_model(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.write("- text: from the variable\n")
    monkeypatch.setenv(SCRIPT_VARIABLE, str(stage.path))

    assert text_of(await rehearse(user("hi"))) == "from the variable"


async def test_the_home_folder_may_be_a_tilde(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.write("- text: from home\n")
    monkeypatch.setenv("HOME", str(stage.path.parent))

    model = offline_model(f"~/{stage.path.name}")
    assert text_of(await ask(OfflineProvider(), request(user("hi"))._replace(model=model))) == "from home"


def test_a_scripts_model_is_named_after_its_file() -> None:
    assert offline_model("rehearsal") == OFFLINE_MODEL
    model = offline_model("some/where.yaml")
    assert (model["id"], model["name"], model["api"]) == ("some/where.yaml", "Offline script where.yaml", "offline")


async def test_half_a_character_of_a_script_reaches_the_client_whole(stage: Stage) -> None:
    stage.path = stage.path.with_suffix(".json")
    stage.write('[{"text": ["a\\ud83d", "\\ude00"], "tools": [{"name": "\\ud83d"}]}]')
    message = await stage.ask()

    assert text_of(message) == "a\U0001f600"
    assert calls_of(message)[0][1] == "\ufffd"


# Time


async def test_every_delta_waits_its_time(stage: Stage, autojump_clock: MockClock) -> None:
    stage.write("- {text: [a, b, c], delay_ms: 1000, start_delay_ms: 5000}\n")
    recorder = Recorder()
    start_s = trio.current_time()
    await stage.ask(recorder=recorder)

    assert [round(each - start_s) for each in recorder.starts] == [5]
    assert [round(time_s - start_s) for time_s in recorder.times] == [6, 6, 7, 8, 8]


@pytest.mark.parametrize(
    ("script", "variable", "delay_ms"),
    [
        ("[{text: [a, b], delay_ms: 3}]", "7", 3),
        ("{delay_ms: 4, turns: [{text: [a, b], delay_ms: 3}]}", "7", 3),
        ("{delay_ms: 4, turns: [{text: [a, b]}]}", "7", 4),
        ("[{text: [a, b]}]", "7", 7),
        ("[{text: [a, b]}]", "fast", DELAY_MS),
        ("[{text: [a, b]}]", "-5", 0),
    ],
)
async def test_the_nearest_delay_counts(
    script: str,
    variable: str,
    delay_ms: float,
    stage: Stage,
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(DELAY_VARIABLE, variable)
    stage.write(script)
    recorder = Recorder()
    await stage.ask(recorder=recorder)

    assert recorder.times[-1] - recorder.times[1] == pytest.approx(delay_ms / 1000)


async def test_a_turn_that_hangs_says_everything_and_waits_to_be_cancelled(
    stage: Stage, autojump_clock: MockClock
) -> None:
    stage.write("- {text: [a], hang: true}\n")
    asked = request(user("hi"), script=stage.path)
    with trio.CancelScope() as scope:
        builder = MessageBuilder(asked.model, Recorder(scope, 1_000_000), 0)
        await stage.provider.stream(asked, builder)

    assert scope.cancelled_caught
    assert not builder.is_finished
    assert text_of(builder.snapshot()) == "a"
    assert builder.usage["output"] == 1


# Cancellation and back-pressure


@pytest.mark.parametrize("seconds", [0.5, 1.5, 2.5, 3.5, 4.5])
async def test_cancelling_leaves_the_message_as_it_was(seconds: float, stage: Stage, autojump_clock: MockClock) -> None:
    stage.write("- {text: [a, b], tools: [{name: bash, arguments: {command: echo hello}}], delay_ms: 1000}\n")
    asked = request(user("hi"), script=stage.path)
    with trio.CancelScope() as scope:
        recorder = Recorder(scope, seconds)
        builder = MessageBuilder(asked.model, recorder, 0)
        await stage.provider.stream(asked, builder)
    words = list(recorder.words)
    await trio.sleep(100)

    assert scope.cancelled_caught
    assert not builder.is_finished
    assert recorder.words == words
    assert len(text_of(builder.snapshot())) == min(int(seconds), 2)
    builder.abort()
    assert builder.message["stopReason"] == "aborted"


async def test_room_is_awaited_before_every_delta(stage: Stage) -> None:
    stage.write("- {text: [a, b, c], tools: [{name: bash, arguments: {command: echo hello}}]}\n")
    recorder = Recorder()
    await stage.ask(recorder=recorder)

    assert recorder.rooms >= sum("_delta" in word for word in recorder.words) > 3


async def test_nothing_is_said_while_there_is_no_room(stage: Stage) -> None:
    stage.write("- {text: [a, b, c]}\n")
    recorder = Recorder()
    recorder.is_open = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.ask, "hi", recorder)
        while not recorder.rooms:
            await wait_all_tasks_blocked()
        assert recorder.words == []
        recorder.is_open.set()

    assert recorder.words[-1] == "text_end 0 abc"


# Rehearsal


async def test_a_prompt_is_answered_with_what_it_says() -> None:
    assert text_of(await rehearse(user("Hello,\n  world"))).startswith('You said: "Hello, world". ')
    assert text_of(await rehearse(user(""))).startswith("You said nothing. ")
    assert text_of(await rehearse(user("x" * 500))).startswith(f'You said: "{"x" * 200}…". ')


async def test_images_of_a_prompt_are_counted() -> None:
    assert text_of(await rehearse(user("see", IMAGE))).startswith('You said: "see", with 1 image. ')
    assert text_of(await rehearse(user("", IMAGE, IMAGE))).startswith("You said nothing, with 2 images. ")


async def test_the_same_prompt_has_the_same_answer() -> None:
    assert (await rehearse(user("think")))["content"] == (await rehearse(user("think")))["content"]


async def test_commands_and_files_in_backquotes_are_calls() -> None:
    message = await rehearse(user("Please run `ls -la`, then RUN `pwd` and read `a b.txt`."))

    assert calls_of(message) == [
        ("call_1", "bash", {"command": "ls -la"}),
        ("call_2", "bash", {"command": "pwd"}),
        ("call_3", "read", {"path": "a b.txt"}),
    ]
    assert text_of(message) == "I make 3 calls at once: bash, bash, read."
    assert message["stopReason"] == "toolUse"


async def test_there_is_an_end_to_the_calls_of_one_prompt() -> None:
    assert len(calls_of(await rehearse(user("run `x` " * 50)))) == 8


async def test_a_tool_that_the_session_does_not_have_is_not_called() -> None:
    asked = request(user("run `ls`"))._replace(tools=())
    message = await ask(OfflineProvider(), asked)

    assert calls_of(message) == []
    assert text_of(message) == "I would call the tool bash, but this session does not have it."


async def test_results_are_reported() -> None:
    prompt = user("run `seq 12` and run `false`")
    called = await rehearse(prompt)
    output = "\n".join(map(str, range(1, 13)))
    message = await rehearse(prompt, called, result("call_1", output), result("call_2", "", is_error=True))

    first_lines = "\n".join(map(str, range(1, 11)))
    assert text_of(message) == (
        f"`seq 12` is done. It said:\n\n{first_lines}\n(2 more lines)\n\n`false` failed; it said nothing."
    )


async def test_thinking_is_asked_for_by_the_word_and_by_the_level() -> None:
    thoughtful = await rehearse(user("think hard"))
    level_off = await rehearse(user("think hard"), level="off")

    assert [block["type"] for block in thoughtful["content"]] == ["thinking", "text"]
    assert [block["type"] for block in level_off["content"]] == ["text"]
    assert [block["type"] for block in (await rehearse(user("rethinking")))["content"]] == ["text"]


async def test_counting_is_a_delta_a_number() -> None:
    recorder = Recorder()
    message = await ask(OfflineProvider(), request(user("count to 12")), recorder)

    assert text_of(message) == "1 2 3 4 5 6 7 8 9 10 11 12 "
    assert sum("text_delta" in word for word in recorder.words) == 12


async def test_a_failure_that_is_asked_for_happens_once_for_each_prompt() -> None:
    provider = OfflineProvider()
    first = await ask(provider, request(user("fail with 503", timestamp=1)))
    second = await ask(provider, request(user("fail with 503", timestamp=1)))
    third = await ask(provider, request(user("fail with 503", timestamp=2)))

    assert first["stopReason"] == third["stopReason"] == "error"
    assert first.get("errorMessage") == '503: {"message":"The rehearsal fails with 503, as asked"}'
    assert text_of(second).startswith("This time it works. ")


async def test_a_summary_is_given_when_one_is_asked_for() -> None:
    message = await rehearse(user("<conversation>\nrun `rm -rf /`\n</conversation>\nSummarise."))

    assert text_of(message).startswith("Rehearsal summary: 4 lines")
    assert calls_of(message) == []


async def test_what_the_user_ran_in_the_shell_is_a_prompt_too() -> None:
    message = await rehearse(
        {
            "role": "bashExecution",
            "command": "ls",
            "output": "x",
            "exitCode": 0,
            "cancelled": False,
            "truncated": False,
            "timestamp": 0,
        }
    )

    assert text_of(message).startswith('You said: "Ran `ls` ``` x ```"')


async def test_no_conversation_at_all_has_an_answer() -> None:
    assert text_of(await rehearse()).startswith("You said nothing. ")


# Which providers there are


@pytest.mark.parametrize("api", SUPPORTED_APIS)
def test_every_supported_api_has_one_provider(api: str) -> None:
    provider = find_provider(api)

    assert provider is not None
    assert find_provider(api) is provider


def test_any_other_api_has_none_and_is_refused_by_name() -> None:
    assert find_provider("telepathy") is None
    assert unsupported_api("telepathy").text == (
        f"The API telepathy is not supported; this release speaks {', '.join(SUPPORTED_APIS)}."
    )
