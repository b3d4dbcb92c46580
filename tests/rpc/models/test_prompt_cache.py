"""A session costs no more than the same session of the original, by a simulated prompt cache.

Generated sessions: prompts with calls, changes of model and thinking, forks, compactions, commands of the client, an
extension whose tools, messages and part of the system prompt come and go, also with the extension, and pauses in which
a cache ends. HYPOTHESIS_PROFILE=long has 1,000 of them.
"""

import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from tests.agent.llm.prompt_cache import Bill, PromptCache
from tests.rpc.conftest import COMMAND, ENVIRONMENT, write_loader

from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.records import Record
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

pytestmark = pytest.mark.peer
PARTS, SESSIONS = (10, 100) if os.environ.get("HYPOTHESIS_PROFILE") == "long" else (1, 6)
"""How often there are how many: all of them in one test would take longer than a test may."""
SEED: Final = 14
LARGEST_TEXT: Final = 6_000
KINDS: Final = tuple(
    "say say say say call call call model thinking fork compact bash choose register remark order reload".split()
)
EXTENSION: Final = """export default (pi) => {
  let order = "";
  const tool = (name) => ({
    name, label: name, description: `Looks ${name} up.`, parameters: { type: "object", properties: {} },
    execute: async () => ({ content: [{ type: "text", text: name }], details: {} }),
  });
  const command = (name, change) => pi.registerCommand(name, {
    description: name,
    handler: async (text, ctx) => { await change(text); ctx.ui.notify("done"); },
  });
  pi.registerTool(tool("found"));
  pi.on("before_agent_start", (event) => order ? { systemPrompt: `${event.systemPrompt}\\n\\n${order}` } : undefined);
  command("choose", async (names) => pi.setActiveTools(names.split(" ")));
  command("register", async (name) => pi.registerTool(tool(name)));
  command("remark", async (content) => pi.sendMessage({ customType: "remark", content, display: false }));
  command("order", async (text) => { order = text; });
  pi.registerCommand("reload", { description: "reload", handler: async (_, ctx) => ctx.reload() });
  pi.on("session_start", (event, ctx) => { if (event.reason === "reload") ctx.ui.notify("done"); });
};
"""
"""Its commands change what the requests begin with, and say when they have: the original answers before."""
SETTINGS: Final = {"defaultProvider": "fake", "defaultModel": "m1"}
"""A model on the command line would be that of each fork in the original."""
RULES: Final = "Change only what was asked for. " * 70
"""A context file, as most projects have one: where a prompt is shorter than what the server keeps, the longer prompt of
the original is kept and costs less, whatever is marked."""
PAUSES_S: Final = (1.0, 1.0, 1.0, 20.0, 200.0, 400.0, 4000.0)


class Step(NamedTuple):
    """A command, what the model answers meanwhile, and how long nothing happened before."""

    command: Record
    script: tuple[Scripted, ...] = ()
    pause_s: float = 1.0


def models(base_url: str) -> Record:
    """Describe two models of Anthropic's, at a local server."""
    model = {"reasoning": True, "contextWindow": 200_000, "maxTokens": 8192, "input": ["text"]}
    return {
        "providers": {
            "fake": {
                "baseUrl": base_url,
                "api": "anthropic-messages",
                "apiKey": "sk-ant-api03-0123456789",
                "models": [{"id": name, **model} for name in ("m1", "m2")],
            }
        }
    }


def session(chance: random.Random) -> Iterator[Step]:
    """Generate the steps of one session."""
    yield Step({"type": "new_session"})
    # The original begins a session with what its settings say, and this program with what was chosen last.
    yield Step({"type": "set_model", "provider": "fake", "modelId": "m1"})
    yield Step({"type": "set_thinking_level", "level": "low"})
    # A reload activates tools of extensions that were deselected in the original alone: the choice is made again there.
    again: list[Step] = []
    for number in range(chance.randint(3, 9)):
        pause_s = chance.choice(PAUSES_S)
        match chance.choice(KINDS):
            case "model":
                yield Step({"type": "set_model", "provider": "fake", "modelId": chance.choice(("m1", "m2"))})
            case "thinking":
                yield Step({"type": "set_thinking_level", "level": chance.choice(("off", "low", "high"))})
            case "fork" if number > 1:
                yield Step({"type": "fork"})
            case "compact" if number > 1:
                yield Step({"type": "compact"}, tuple({"text": text(chance, 800)} for _ in range(3)), pause_s)
            case "bash":
                yield Step({"type": "bash", "command": f"echo {text(chance, 300)}"})
            case "choose":
                names = [name for name in ("read", "edit", "write", "found") if chance.random() < 0.7]
                again = [extension_command("choose", " ".join(["bash", *names]))]
                yield from again
            case "register":
                yield extension_command("register", f"found_{chance.randint(1, 3)}")
            case "remark":
                yield extension_command("remark", text(chance, 600))
            case "order":
                yield extension_command("order", text(chance, 600))
            case "reload":
                yield extension_command("reload")
                yield from again
            case kind:
                calls = chance.randint(1, 6) if kind == "call" else 0
                script = [*(calling(chance, each) for each in range(calls)), {"text": text(chance, 1500)}]
                yield Step({"type": "prompt", "message": text(chance, LARGEST_TEXT)}, tuple(script), pause_s)


