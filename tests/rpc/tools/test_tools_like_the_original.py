"""Tools, models and levels of branches beside the original 1.5.2, each program with its own and with the other's files.

Left out is what D-96 and D-97 name: choices that no request has followed, and a model on the command line.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.rpc.conftest import COMMAND, ENVIRONMENT, write_loader

from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.records import Record
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

pytestmark = pytest.mark.peer
EXTENSION = """export default (pi) => {
  const tool = (name) => ({
    name, label: name, description: `Looks ${name} up.`, parameters: { type: "object", properties: {} },
    execute: async () => ({ content: [{ type: "text", text: name }], details: {} }),
  });
  const command = (name, change) => pi.registerCommand(name, {
    description: name,
    handler: async (text, ctx) => { await change(text, ctx); ctx.ui.notify(pi.getActiveTools().sort().join(" ")); },
  });
  pi.registerTool(tool("found"));
  command("choose", async (names) => pi.setActiveTools(names.split(" ")));
  command("active", async () => {});
  command("go", async (id, ctx) => { await ctx.navigateTree(id, {}); });
};
"""
SETTINGS = {"defaultProvider": "fake", "defaultModel": "m1"}


class Seen(NamedTuple):
    """What a session is continued with."""

    tools: str
    model: str
    level: str


def command(pi: HomedAgent, text: str) -> str:
    """Give a command of the extension; return the tools that are active behind it."""
    mark = pi.mark()
    pi.ask("prompt", message=text)
    return str(pi.wait({"type": "extension_ui_request", "method": "notify"}, since=mark)["message"])


def seen(pi: HomedAgent) -> Seen:
    state = pi.ask("get_state")
    return Seen(command(pi, "/active"), state["model"]["id"], state["thinkingLevel"])


def converse(pi: HomedAgent) -> tuple[str, list[str]]:
    """Have three prompts, each with other tools, a model and a level; return the file and the prompts' entries."""
    pi.say("one")
    command(pi, "/choose bash ls found")
    pi.ask("set_model", provider="fake", modelId="m2")
    pi.ask("set_thinking_level", level="high")
    pi.say("two")
    command(pi, "/choose read")
    pi.ask("set_thinking_level", level="low")
    pi.say("three")
    ids = [str(each["entryId"]) for each in pi.ask("get_fork_messages")["messages"]]
    return str(pi.ask("get_state")["sessionFile"]), ids


def visit(pi: HomedAgent, file: str, ids: list[str]) -> dict[str, Seen]:
    """Go to the branches of a session by every way; return what is seen at each."""
    found = {"opened": seen(pi)}
    pi.ask("fork", entryId=ids[2])
    found["fork of the last"] = seen(pi)
    pi.ask("fork", entryId=ids[1])
    found["fork of a fork"] = seen(pi)
    pi.ask("switch_session", sessionPath=file)
    found["switch"] = seen(pi)
    command(pi, f"/go {ids[1]}")
    found["move"] = seen(pi)
    command(pi, f"/go {ids[2]}")
    found["move forward"] = seen(pi)
    return found


@pytest.mark.parametrize("writer", ["ours", "theirs"])
def test_a_session_has_the_same_tools_in_both_programs(
    writer: str, llm: Callable[[Iterable[Scripted]], FakeLlm], original_pi: list[str], tmp_path: Path
) -> None:
    """R-SET-09, R-SET-10: in the one that has written it and in the one that opens it."""
    extension = tmp_path / "choosing.ts"
    extension.write_text(EXTENSION)
    environment = {**ENVIRONMENT, "PINNACE_NODE": original_pi[0], "NODE_PATH": str(write_loader(tmp_path / "modules"))}
    server = llm([{"text": "fine", "repeat": -1}])
    model = {"reasoning": True, "contextWindow": 200_000, "maxTokens": 8192, "input": ["text"]}
    provider: Record = {"baseUrl": f"{server.base_url}/v1", "api": "openai-completions", "apiKey": "sk-fake"}
    models = {"providers": {"fake": {**provider, "models": [{"id": name, **model} for name in ("m1", "m2")]}}}
    with (
        AgentStarter(COMMAND, tmp_path / "own", environment) as own,
        AgentStarter(original_pi, tmp_path / "pi", environment) as pi,
    ):

        def start(starter: AgentStarter, *flags: str) -> HomedAgent:
            return starter(
                server,
                "-e",
                str(extension),
                *flags,
                models=models,
                settings=SETTINGS,
                has_session=True,
                names_model=False,
            )

        first, second = (own, pi) if writer == "ours" else (pi, own)
        writing = start(first)
        file, ids = converse(writing)
        copy = tmp_path / "copy.jsonl"
        copy.write_bytes(Path(file).read_bytes())
        reading = start(second, "--session", str(copy))
        found, other = visit(writing, file, ids), visit(reading, str(copy), ids)
        writing.check_end()
        reading.check_end()
    assert found == other
    assert "read" == found["opened"].tools
    assert Seen("bash found ls", "m2", "high") == found["fork of a fork"]
