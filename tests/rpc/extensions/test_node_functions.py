"""The functions of pi's packages that are ours, beside the original's own in one process with the same inputs."""

import json
from pathlib import Path
from typing import Final

import pytest
from tests.rpc.extensions.conftest import Start, call, go
from tests.source_tree import DATA

FUNCTIONS: Final = DATA / "functions-of-pi"
COMPARING: Final = f"""
import * as ours from "@earendil-works/pi-coding-agent";
import {{ compare }} from "{FUNCTIONS}/compare.mjs";
import {{ cases }} from "{FUNCTIONS}/CASES.mjs";
export default (api) => api.registerCommand("go", {{ async handler(_text, ctx) {{
  const found = await compare(cases, await import("ORIGINAL"), ours, {{ cwd: ctx.cwd }});
  ctx.ui.notify(JSON.stringify(found));
}} }});
"""


@pytest.mark.parametrize("cases", ["sessions", "texts", "components", "clients"])
def test_functions_return_what_those_of_the_original_do(scripted: Start, original_sdk: Path, cases: str) -> None:
    """Of tables and of generated inputs; the files of the cases say of which."""
    found = go(scripted(COMPARING.replace("CASES", cases).replace("ORIGINAL", str(original_sdk))))
    shown = [
        "\n".join([f"{name}, in pi:", *each["wanted"], "ours:", *each["found"]])
        for name, each in found["different"].items()
    ]
    assert not shown, "\n\n".join(shown)
    assert found["count"] > 0
    assert found["failed"] * 4 <= found["all"]  # else what is compared is that both refuse


def test_summaries_are_requested_and_put_together(extended: Start, node_program: str) -> None:
    """With a stream of the extension, and else by the agent's provider, with its key."""
    script = [{"text": "by the agent"}]
    one = extended(FUNCTIONS / "summaries.ts", script, env={"PINNACE_NODE": node_program})
    found, asked = go(one)
    both = found["both"]
    text, *files = both["summary"].partition("\n\n<read-files>")
    assert text.startswith("history\n\n---\n\n")
    assert text.endswith("prefix")
    assert "\n\n<read-files>\nr\n</read-files>\n\n<modified-files>\nw\n</modified-files>" == "".join(files)
    assert {"readFiles": ["r"], "modifiedFiles": ["w"]} == both["details"]
    assert ("k", 7) == (both["firstKeptEntryId"], both["tokensBefore"])
    assert (6, 2) == (both["usage"]["totalTokens"], both["usage"]["cost"]["total"])
    assert "Summarization failed: down" == found["failed"]
    assert "limit" in found["full"]
    assert "called a tool" in found["called"]
    assert "firstKeptEntryId" in found["unprepared"]
    assert found["branch"]["summary"].endswith("Summary of that exploration:\n\nwas left")
    assert [[], []] == [found["branch"]["readFiles"], found["branch"]["modifiedFiles"]]
    assert {"aborted": True} == found["aborted"]
    assert {"error": "Branch summarization failed: Unknown error"} == found["broken"]
    assert {"summary": "No content to summarize"} == found["empty"]
    assert "by the agent" == found["text"]
    history, prefix = asked[:2]
    assert [True, "low", "key"] == [history[0], *history[2:]]
    assert all(part in history[1] for part in ("[User]: begin", "<previous-summary>\nbefore", "focus: focus"))
    assert "[User]: turn" in prefix[1]
    assert "previous-summary" not in prefix[1]
    [replaced] = [each[1] for each in asked if "only this" in each[1]]
    assert "<conversation>\n[User]: left\n</conversation>\n\nonly this" == replaced
    (request,) = one.pi.llm.requests
    assert "through the agent" in str(request.body["messages"])
    assert "tools" not in request.body


def test_sessions_of_extensions_come_to_their_context(scripted: Start) -> None:
    """`buildContextEntries` and `buildSessionProjection` of the user's session, and of a `SessionManager`."""
    one = scripted(
        """
        import { SessionManager } from "@earendil-works/pi-coding-agent";
        const user = (content) => ({ role: "user", content });
        const message = (id, parentId, content) => ({ type: "message", id, parentId, message: user(content) });
        const compaction = { type: "compaction", id: "3", parentId: "2", summary: "s", firstKeptEntryId: "2",
          timestamp: "2026-01-01" };
        export default (pi) => pi.registerCommand("go", { async handler(_text, ctx) {
          const entries = [message("1", null, "old"), message("2", "1", "kept"), compaction];
          const made = SessionManager.inMemory("/", {}, entries);
          const shown = (manager) => [
            manager.buildContextEntries().map((each) => each.type),
            manager.buildSessionProjection().messages.map((each) => each.role),
            manager.buildSessionContext().messages.length,
          ];
          await ctx.newSession({ setup: async (manager) => manager.appendMessage(user("mine")),
            withSession: async (ctx) => {
              ctx.ui.notify(JSON.stringify([shown(made), made instanceof SessionManager, shown(ctx.sessionManager)]));
            },
          });
        } });
        """
    )
    one.begin("/go")
    made, is_instance, own = json.loads(one.notice())
    assert [["compaction", "message"], ["compactionSummary", "user"], 2] == made
    assert is_instance
    assert "message" in own[0]
    assert [["user"], 1] == own[1:]


