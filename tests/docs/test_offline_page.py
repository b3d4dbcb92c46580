"""docs/offline.md: the offline model holds every conversation of the page and plays every script."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
import trio
from trio.testing import MockClock

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.offline.provider import DELAY_VARIABLE, SCRIPT_VARIABLE, OfflineProvider, offline_model
from pinnace_agent.llm.offline.script import TURN_KEYS
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_spec.records.messages import AssistantMessage, Message

DOCUMENT = (Path(__file__).parents[2] / "docs" / "offline.md").read_text()
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Nothing that is scripted takes as long; what lasts longer hangs.
PATIENCE_S = 1_000


class Example(NamedTuple):
    line: int
    script: str | None
    kind: str
    conversation: str


def examples() -> list[Example]:
    found: list[Example] = []
    script, kind = None, ""
    for fence in FENCE.finditer(DOCUMENT):
        line = DOCUMENT.count("\n", 0, fence.start()) + 1
        if fence[1] == "sh":
            continue
        if fence[1]:
            assert script is None, f"the script before line {line} has no conversation"
            kind, script = fence[1], fence[2]
        elif fence[2].startswith("> "):
            found.append(Example(line, script, kind, fence[2]))
            script, kind = None, ""
    assert script is None, "the last script has no conversation"
    return found


class Recorder:
    """Keeps the deltas of text and thoughts, each block as `one|two` if some delta is no word."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.deltas: dict[int, list[str]] = {}

    def started(self, message: AssistantMessage) -> None:
        self.scope.deadline = trio.current_time() + PATIENCE_S

    def update(self, event: Mapping[str, object], builder: MessageBuilder) -> None:
        if event["type"] in {"text_delta", "thinking_delta"}:
            self.deltas.setdefault(int(str(event["contentIndex"])), []).append(str(event["delta"]))

    async def room(self) -> None:
        await trio.lowlevel.checkpoint()


async def answer(provider: OfflineProvider, request: LlmRequest) -> tuple[AssistantMessage, list[str], list[str]]:
    """Return the message, what it did, and the same with deltas shown."""
    recorder = Recorder()
    builder = MessageBuilder(request.model, recorder, 0)
    with recorder.scope:
        await provider.stream(request, builder)
    end = ["hangs"]
    if builder.is_finished:
        final = builder.message
        end = [" ".join(["ends", final["stopReason"], final.get("errorMessage", "")]).rstrip()]
    message = builder.snapshot()
    plain: list[str] = []
    cut: list[str] = []
    for index, block in enumerate(message["content"]):
        if block["type"] == "toolCall":
            said = [f"calls {block['name']} {json.dumps(block['arguments'])}"] * 2
        else:
            verb = "says" if block["type"] == "text" else "thinks"
            said = [f"{verb} {joint.join(recorder.deltas[index])}" for joint in ("", "|")]
        plain.append(said[0])
        cut.append(said[1])
    return message, plain + end, cut + end


def as_shown(line: str, file: Path) -> str:
    return line.replace(str(file), "FILE").replace("\n", "\\n").rstrip()


@pytest.mark.parametrize("example", examples(), ids=lambda example: f"line {example.line}")
async def test_the_model_answers_as_a_conversation_of_the_page_shows(
    example: Example, tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SCRIPT_VARIABLE, raising=False)
    monkeypatch.delenv(DELAY_VARIABLE, raising=False)
    file = tmp_path / f"script.{example.kind}"
    if example.script is not None:
        file.write_text(example.script)
    model = offline_model("rehearsal" if example.script is None else str(file))
    tools = [ToolSpec(name, "", {}) for name in ("bash", "read")]
    provider = OfflineProvider()
    messages: list[Message] = []
    parts = re.split(r"^([>=]) (.*)\n", example.conversation, flags=re.MULTILINE)[1:]
    for number, (mark, words, shown) in enumerate(zip(parts[::3], parts[1::3], parts[2::3], strict=True)):
        if mark == ">":
            messages.append({"role": "user", "content": words, "timestamp": number})
        else:
            last = messages[-1]
            assert last["role"] == "assistant"
            (call,) = [block for block in last["content"] if block["type"] == "toolCall"]
            messages.append(
                {
                    "role": "toolResult",
                    "toolCallId": call["id"],
                    "toolName": call["name"],
                    "content": [{"type": "text", "text": words}],
                    "isError": False,
                    "timestamp": number,
                }
            )
        request = LlmRequest(model, "", tuple(messages), tools, "medium", None, {}, "s")
        message, plain, cut = await answer(provider, request)
        messages.append(message)
        expected = shown.splitlines()
        is_cut = any("|" in line for line in expected if not line.startswith("ends "))
        assert expected == [as_shown(line, file) for line in (cut if is_cut else plain)]


COMMANDS = re.findall(r"^```sh\npinnace (.*)\n```$", DOCUMENT, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_answers_a_prompt(command: str, tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text("- text: [scripted]")
    env = {name: value for name, value in os.environ.items() if name != SCRIPT_VARIABLE} | {DELAY_VARIABLE: "0"}
    agent = subprocess.run(
        [sys.executable, "-P", "-m", "pinnace_rpc", *command.split(), "--on-eof", "drain"],
        input=b'{"type": "prompt", "message": "hello"}\n',
        capture_output=True,
        cwd=tmp_path,
        env=env | {"PI_CODING_AGENT_DIR": str(tmp_path)},
        check=True,
        timeout=60,
    )

    ends = [record for record in map(json.loads, agent.stdout.splitlines()) if record["type"] == "message_end"]
    (block,) = ends[-1]["message"]["content"]
    assert block["text"].startswith("scripted" if "script.yaml" in command else 'You said: "hello"')


def test_there_are_examples() -> None:
    found = examples()

    assert len(COMMANDS) == 2
    assert len(found) >= 12
    assert {each.kind for each in found} == {"", "yaml", "json"}


def test_every_key_of_a_turn_is_described() -> None:
    described = set(re.findall(r"^\| `(\w+)` \| ", DOCUMENT, re.MULTILINE))

    assert set(TURN_KEYS) | {SCRIPT_VARIABLE, DELAY_VARIABLE} == described - {"think"}
