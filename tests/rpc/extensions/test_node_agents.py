"""`pi-agent-core` for extensions: runs beside those of the original, and an agent on the user's model."""

import json
from typing import Final

from tests.rpc.extensions.conftest import Start, call, go
from tests.source_tree import DATA

LOOPS: Final = DATA / "functions-of-pi" / "loops.mjs"
OF_THE_ORIGINAL: Final = DATA / "pi-agent-core-runs-of-pi-1.5.2.json"
KINDS: Final = {"agent", "call", "loop"}
RUNNING: Final = f"""
import * as core from "@earendil-works/pi-agent-core";
import {{ digests }} from "{LOOPS}";
export default (api) => api.registerCommand("go", {{ async handler(_text, ctx) {{
  ctx.ui.notify(JSON.stringify(await digests(core, COUNT)));
}} }});
"""


def test_generated_runs_come_to_what_they_come_to_in_the_original(scripted: Start) -> None:
    """With failures, hooks, queues and aborts: `tests/data/pi_agent_core_runs.mjs` shows one of them."""
    wanted = json.loads(OF_THE_ORIGINAL.read_text(encoding="utf-8"))
    assert set(wanted) == KINDS
    found = go(scripted(RUNNING.replace("COUNT", str(len(wanted["loop"])))))
    different = {kind: [seed for seed, each in enumerate(wanted[kind]) if each != found[kind][seed]] for kind in KINDS}
    assert {kind: [] for kind in KINDS} == different


def test_an_agent_asks_the_users_model_and_calls_tools_of_the_extension(scripted: Start) -> None:
    """Without a stream of its own: through the agent, with its key, and not into its session."""
    one = scripted(
        """
        import { Agent } from "@earendil-works/pi-agent-core";
        import { Type } from "typebox";
        export default (pi) => pi.registerCommand("go", { async handler(_text, ctx) {
          const count = {
            name: "count", label: "Count", description: "Counts.", parameters: Type.Object({ to: Type.Number() }),
            execute: async (_id, { to }) => ({ content: [{ type: "text", text: `counted to ${to}` }], details: {} }),
          };
          const agent = new Agent({ initialState: { systemPrompt: "You count.", model: ctx.model, tools: [count] } });
          const shown = [];
          agent.subscribe((event) => void (event.type === "message_end" && shown.push(event.message.role)));
          await agent.prompt("count to three");
          const last = agent.state.messages.at(-1);
          const entries = ctx.sessionManager.getEntries().length;
          ctx.ui.notify(JSON.stringify([shown, last.content[0].text, last.stopReason, entries]));
        } });
        """,
        [call("count", to=3), {"text": "three"}],
    )
    shown, text, reason, entries = go(one)
    assert ["user", "assistant", "toolResult", "assistant"] == shown
    assert ["three", "stop"] == [text, reason]
    first, second = [json.dumps(each.body) for each in one.pi.llm.requests]
    assert "You count." in first
    assert "Counts." in first
    assert "counted to 3" in second
    assert entries == 0


def test_an_agent_that_is_aborted_ends_with_what_it_has(scripted: Start) -> None:
    one = scripted(
        """
        import { Agent } from "@earendil-works/pi-agent-core";
        export default (pi) => pi.registerCommand("go", { async handler(_text, ctx) {
          const agent = new Agent({ initialState: { model: ctx.model } });
          agent.subscribe((event) => void (event.type === "message_update" && agent.abort()));
          await agent.prompt("begin");
          ctx.ui.notify(JSON.stringify([agent.state.messages.at(-1).stopReason, agent.state.isStreaming]));
        } });
        """,
        [{"chunks": [{"text": "the begin"}, {"gate": "never"}]}],
    )
    assert ["aborted", False] == go(one)


def test_a_loop_that_fails_ends_its_events_and_is_reported(scripted: Start) -> None:
    """In the original they have no end."""
    one = scripted(
        """
        import { agentLoop } from "@earendil-works/pi-agent-core";
        export default (pi) => pi.registerCommand("go", { async handler(_text, ctx) {
          const config = { model: ctx.model, convertToLlm: (messages) => messages };
          const failing = async () => { throw new Error("no stream"); };
          const shown = [];
          const stream = agentLoop([{ role: "user", content: "x" }], { messages: [] }, config, undefined, failing);
          for await (const event of stream) shown.push(event.type);
          ctx.ui.notify(JSON.stringify([shown.at(-1), await stream.result()]));
        } });
        """
    )
    assert ["message_end", []] == go(one)
    assert "no stream" in str(one.pi.wait({"type": "extension_error"}, since=0)["error"])