def extension_command(name: str, arguments: str = "") -> Step:
    return Step({"type": "prompt", "message": f"/{name} {arguments}".rstrip()})


def calling(chance: random.Random, number: int) -> Scripted:
    words = text(chance, 3000)
    calls = [
        {"name": "bash", "args": {"command": f"echo {each} {words}"}, "id": f"toolu_{number}_{each}"}
        for each in range(chance.choice((1, 1, 2, 12)))
    ]
    return {"text": text(chance, 200), "tool_calls": calls}


def text(chance: random.Random, most: int) -> str:
    """Return words, no two texts alike."""
    return " ".join(f"{chance.getrandbits(32):x}" for _ in range(chance.randint(1, max(1, most // 9))))


class Account:
    """One program with a cache of its own."""

    def __init__(self, agent: HomedAgent) -> None:
        self._agent = agent
        self._cache = PromptCache()
        self._now_s = 0.0
        self._billed = 0

    def play(self, steps: list[Step]) -> list[Bill]:
        """Play a session and return the bill of each step."""
        self._cache = PromptCache()
        return [self._step(step) for step in steps]

    def tools(self) -> set[str]:
        """Return the names of all tools that were sent."""
        bodies: list[Mapping[str, Any]] = [each.body for each in self._agent.llm.requests]
        return {tool["name"] for body in bodies for tool in body.get("tools", ())}

    def _step(self, step: Step) -> Bill:
        agent, llm = self._agent, self._agent.llm
        llm.forget()
        for scripted in step.script:
            llm.add(scripted)
        command: dict[str, Any] = dict(step.command)
        if command["type"] == "fork":
            found = agent.ask("get_fork_messages")["messages"]
            if not found:
                return Bill()
            command["entryId"] = found[-1]["entryId"]
        mark = agent.mark()
        response = agent.request(command)
        if command["type"] == "prompt":
            assert response["success"], response
            done = {"type": "extension_ui_request", "message": "done"}
            agent.wait({"type": "agent_settled"} if step.script else done, since=mark)
        bill = Bill()
        self._now_s += step.pause_s
        for request in llm.requests[self._billed :]:
            bill += self._cache.bill(request.body, self._now_s)
            self._now_s += 3.0
        self._billed = len(llm.requests)
        return bill


@pytest.mark.parametrize("part", range(PARTS))
def test_a_session_costs_no_more_than_with_the_original(
    part: int, llm: Callable[[Iterable[Scripted]], FakeLlm], original_pi: list[str], tmp_path: Path
) -> None:
    chance = random.Random(SEED + part)
    extension = tmp_path / "changes.ts"
    extension.write_text(EXTENSION)
    environment = {**ENVIRONMENT, "PINNACE_NODE": original_pi[0], "NODE_PATH": str(write_loader(tmp_path / "modules"))}
    with (
        AgentStarter(COMMAND, tmp_path / "own", environment) as own,
        AgentStarter(original_pi, tmp_path / "pi", environment) as pi,
    ):
        accounts: list[Account] = []
        for starter in (own, pi):
            server = llm([])
            accounts.append(
                Account(
                    starter(
                        server,
                        "-e",
                        str(extension),
                        models=models(server.base_url),
                        settings=SETTINGS,
                        files={"AGENTS.md": RULES},
                        has_session=True,
                        names_model=False,
                    )
                )
            )
        for number in range(SESSIONS):
            steps = list(session(chance))
            ours, theirs = (sum(account.play(steps), Bill()) for account in accounts)
            assert ours.price <= theirs.price, (number, [step.command for step in steps])
        for account in accounts:
            assert any(name.startswith("found_") for name in account.tools()), "the extension has changed nothing"
