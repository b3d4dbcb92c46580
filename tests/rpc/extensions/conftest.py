"""Real agents with extensions, as a client sees them."""

import itertools
import json
import subprocess
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Unpack

import pytest
from tests.rpc.conftest import COMMAND, CONVERSATION_TIMEOUT_S

from pinnace_fuzz.harness.adapters import HomeOptions, PreparedHome
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.records import Record
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

EXAMPLES = Path(__file__).parents[3] / "examples" / "extensions"


class Extended:
    """An agent with extensions, and its client."""

    def __init__(self, agent: HomedAgent) -> None:
        self.pi = agent
        self._numbers = itertools.count(1)

    # Commands of the client.

    def begin(self, text: str, **fields: object) -> str:
        """Send a prompt and return its id, without waiting: a command of an extension is answered when it has ended."""
        command_id = f"prompt-{next(self._numbers)}"
        self.pi.send({"id": command_id, "type": "prompt", "message": text, **fields})
        return command_id

    def accepted(self, command_id: str) -> None:
        response = self.pi.wait_response(command_id)
        assert response["success"], str(response)

    def say(self, text: str) -> None:
        """Send a prompt and wait until the agent has settled."""
        mark = self.pi.mark()
        self.accepted(self.begin(text))
        self.pi.wait({"type": "agent_settled"}, since=mark)

    def command(self, text: str) -> None:
        """Send a command of an extension that opens no dialog, and wait until it has ended."""
        self.accepted(self.begin(text))

    def reply(self, request: Record, **answer: object) -> None:
        """Answer a dialog."""
        self.pi.send({"type": "extension_ui_response", "id": request["id"], **answer})

    # Records for the client.

    def asked(self, method: str) -> Record:
        """Wait for the next `extension_ui_request` of a method."""
        return self.pi.wait({"type": "extension_ui_request", "method": method})

    def notice(self) -> str:
        """Wait for the next shown message."""
        return str(self.asked("notify")["message"])

    def frames(self, *methods: str) -> list[Record]:
        """Return the `extension_ui_request`s so far, optionally of some methods."""
        return [
            each for each in self.pi.found({"type": "extension_ui_request"}) if each["method"] in methods or not methods
        ]

    @property
    def errors(self) -> list[tuple[str, str]]:
        """The errors of extensions so far: event and message."""
        return [(each["event"], each["error"]) for each in self.pi.found({"type": "extension_error"})]

    @property
    def ends(self) -> list[tuple[str, bool]]:
        """The text of each tool result so far, and whether it is an error."""
        found = self.pi.found({"type": "tool_execution_end"})
        return [(text_of(each["result"]), each["isError"]) for each in found]

    @property
    def read(self) -> list[str]:
        """The tool results in the last request."""
        messages = self.pi.llm.requests[-1].body["messages"]
        return [_content(message) for message in messages if message["role"] == "tool"]

    @property
    def prompt(self) -> str:
        """The system prompt of the last request."""
        return _content(self.pi.llm.requests[-1].body["messages"][0])

    @property
    def user_messages(self) -> list[str]:
        """The user messages in the last request."""
        messages = self.pi.llm.requests[-1].body["messages"]
        return [_content(message) for message in messages if message["role"] == "user"]

    @property
    def declared(self) -> list[str]:
        """The tools that the last request declares."""
        return [tool["function"]["name"] for tool in self.pi.llm.requests[-1].body["tools"]]

    @property
    def work(self) -> Path:
        return self.pi.home.work


def go(one: Extended, arguments: str = "") -> Any:
    """Run the command `/go` of an extension; return what it shows next, which is JSON."""
    one.begin(f"/go {arguments}")
    return json.loads(one.notice())


def text_of(result: Record) -> str:
    return "".join(block["text"] for block in result["content"] if block["type"] == "text")


def _content(message: Record) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "".join(block["text"] for block in content if block["type"] == "text")


def call(name: str, **arguments: object) -> dict[str, object]:
    """A scripted answer that calls one tool."""
    return calls((name, arguments))


def calls(*each: tuple[str, dict[str, object]]) -> dict[str, object]:
    """A scripted answer that calls several tools."""
    return {"tool_calls": [{"name": name, "args": arguments} for name, arguments in each]}


def rejected_provider(fields: str) -> str:
    """Return an extension that registers a provider with wrong fields, and shows the error."""
    return f"""
        def extension(pi):
            try:
                pi.register_provider("x", base_url="http://127.0.0.1", {fields})
            except TypeError as error:
                rejected = str(error)

            @pi.on("session_start")
            def started(ctx, event):
                ctx.ui.notify(rejected)
    """


def run_to_end(home: PreparedHome, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the command line in a home until it ends, with empty stdin."""
    return subprocess.run(
        [*COMMAND, *arguments],
        env=home.env,
        cwd=home.work,
        capture_output=True,
        text=True,
        timeout=CONVERSATION_TIMEOUT_S,
        check=False,
        input="",
    )


Start = Callable[..., Extended]
MakeExtension = Callable[..., Path]


@pytest.fixture
def extended(agent: AgentStarter) -> Start:
    """Starts an agent with extensions: names of examples, or paths."""

    def start(
        extensions: str | Path | Iterable[str | Path],
        script: Iterable[Scripted] | FakeLlm = (),
        *flags: str,
        again: HomedAgent | None = None,
        is_checked: bool = True,
        **options: Unpack[HomeOptions],
    ) -> Extended:
        wanted = [extensions] if isinstance(extensions, str | Path) else list(extensions)
        words = [
            word for each in wanted for word in ("-e", str(EXAMPLES / each))
        ]  # an absolute path replaces the folder
        if again is not None:
            return Extended(agent((), *words, *flags, again=again, is_checked=is_checked))
        return Extended(agent(script, *words, *flags, is_checked=is_checked, **options))

    return start


@pytest.fixture
def scripted(extended: Start, written: MakeExtension, node_program: str) -> Start:
    """Starts an agent with one extension in TypeScript: its text, then what `extended` takes."""

    def start(text: str, script: Iterable[Scripted] | FakeLlm = (), *flags: str, **options: Any) -> Extended:
        env = {"PINNACE_NODE": node_program, **options.pop("env", {})}
        return extended(written(text, "extension.ts"), script, *flags, env=env, **options)

    return start


@pytest.fixture
def changed(tmp_path: Path) -> MakeExtension:
    """Makes a copy of an example with other values of its constants, such as time limits."""

    def make(name: str, **replaced: str) -> Path:
        text = (EXAMPLES / name).read_text(encoding="utf-8")
        for key, value in replaced.items():
            [line] = [each for each in text.splitlines() if each.startswith(f"{key} = ")]
            text = text.replace(line, f"{key} = {value}")
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return make


@pytest.fixture
def written(tmp_path: Path) -> MakeExtension:
    """Writes an extension."""
    numbers = itertools.count(1)

    def make(text: str, name: str | None = None) -> Path:
        path = tmp_path / (name or f"written_{next(numbers)}.py")
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return make
