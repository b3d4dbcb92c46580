"""Sessions that an extension makes itself (`createAgentSession`): agents of their own, with no more rights."""

import json
from pathlib import Path

import pytest
from tests.rpc.extensions.conftest import Start, call, go

PRELUDE = """
import {
  createAgentSession, createExtensionRuntime, DefaultResourceLoader, SessionManager,
} from "@earendil-works/pi-coding-agent";
"""


def command(body: str) -> str:
    """An extension with a command `/go`, whose body sees `ctx` and shows what it returns."""
    return f"""{PRELUDE}
        export default (pi) => pi.registerCommand("go", {{
          async handler(args, ctx) {{
            const run = async () => {{ {body} }};
            ctx.ui.notify(JSON.stringify(await run().catch((error) => `failed: ${{error.message}}`)));
          }},
        }});
    """


def test_a_session_in_memory_has_a_conversation_and_leaves_nothing(scripted: Start, tmp_path: Path) -> None:
    one = scripted(
        command("""
            const { session } = await createAgentSession({
              sessionManager: SessionManager.inMemory(), model: ctx.model, tools: [],
              resourceLoader: new DefaultResourceLoader({ noExtensions: true, systemPrompt: "Be a clerk." }),
            });
            const seen = [];
            const stop = session.subscribe((event) => seen.push(event.type));
            await session.prompt("first");
            const events = new Set(seen);
            stop();
            await session.prompt("second");
            const { assistantMessages, tokens } = session.getSessionStats();
            session.dispose();
            const again = await session.prompt("third").catch((error) => error.message);
            return [
              session.messages.map((each) => each.role), session.getLastAssistantText(), session.isIdle,
              session.sessionFile ?? null,
              ["agent_start", "message_update", "message_end", "agent_settled"].every((each) => events.has(each)),
              assistantMessages, tokens.output > 0, again,
            ];
        """),
        [{"text": "one"}, {"text": "two"}],
    )
    before = {each.name for each in one.pi.home.temp.iterdir()}

    assert [
        ["user", "assistant", "user", "assistant"], "two", True, None, True, 2, True, "this session is disposed",
    ] == go(one)  # fmt: skip
    first, second = one.pi.llm.requests
    assert "Be a clerk." in str(first.body["messages"][0]["content"])
    assert "tools" not in first.body
    assert ["system", "user", "assistant", "user"] == [each["role"] for each in second.body["messages"]]
    one.pi.close_stdin()
    one.pi.wait_exit()
    assert before >= {each.name for each in one.pi.home.temp.iterdir()}


def test_messages_that_are_set_before_it_begins_are_its_conversation(scripted: Start) -> None:
    one = scripted(
        command("""
            const { session } = await createAgentSession({
              sessionManager: SessionManager.inMemory(), model: ctx.model, tools: [],
            });
            const before = { role: "user", content: [{ type: "text", text: "before" }], timestamp: 1 };
            session.agent.state.messages = [before];
            await session.prompt("now");
            let refusal;
            try { session.agent.state.messages = []; } catch (error) { refusal = error.message; }
            session.dispose();
            return [session.messages.map((each) => each.role), refusal.includes("before it has begun")];
        """),
        [{"text": "one"}],
    )
    assert [["user", "user", "assistant"], True] == go(one)
    (request,) = one.pi.llm.requests
    assert ["before", "now"] == [each["content"][0]["text"] for each in request.body["messages"][1:]]


def test_a_session_in_a_file_is_read_and_continued(scripted: Start) -> None:
    """By another agent session, and by `SessionManager.open`."""
    one = scripted(
        command("""
            const loader = new DefaultResourceLoader({ noExtensions: true });
            const shared = { model: ctx.model, tools: [], resourceLoader: loader };
            const make = async (sessionManager) => (await createAgentSession({ sessionManager, ...shared })).session;
            const first = await make(SessionManager.create(ctx.cwd));
            first.setSessionName("clerk");
            await first.prompt("first");
            const file = first.sessionFile;
            first.dispose();
            await first.process.ended;
            const opened = SessionManager.open(file);
            const roles = opened.buildSessionContext().messages.map((each) => each.role);
            const second = await make(opened);
            await second.prompt("second");
            second.dispose();
            const isSame = opened.getSessionId() === first.sessionId;
            return [file, roles, opened.getSessionName(), second.messages.length, isSame];
        """),
        [{"text": "one"}, {"text": "two"}],
        has_session=True,
    )
    file, *rest = go(one)
    assert [["user", "assistant"], "clerk", 4, True] == rest
    assert 3 == len(one.pi.llm.requests[-1].body["messages"][1:])
    assert Path(file).is_relative_to(one.pi.home.root / "agent" / "sessions")


