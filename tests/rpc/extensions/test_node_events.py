"""Handlers of extensions in TypeScript: each event with a result, as the agent applies it."""

import json

import pytest
from tests.rpc.extensions.conftest import Start, call, text_of
from tests.source_tree import REPOSITORY

REMOVE = [call("bash", command="rm -rf build"), {"text": "done"}]


def handler(event: str, body: str) -> str:
    return f'export default (pi) => {{ pi.on("{event}", async (event, ctx) => {{ {body} }}); }};'


def test_a_gate_blocks_a_call_with_its_reason(scripted: Start) -> None:
    one = scripted(
        handler("tool_call", "if (event.input.command.includes('rm')) return { block: true, reason: 'never' };"), REMOVE
    )
    (one.work / "build").mkdir()
    one.say("clean up")
    assert [("never", True)] == one.ends
    assert (one.work / "build").exists()


def test_the_gate_of_the_page_asks(scripted: Start) -> None:
    page = (REPOSITORY / "docs" / "typescript-extensions.md").read_text()
    one = scripted(page.partition("```ts\n")[2].partition("```")[0], REMOVE)
    done = one.begin("clean up")
    one.reply(one.asked("confirm"), confirmed=False)
    one.accepted(done)
    one.pi.wait({"type": "agent_settled"}, since=0)
    assert [("Blocked by the user", True)] == one.ends


def test_a_gate_that_throws_blocks_and_is_reported(scripted: Start) -> None:
    one = scripted(handler("tool_call", "null.x;"), REMOVE)
    one.say("clean up")
    [(text, is_error)] = one.ends
    assert is_error
    assert "Cannot read properties of null" in text
    [(event, error)] = one.errors
    assert "tool_call" == event
    assert error.startswith("Cannot read properties of null")


def test_a_gate_that_returns_nonsense_blocks(scripted: Start) -> None:
    one = scripted(handler("tool_call", "return { blocked: true };"), REMOVE)
    one.say("clean up")
    assert [True] == [is_error for _, is_error in one.ends]


def test_a_gate_asks_the_user(scripted: Start) -> None:
    """Its question is answered while the call waits; a signal or a timeout gives it up."""
    body = """
        const answer = await ctx.ui.select("Run it?", ["Yes", "No"], { timeout: 60000 });
        if (answer !== "Yes") return { block: true, reason: `said ${answer}` };
    """
    one = scripted(
        handler("tool_call", body),
        [call("bash", command="echo ran"), call("bash", command="echo ran"), {"text": "done"}],
    )
    command = one.begin("go")
    question = one.asked("select")
    assert ("Run it?", ["Yes", "No"], 60_000) == (question["title"], question["options"], question["timeout"])
    one.reply(question, value="Yes")
    one.reply(one.asked("select"), cancelled=True)
    one.accepted(command)
    one.pi.wait({"type": "agent_settled"})
    assert [("ran", False), ("said undefined", True)] == [(text.strip(), is_error) for text, is_error in one.ends]


def test_a_handler_changes_the_arguments_of_a_call_in_place(scripted: Start) -> None:
    one = scripted(handler("tool_call", "event.input.command = 'echo safe';"), REMOVE)
    one.say("clean up")
    assert [("safe", False)] == [(text.strip(), is_error) for text, is_error in one.ends]


def test_an_invalid_change_of_arguments_denies_the_call(scripted: Start) -> None:
    one = scripted(handler("tool_call", "event.input = { command: 7 };"), REMOVE)
    one.say("clean up")
    assert [True] == [is_error for _, is_error in one.ends]


def test_a_handler_changes_a_result(scripted: Start) -> None:
    body = (
        "return { content: [{ type: 'text', text: event.content[0].text.replace('secret', '***') }], isError: true };"
    )
    one = scripted(handler("tool_result", body), [call("bash", command="echo secret"), {"text": "done"}])
    one.say("go")
    assert [("***", True)] == [(text.strip(), is_error) for text, is_error in one.ends]


def test_context_is_changed_in_place_or_by_a_result(scripted: Start) -> None:
    text = """
        export default (pi) => {
          pi.on("context", (event) => { event.messages[0].content = [{ type: "text", text: "first" }]; });
          const last = { role: "user", content: "last", timestamp: 1 };
          pi.on("context", (event) => ({ messages: [...event.messages, last] }));
        };
    """
    one = scripted(text, [{"text": "done"}])
    one.say("go")
    assert ["first", "last"] == one.user_messages


def test_before_agent_start_adds_a_message_and_changes_the_prompt(scripted: Start) -> None:
    body = """
        const seen = ctx.getSystemPrompt() === event.systemPrompt;
        return { systemPrompt: event.systemPrompt + `\\nspeak like a pirate ${seen} ${event.prompt}`,
                 message: { customType: "note", content: "mind this", display: true } };
    """
    one = scripted(handler("before_agent_start", body), [{"text": "done"}])
    one.say("go")
    assert one.prompt.endswith("speak like a pirate true go")
    assert ["go", "mind this"] == one.user_messages


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return { action: 'transform', text: event.text.toUpperCase() };", ["GO"]),
        ("return { action: 'continue' };", ["go"]),
        ("", ["go"]),
    ],
    ids=["transform", "continue", "nothing"],
)
def test_input_is_changed_or_left(scripted: Start, body: str, expected: list[str]) -> None:
    one = scripted(handler("input", body), [{"text": "done"}])
    one.say("go")
    assert expected == one.user_messages