def test_modules_are_loaded_with_the_first_use_of_a_name(scripted: Start) -> None:
    """An extension that imports a name and does not use it pays for none."""
    one = scripted(
        """
        import path from "node:path";
        import { createRequire } from "node:module";
        import { estimateTokens, findCutPoint, SessionManager } from "@earendil-works/pi-coding-agent";
        const { cache } = createRequire(import.meta.url);
        const loaded = () => Object.keys(cache).map((each) => path.basename(each, ".cjs"));
        export default (pi) => pi.registerCommand("go", { async handler(_text, ctx) {
          const before = loaded();
          const size = estimateTokens({ role: "user", content: "12345" });
          const after = loaded().filter((each) => !before.includes(each));
          ctx.ui.notify(JSON.stringify([before, after, [typeof estimateTokens, estimateTokens.name, size]]));
        } });
        """
    )
    before, added, values = go(one)
    assert "coding-agent" in before
    assert not {"compaction", "session-context", "session-manager", "agent-session"} & set(before)
    assert {"compaction", "session-context"} <= set(added)
    assert ["function", "estimateTokens", 2] == values


def test_a_drawn_difference_marks_the_words_that_changed(scripted: Start) -> None:
    one = scripted(
        r"""
        import { renderDiff } from "@earendil-works/pi-coding-agent";
        const marks = (text) => [...text.matchAll(/\x1b\[7m(.*?)\x1b\[27m/g)].map((found) => found[1]);
        export default (pi) => pi.registerCommand("go", { async handler(_text, ctx) {
          const changed = ["-1 one two three\n+1 one 2 three", "-1   a = b;\n+1     a = c;", "-1 a\n-2 b\n+1 c"];
          ctx.ui.notify(JSON.stringify(changed.map((each) => marks(renderDiff(each)))));
        } });
        """
    )
    assert [["two", "2"], ["b", "c"], []] == go(one)


def test_a_text_is_put_into_the_clipboard_by_a_program(scripted: Start, tmp_path: Path) -> None:
    """And what no program takes is refused."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, command in (("wl-copy", f"cat > '{tmp_path}/copied'"), ("xclip", "exit 1"), ("xsel", "exit 2")):
        (programs / name).write_text(f"#!/bin/sh\n{command}\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    one = scripted(
        f"""
        import {{ copyToClipboard }} from "@earendil-works/pi-coding-agent";
        export default (pi) => pi.registerCommand("go", {{ async handler(_text, ctx) {{
          for (const each of ["WAYLAND_DISPLAY", "TERMUX_VERSION"]) delete process.env[each];
          process.env.DISPLAY = ":0";
          process.env.PATH = "{programs}:" + process.env.PATH;
          const refused = await copyToClipboard("x").catch((error) => error.message);
          process.env.WAYLAND_DISPLAY = "here";
          await copyToClipboard("copied é");
          ctx.ui.notify(JSON.stringify(refused));
        }} }});
        """
    )
    assert "no program of this machine" in go(one)
    assert "copied é" == (tmp_path / "copied").read_text(encoding="utf-8")


def test_models_and_keys_are_those_of_the_agent(extended: Start, node_program: str) -> None:
    one = extended(FUNCTIONS / "models.ts", [{"text": "by the agent"}], env={"PINNACE_NODE": node_program})
    found = go(one)
    assert 1 == len(set(found["sizes"]))
    assert 1 == len(set(found["available"]))
    assert [] == found["none"]
    assert ["m1", "m1"] == found["model"]
    assert 1 == len(set(found["keys"]))
    assert found["keys"][0]
    assert [True, False, True, True] == found["has"]
    assert [{"configured": False}, None, None] == found["status"]
    assert [True] * 4 == found["kinds"]
    assert "by the agent" == found["answer"]
    names = ["credentials", "modelsPath", "login", "registerProvider", "set", "inMemory", "pinnace trust"]
    assert [True] * len(names) == [name in text for name, text in zip(names, found["refusals"], strict=True)]


def test_a_client_of_rpc_has_an_agent_with_no_more_rights(scripted: Start) -> None:
    """R-EXT-27: without a program it is one of pinnace, in mode rpc, with the approval of tools of the one above."""
    one = scripted(
        """
        import { RpcClient } from "@earendil-works/pi-coding-agent";
        export default (pi) => pi.registerCommand("go", { async handler(_text, ctx) {
          const model = { provider: ctx.model.provider, model: ctx.model.id };
          const client = new RpcClient({ ...model, cwd: ctx.cwd, args: ["--no-session", "--no-extensions"] });
          await client.start();
          const questions = [];
          client.onEvent((event) => {
            if (event.method !== "select") return;
            questions.push(event.title);
            void client.abort();
          });
          const events = await client.promptAndWait("hello");
          await client.promptAndWait("again");
          const state = await client.getState();
          const text = await client.getLastAssistantText();
          const failure = await client.setModel("absent", "none").catch((error) => error.message);
          await client.stop();
          ctx.ui.notify(JSON.stringify([events.at(-1).type, state.model.id, text, questions.length, failure]));
        } });
        """,
        [call("bash", command="echo done"), {"text": "by the other"}],
        "--tool-approval",
        "ask",
    )
    found = go(one)
    assert ["agent_settled", "m1", "by the other", 1] == found[:-1]
    assert "absent" in found[-1]