def test_it_can_be_steered_and_aborted(scripted: Start) -> None:
    one = scripted(
        command("""
            const { session } = await createAgentSession({
              sessionManager: SessionManager.inMemory(), model: ctx.model, tools: ["bash"],
            });
            const started = new Promise((resolve) => {
              session.subscribe((each) => each.type === "tool_execution_start" && resolve());
            });
            const run = session.prompt("begin");
            await started;
            await session.steer("turn");
            const queue = session.getSteeringMessages();
            await session.abort();
            await run;
            const ends = session.messages.filter((each) => each.role === "toolResult").map((each) => each.isError);
            session.dispose();
            return [queue, ends, session.isIdle];
        """),
        [call("bash", command="sleep 600")],
    )
    assert [["turn"], [True], True] == go(one)


def test_a_call_that_needs_approval_is_put_to_the_user(scripted: Start) -> None:
    """R-EXT-27 for the agent, and its mode is followed."""
    one = scripted(
        command("""
            const { session } = await createAgentSession({
              sessionManager: SessionManager.inMemory(), model: ctx.model, tools: ["bash"],
            });
            await session.prompt("begin");
            const [result] = session.messages.filter((each) => each.role === "toolResult");
            session.dispose();
            return [result.isError, result.content[0].text];
        """),
        [call("bash", command="echo done"), {"text": "end"}],
        "--tool-approval",
        "ask",
    )
    one.begin("/go")
    asked = one.asked("select")
    one.reply(asked, value=asked["options"][0])
    assert [False, "done\n"] == json.loads(one.notice())


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("{ scopedModels: [{}] }", "scopedModels of createAgentSession must be a list of { model, thinkingLevel }"),
        ("{ modelRuntime: {} }", "modelRuntime of createAgentSession must be a ModelRuntime of pinnace"),
        ("{ sessionManager: {} }", "must be a SessionManager"),
        ("{ sessionManager: SessionManager.open('/nothing/there.jsonl') }", "ENOENT"),
    ],
)
def test_what_it_can_not_be_given_is_named(scripted: Start, options: str, problem: str) -> None:
    one = scripted(command(f"await createAgentSession({options}); return 'made';"))
    assert problem in go(one)


@pytest.mark.parametrize(
    ("loader", "expected"),
    [
        ("new DefaultResourceLoader({ noContextFiles: true, appendSystemPrompt: 'APPENDED' })", ["APPENDED"]),
        ("new DefaultResourceLoader({ noExtensions: true, systemPromptOverride: () => 'OWN' })", ["OWN", "AGENTS"]),
        (
            """{
              getExtensions: () => ({ extensions: [], errors: [], runtime: createExtensionRuntime() }),
              getSkills: () => ({ skills: [] }), getPrompts: () => ({ prompts: [] }),
              getAgentsFiles: () => ({ agentsFiles: [] }),
              getSystemPrompt: () => "OWN", getAppendSystemPrompt: () => ["APPENDED"],
            }""",
            ["OWN", "APPENDED"],
        ),
    ],
)
def test_a_loader_decides_on_prompt_and_extensions(scripted: Start, loader: str, expected: list[str]) -> None:
    one = scripted(
        command(f"""
            const {{ session }} = await createAgentSession({{
              sessionManager: SessionManager.inMemory(), model: ctx.model, tools: [], resourceLoader: {loader},
            }});
            await session.prompt("first");
            session.dispose();
            return "done";
        """),
        [{"text": "one"}],
    )
    (one.work / "AGENTS.md").write_text("AGENTS")
    assert "done" == go(one)
    prompt = str(one.pi.llm.requests[-1].body["messages"][0]["content"])
    assert expected == [word for word in ("OWN", "APPENDED", "AGENTS") if word in prompt]