def test_input_is_handled_without_a_run(scripted: Start) -> None:
    one = scripted(handler("input", "ctx.ui.notify(`${event.source}: ${event.text}`); return { action: 'handled' };"))
    one.command("go")
    assert "rpc: go" == one.notice()
    assert not one.pi.llm.requests


def test_the_request_of_a_model_is_changed(scripted: Start) -> None:
    text = """
        export default (pi) => {
          pi.on("before_provider_headers", (event) => { event.headers["x-mine"] = "yes"; });
          pi.on("before_provider_request", (event) => { event.payload.temperature = 0.25; });
          pi.on("after_provider_response", (event, ctx) => ctx.ui.notify(`status ${event.status}`));
        };
    """
    one = scripted(text, [{"text": "done"}])
    one.say("go")
    request = one.pi.llm.requests[-1]
    assert 0.25 == request.body["temperature"]
    assert "yes" == {name.lower(): value for name, value in request.headers.items()}["x-mine"]
    assert "status 200" == one.notice()


def test_events_of_a_run_come_in_order(scripted: Start) -> None:
    names = [
        "session_start",
        "agent_start",
        "turn_start",
        "message_start",
        "message_end",
        "tool_execution_start",
        "tool_execution_end",
        "turn_end",
        "agent_end",
        "agent_settled",
    ]
    text = f"""
        const seen: string[] = [];
        export default (pi) => {{
          for (const name of {json.dumps(names)}) pi.on(name, (event) => void seen.push(event.type));
          pi.registerCommand("seen", {{ handler: async (_args, ctx) => ctx.ui.notify(seen.join(" ")) }});
        }};
    """
    one = scripted(text, [call("bash", command="true"), {"text": "done"}])
    one.say("go")
    one.command("/seen")
    message = "message_start message_end"
    assert one.notice() == (
        f"session_start agent_start turn_start {message} {message} tool_execution_start tool_execution_end {message} "
        f"turn_end turn_start {message} turn_end agent_end agent_settled"
    )


def test_message_end_replaces_a_message(scripted: Start) -> None:
    body = """
        if (event.message.role !== "assistant") return;
        return { message: { ...event.message, content: [{ type: "text", text: "replaced" }] } };
    """
    one = scripted(handler("message_end", body), [{"text": "done"}])
    one.say("go")
    ends = one.pi.found({"type": "message_end"})
    assert "replaced" == text_of(ends[-1]["message"])


def test_replacing_the_session_is_cancelled(scripted: Start) -> None:
    one = scripted(handler("session_before_switch", "return { cancel: event.reason === 'new' };"))
    assert one.pi.ask("new_session")["cancelled"]


def test_a_compaction_is_performed_by_an_extension(scripted: Start) -> None:
    body = """
        const { firstKeptEntryId, tokensBefore, fileOps, messagesToSummarize } = event.preparation;
        const summary = `mine ${messagesToSummarize.length > 0} ${fileOps.read instanceof Set} ${event.signal.aborted}`;
        return { compaction: { summary, firstKeptEntryId, tokensBefore } };
    """
    long = "word " * 4000
    settings = {"compaction": {"keepRecentTokens": 10, "reserveTokens": 10}}
    one = scripted(handler("session_before_compact", body), [{"text": long}, {"text": long}], settings=settings)
    one.say("one")
    one.say("two")
    assert "mine true true false" == one.pi.ask("compact")["summary"]


def test_resources_are_discovered_beside_the_extension(scripted: Start) -> None:
    body = "return { promptPaths: ['more/hello.md'] };"
    text = handler("resources_discover", body).replace(
        "export default",
        'import fs from "node:fs";\nfs.mkdirSync(__dirname + "/more", { recursive: true });\n'
        'fs.writeFileSync(__dirname + "/more/hello.md", "Say hello");\nexport default',
    )
    one = scripted(text)
    assert ["hello"] == [each["name"] for each in one.pi.ask("get_commands")["commands"]]


def test_a_shell_command_of_the_user_is_run_elsewhere(scripted: Start) -> None:
    """By operations of the extension, whose output comes as it is made."""
    body = """
        const result = { output: "at once", exitCode: 0, cancelled: false, truncated: false };
        if (event.command === "finished") return { result };
        const exec = async (command, cwd, { onData }) => {
          onData(Buffer.from(`ran ${command}`));
          return { exitCode: 3 };
        };
        return { operations: { exec } };
    """
    one = scripted(handler("user_bash", body))
    ran = one.pi.ask("bash", command="ls")
    assert ("ran ls", 3) == (ran["output"], ran["exitCode"])
    assert "at once" == one.pi.ask("bash", command="finished")["output"]


def test_an_unknown_event_is_a_notice(scripted: Start) -> None:
    one = scripted(handler("tool_calls", ""))
    one.pi.ask("get_state")
    assert "did you mean 'tool_call'" in one.pi.stderr_text


def test_a_handler_is_removed(scripted: Start) -> None:
    text = """
        export default (pi) => {
          const remove = pi.on("input", (event, ctx) => { ctx.ui.notify(event.text); remove(); });
        };
    """
    one = scripted(text, [{"text": "a"}, {"text": "b"}])
    one.say("one")
    one.say("two")
    assert ["one"] == [each["message"] for each in one.frames("notify")]