def test_one_that_is_killed_fails_its_prompt_and_leaves_the_rest_at_work(scripted: Start) -> None:
    one = scripted(
        command("""
            const { session } = await createAgentSession({
              sessionManager: SessionManager.inMemory(), model: ctx.model, tools: ["bash"],
            });
            session.subscribe((each) => each.type === "tool_execution_start" && session.process.child.kill("SIGKILL"));
            const first = await session.prompt("begin").then(() => "settled", (error) => error.message);
            const later = await session.prompt("more").then(() => "settled", (error) => error.message);
            return [first, later].map((each) => each.includes("the agent of this session has ended"));
        """),
        [call("bash", command="sleep 600"), {"text": "own"}],
    )
    assert [True, True] == go(one)
    one.say("hello")


def test_what_it_lacks_is_named_when_it_is_used(scripted: Start) -> None:
    one = scripted(
        command("""
            const { session } = await createAgentSession({ sessionManager: SessionManager.inMemory() });
            try { session.exportToHtml("x"); } catch (error) { return error.message; }
        """)
    )
    assert "exportToHtml of AgentSession is not available in pinnace" in go(one)


@pytest.mark.parametrize("depth", ["4", "many"])
def test_agents_that_start_agents_come_to_an_end(scripted: Start, depth: str) -> None:
    one = scripted(command("await createAgentSession({}); return 'made';"), (), env={"PINNACE_SUBAGENT_DEPTH": depth})
    assert "4 agents are above this one already (PINNACE_SUBAGENT_DEPTH)" in go(one)


def test_an_agent_of_an_extension_knows_that_it_is_one(scripted: Start, tmp_path: Path) -> None:
    """An extension of its own reads the variable, which commands do not have."""
    (tmp_path / "reader.mjs").write_text("""
        import fs from "node:fs";
        export default () => fs.writeFileSync("depth", process.env.PINNACE_SUBAGENT_DEPTH);
    """)
    one = scripted(
        command(f"""
            const loader = new DefaultResourceLoader({{
              noExtensions: true, additionalExtensionPaths: [{str(tmp_path / "reader.mjs")!r}],
            }});
            const {{ session }} = await createAgentSession({{
              sessionManager: SessionManager.inMemory(), model: ctx.model, tools: [], resourceLoader: loader,
            }});
            await session.prompt("first");
            session.dispose();
            return loader.getExtensions().extensions.length;
        """),
        [{"text": "one"}],
        env={"PINNACE_SUBAGENT_DEPTH": "1"},
    )
    assert 1 == go(one)
    assert "2" == (one.work / "depth").read_text()


def test_tools_of_the_extension_are_called_in_its_process(scripted: Start) -> None:
    one = scripted(
        command("""
            const calls = [];
            const aborted = Promise.withResolvers();
            const parameters = { type: "object" };
            const tool = (name, execute) => ({ name, label: name, description: name, parameters, execute });
            const customTools = [
              tool("count", async (id, params, signal, onUpdate, inner) => {
                calls.push([typeof id, params, signal.aborted, inner.cwd === ctx.cwd]);
                onUpdate({ content: [{ type: "text", text: "half" }] });
                return { content: [{ type: "text", text: "three sails" }], details: { sails: 3 } };
              }),
              tool("fail", async () => { throw new Error("no wind"); }),
              tool("last", (id, params, signal) => new Promise((_resolve, reject) => {
                signal.addEventListener("abort", () => {
                  calls.push("aborted");
                  aborted.resolve();
                  reject(new Error("over"));
                });
                session.abort();
              })),
            ];
            const { session } = await createAgentSession({
              sessionManager: SessionManager.inMemory(), model: ctx.model, customTools, noTools: "builtin",
              resourceLoader: new DefaultResourceLoader({ noExtensions: true }),
            });
            const updates = [];
            session.subscribe((each) => {
              if (each.type === "tool_execution_update") updates.push(each.partialResult.content[0].text);
            });
            await session.prompt("first");
            await aborted.promise;
            const results = session.messages.filter((each) => each.role === "toolResult");
            session.dispose();
            return [calls, updates, results.map((each) => [each.content[0].text, each.isError, each.details ?? null])];
        """),
        [call("count", of="sails"), call("fail"), call("last")],
    )
    shown = go(one)
    assert isinstance(shown, list), shown
    calls, updates, results = shown

    assert [["string", {"of": "sails"}, False, True], "aborted"] == calls
    assert ["half"] == updates
    assert [["three sails", False, {"sails": 3}], ["no wind", True]] == [results[0], results[1][:2]]
    assert results[2][1]
    assert ["count", "fail", "last"] == sorted(one.declared)


def test_sessions_are_listed_continued_and_forked(scripted: Start) -> None:
    """None is moved to another folder: its agent would work in the former one, with rights that were decided here."""
    one = scripted(
        command("""
            const loader = new DefaultResourceLoader({ noExtensions: true });
            const run = async (sessionManager, text) => {
              const { session } = await createAgentSession({
                sessionManager, model: ctx.model, tools: [], resourceLoader: loader,
              });
              await session.prompt(text);
              session.dispose();
              await session.process.ended;
              return session;
            };
            const folder = `${ctx.cwd}/kept`;
            const first = await run(SessionManager.create(ctx.cwd, folder), "first");
            await run(SessionManager.create("/", folder), "elsewhere");
            const recent = SessionManager.continueRecent(ctx.cwd, folder);
            const moved = (work) => { try { work(); } catch (error) { return error.message; } };
            const refusals = [
              moved(() => SessionManager.open(first.sessionFile, folder, "/")),
              await createAgentSession({ sessionManager: recent, cwd: "/" }).catch((error) => error.message),
            ];
            const fork = SessionManager.forkFrom(first.sessionFile, ctx.cwd, folder);
            const forked = await run(fork, "second");
            const shown = (each) => [each.firstMessage, each.messageCount, each.cwd === ctx.cwd];
            return [
              (await SessionManager.list(ctx.cwd, folder)).map(shown), (await SessionManager.listAll(folder)).length,
              recent.getSessionId() === first.sessionId,
              SessionManager.findById(ctx.cwd, first.sessionId, folder) === first.sessionFile,
              SessionManager.findById(ctx.cwd, "no", folder) ?? null,
              fork.getHeader().parentSession === first.sessionFile,
              forked.messages.length, (await SessionManager.list("/nowhere")).length,
              SessionManager.continueRecent("/nowhere", folder).getEntries().length,
              refusals.every((each) => each.includes(`works in ${ctx.cwd}`)),
            ];
        """),
        [{"text": "one"}, {"text": "two"}, {"text": "three"}],
    )
    ours = [["first", 4, True], ["first", 2, True]]
    assert [ours, 3, True, True, None, True, 4, 0, 0, True] == go(one)


def test_one_whose_agent_does_not_start_says_why(scripted: Start, tmp_path: Path) -> None:
    (tmp_path / "broken.mjs").write_text("export default () => { throw new Error('no rudder'); };")
    one = scripted(
        command(f"""
            const {{ session }} = await createAgentSession({{
              sessionManager: SessionManager.inMemory(), model: ctx.model,
              resourceLoader: new DefaultResourceLoader({{
                noExtensions: true, additionalExtensionPaths: [{str(tmp_path / "broken.mjs")!r}],
              }}),
            }});
            await session.prompt("first");
        """)
    )
    said = go(one)
    assert "failed: the agent of this session has ended" in said
    assert "no rudder" in said


def test_models_in_scope_and_a_runtime_of_the_agent_are_taken(scripted: Start) -> None:
    one = scripted(
        command("""
            const { ModelRuntime } = await import("@earendil-works/pi-coding-agent");
            const { session } = await createAgentSession({
              sessionManager: SessionManager.inMemory(), model: ctx.model, tools: [],
              modelRuntime: await ModelRuntime.create(),
              scopedModels: [{ model: ctx.model, thinkingLevel: "low" }],
            });
            await session.prompt("first");
            const found = [session.getLastAssistantText(), session.scopedModels.map((each) => each.model.id)];
            session.dispose();
            const { provider, id } = ctx.model;
            found.push(session.modelRuntime.getModel(provider, id).id);
            return [...found, session.modelRegistry.hasConfiguredAuth(ctx.model)];
        """),
        [{"text": "one"}],
    )
    assert ["one", ["m1"], "m1", True] == go(one)
