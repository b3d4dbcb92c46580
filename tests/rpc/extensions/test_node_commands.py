"""Commands of extensions in TypeScript, and what `pi` and `ctx` do: dialogs, messages, programs, sessions, models."""

import json
from pathlib import Path

import pytest
from tests.rpc.extensions.conftest import Extended, MakeExtension, Start, call
from tests.source_tree import REPOSITORY


def command(body: str, before: str = "") -> str:
    """An extension with the command /do."""
    handler = f"async (args, ctx) => {{ {body} }}"
    return f'{before}\nexport default (pi) => {{ pi.registerCommand("do", {{ handler: {handler} }}); }};'


MODEL = """{ id: "m", name: "M", reasoning: false, input: ["text"], contextWindow: 1000, maxTokens: 100,
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 } }"""


def shown(one: Extended, count: int = 1) -> list[str]:
    return [one.notice() for _ in range(count)]


def test_dialogs_over_the_protocol(scripted: Start) -> None:
    body = """
        const name = await ctx.ui.input("Name", "here");
        const text = await ctx.ui.editor("Text", "draft");
        const sure = await ctx.ui.confirm("Sure?", "really");
        ctx.ui.notify(`${name} ${text} ${sure} ${ctx.hasUI} ${ctx.mode}`, "warning");
        ctx.ui.setStatus("k", "s"); ctx.ui.setWidget("w", ["a"], { placement: "belowEditor" }); ctx.ui.setTitle("t");
        ctx.ui.setEditorText("e");
    """
    one = scripted(command(body))
    done = one.begin("/do")
    asked = [one.asked("input")]
    one.reply(asked[0], value="Bo")
    asked.append(one.asked("editor"))
    one.reply(asked[1], value="long")
    asked.append(one.asked("confirm"))
    one.reply(asked[2], confirmed=True)
    one.accepted(done)
    assert [("Name", "here"), ("Text", "draft"), ("Sure?", "really")] == [
        (each["title"], each.get("placeholder", each.get("prefill", each.get("message")))) for each in asked
    ]
    frames = [{key: value for key, value in each.items() if key not in ("id", "type")} for each in one.frames()[3:]]
    assert [
        {"method": "notify", "message": "Bo long true true rpc", "notifyType": "warning"},
        {"method": "setStatus", "statusKey": "k", "statusText": "s"},
        {"method": "setWidget", "widgetKey": "w", "widgetLines": ["a"], "widgetPlacement": "belowEditor"},
        {"method": "setTitle", "title": "t"},
        {"method": "set_editor_text", "text": "e"},
    ] == frames


def test_a_signal_gives_a_dialog_up(scripted: Start) -> None:
    """And the client is no longer asked: a later answer has no effect."""
    body = """
        const controller = new AbortController();
        const asked = ctx.ui.confirm("Sure?", "", { signal: controller.signal });
        await ctx.ui.input("First");
        controller.abort();
        ctx.ui.notify(`confirmed ${await asked}`);
    """
    one = scripted(command(body))
    done = one.begin("/do")
    question = one.asked("confirm")
    one.reply(one.asked("input"), value="x")
    assert ["confirmed false"] == shown(one)
    one.reply(question, confirmed=True)
    one.accepted(done)


def test_what_is_asked_first_begins_first(scripted: Start) -> None:
    body = """
        const asked = Array.from({ length: 30 }, (_, number) => ctx.ui.confirm(`question ${number}`, ""));
        await Promise.all(asked);
    """
    one = scripted(command(body))
    done = one.begin("/do")

    questions = [one.asked("confirm") for _ in range(30)]
    assert [f"question {number}" for number in range(30)] == [each["title"] for each in questions]
    for each in questions:
        one.reply(each, confirmed=True)
    one.accepted(done)


def test_what_needs_a_terminal_answers_as_in_rpc_mode(scripted: Start) -> None:
    body = """
        const custom = await ctx.ui.custom(() => { throw new Error("never called"); });
        ctx.ui.setWidget("w", () => ({ render: () => [] })); ctx.ui.setFooter(() => ({}));
        ctx.ui.setWorkingMessage("x");
        ctx.ui.notify([custom, ctx.ui.getEditorText(), ctx.ui.getToolsExpanded(), ctx.ui.setTheme("x").success,
          ctx.ui.theme.fg("error", "x") === "\\x1b[31mx\\x1b[39m"].join());
    """
    one = scripted(command(body))
    one.command("/do")
    assert [",,false,false,true"] == shown(one)
    assert 1 == len(one.frames())


def test_a_command_that_throws_is_reported(scripted: Start) -> None:
    one = scripted(command("throw new RangeError('too far');"))
    one.begin("/do")
    one.pi.wait({"type": "extension_error"})
    assert [("command", "too far")] == one.errors


def test_flags_are_read_from_the_command_line(scripted: Start) -> None:
    text = """
        export default (pi) => {
          pi.registerFlag("loud", { type: "boolean", default: false });
          pi.registerFlag("word", { type: "string", default: "none", description: "A word" });
          const early = pi.getFlag("word");
          const read = () => [pi.getFlag("loud"), pi.getFlag("word"), early, pi.getFlag("x")].join();
          pi.on("session_start", (_event, ctx) => ctx.ui.notify(read()));
        };
    """
    one = scripted(text, (), "--loud", "--word", "hi")
    assert ["true,hi,none,"] == shown(one)


def test_messages_and_entries_of_an_extension(scripted: Start) -> None:
    body = """
        pi.appendEntry("mine", { n: args.length });
        pi.setSessionName("named");
        const [entry] = ctx.sessionManager.getEntries().filter((each) => each.customType === "mine");
        pi.setLabel(entry.id, "here");
        pi.sendMessage({ customType: "note", content: "mind this", display: true, details: { a: 1 } });
        pi.sendUserMessage([{ type: "text", text: "and answer" }]);
        ctx.ui.notify([entry.data.n, pi.getSessionName(), ctx.sessionManager.getLabel(entry.id)].join());
    """
    one = scripted(command(body), [{"text": "done"}])
    one.command("/do xx")
    assert ["2,named,here"] == shown(one)
    one.pi.wait({"type": "agent_settled"}, since=0)
    assert ["mind this", "and answer"] == one.user_messages


def test_a_message_without_a_type_is_taken_as_in_pi(scripted: Start) -> None:
    """pi-subagents sends one."""
    one = scripted(command("pi.sendMessage({ content: 'mind this', display: true });"))
    one.command("/do")
    message = one.pi.wait({"type": "message_end", "message": {"role": "custom"}})["message"]
    assert ["custom", "mind this"] == [message["customType"], message["content"]]
    assert not one.errors


def test_the_session_is_read_as_it_is_now(scripted: Start) -> None:
    """Also what the same function has changed, and what came since it was read first."""
    text = """
        export default (pi) => {
          const isMessage = (each) => each.type === "message";
          const roles = (ctx) => ctx.sessionManager.getBranch().filter(isMessage).map((each) => each.message.role);
          pi.on("agent_settled", (_event, ctx) => ctx.ui.notify(roles(ctx).join()));
          pi.registerCommand("do", { handler: async (_args, ctx) => {
            const { sessionManager: s } = ctx;
            const before = s.getEntries().length;
            pi.appendEntry("mine", 1);
            const leaf = s.getLeafEntry();
            ctx.ui.notify([
              s.getEntries().length - before, leaf.customType, leaf.id === s.getLeafId(), s.getEntry(leaf.id).data,
              s.getBranch(leaf.parentId).length === s.getBranch().length - 1, s.getHeader().type,
              s.getCwd() === ctx.cwd,
              s.getTree().length, s.buildSessionContext().messages.length, s.getSessionId().length > 0,
              s.getSessionFile(),
            ].join());
          } });
        };
    """
    one = scripted(text, [{"text": "one"}, {"text": "two"}])
    turn = "user,assistant"
    one.say("a")
    assert [turn] == shown(one)
    one.say("b")
    one.command("/do")
    assert [f"{turn},{turn}", "1,mine,true,1,true,session,true,1,4,true,"] == shown(one, 2)


def test_programs_are_run_without_a_shell(scripted: Start) -> None:
    body = """
        const ran = await pi.exec("sh", ["-c", "echo out; echo err >&2; pwd; exit 3"], { cwd: "sub" });
        const late = await pi.exec("sleep", ["60"], { timeout: 50 });
        const stopped = await pi.exec("sleep", ["60"], { signal: AbortSignal.timeout(50) });
        const gone = await pi.exec("no-such-program", []);
        const first = ran.stdout.split("\\n")[0];
        ctx.ui.notify(JSON.stringify([first, ran.stderr, ran.code, ran.stdout.includes("/sub"), ran.killed,
          late.killed, stopped.killed, gone.code]));
    """
    one = scripted(command(body))
    (one.work / "sub").mkdir()
    one.command("/do")
    assert ["out", "err\n", 3, True, False, True, True, 1] == json.loads(one.notice())


def test_the_bus_joins_both_languages(extended: Start, written: MakeExtension, node_program: str) -> None:
    python = written("""
        def extension(pi):
            pi.events.on("to-python", lambda data: pi.events.emit("to-node", {"got": data}))
    """)
    node = written(
        """
        export default (pi) => {
          const seen: string[] = [];
          const remove = pi.events.on("to-node", (data) => { seen.push(JSON.stringify(data)); show?.(); });
          let show: (() => void) | undefined;
          pi.events.on("own", (data) => seen.push(typeof data.call));
          pi.registerCommand("do", { handler: async (_args, ctx) => {
            const heard = new Promise<void>((resolve) => { show = resolve; });
            pi.events.emit("own", { call: () => {} });
            pi.events.emit("to-python", 7);
            await heard;
            remove();
            pi.events.emit("to-node", "removed");
            ctx.ui.notify(seen.join(" "));
          } });
        };
        """,
        "node.ts",
    )
    one = extended([python, node], env={"PINNACE_NODE": node_program})
    one.command("/do")
    assert ['function {"got":7}'] == shown(one)


def test_a_session_is_replaced_and_the_work_continues_in_the_new_one(scripted: Start) -> None:
    """In the process of the former session, by the context of the new one; the old one is stale."""
    body = """
        const kept = "closure";
        const { cancelled } = await ctx.newSession({
          setup: async (session) => { session.appendMessage({ role: "user", content: "filled", timestamp: 1 }); },
          withSession: async (next) => {
            let stale = "";
            try { ctx.isIdle(); } catch (error) { stale = error.message; }
            const messages = next.sessionManager.getEntries().filter((each) => each.type === "message");
            next.ui.notify([kept, messages.length, stale.includes("stale")].join());
            await next.sendUserMessage("go on");
          },
        });
    """
    one = scripted(command(body), [{"text": "done"}])
    done = one.begin("/do")
    assert ["closure,1,true"] == shown(one)
    one.pi.wait({"type": "agent_settled"}, since=0)
    one.accepted(done)
    assert ["filled", "go on"] == one.user_messages


def test_session_control_outside_of_a_command_is_refused(scripted: Start) -> None:
    text = """
        let kept;
        export default (pi) => {
          pi.registerCommand("do", { handler: async (_args, ctx) => { kept = ctx; } });
          pi.on("input", async (_event, ctx) => {
            const refused = await kept.newSession().catch((error) => error.message);
            ctx.ui.notify(`${refused} ${typeof ctx.newSession}`);
          });
        };
    """
    one = scripted(text, [{"text": "done"}])
    one.command("/do")
    one.say("go")
    [message] = shown(one)
    assert "this would be a deadlock" in message
    assert message.endswith("undefined")


def test_models_are_found_and_asked(scripted: Start) -> None:
    """A request goes to the agent's provider; the key is given on request."""
    before = 'import { complete, StringEnum } from "@earendil-works/pi-ai";'
    body = """
        const { model, modelRegistry } = ctx;
        const same = modelRegistry.find(model.provider, model.id);
        const auth = await modelRegistry.getApiKeyAndHeaders(model);
        const messages = [{ role: "user", content: [{ type: "text", text: "hm?" }], timestamp: 1 }];
        const answer = await complete(model, { systemPrompt: "brief", messages }, { apiKey: auth.apiKey });
        ctx.ui.notify([same.id === model.id, modelRegistry.getAvailable().length > 0, auth.ok, typeof auth.apiKey,
          answer.content[0].text, await pi.setModel(model), pi.getThinkingLevel()].join());
    """
    one = scripted(command(body, before), [{"text": "yes"}])
    one.command("/do")
    assert ["true,true,true,string,yes,true,off"] == shown(one)
    assert "brief" == one.prompt
    assert ["hm?"] == one.user_messages


def test_a_provider_of_an_extension_answers(scripted: Start) -> None:
    text = """
        import { createAssistantMessageEventStream } from "@earendil-works/pi-ai";
        export default (pi) => {
          pi.registerProvider("mine", {
            baseUrl: "http://127.0.0.1:9", apiKey: "k", api: "mine-api",
            models: [MODEL],
            streamSimple(model, context, options) {
              const stream = createAssistantMessageEventStream();
              const usage = { input: 1, output: 1, cacheRead: 0, cacheWrite: 0, totalTokens: 2, cost: { total: 0 } };
              const { api, provider, id } = model;
              const message = { role: "assistant", content: [], api, provider, model: id, usage, stopReason: "stop" };
              queueMicrotask(() => {
                stream.push({ type: "start", partial: message });
                stream.push({ type: "text_start", contentIndex: 0, partial: message });
                const delta = `said ${context.messages.at(-1).content[0].text}`;
                stream.push({ type: "text_delta", contentIndex: 0, delta, partial: message });
                stream.push({ type: "text_end", contentIndex: 0, content: delta, partial: message });
                const content = [{ type: "text", text: delta }];
                stream.push({ type: "done", reason: "stop", message: { ...message, content } });
                stream.end();
              });
              return stream;
            },
          });
        };
    """
    one = scripted(text.replace("MODEL", MODEL))
    assert one.pi.request({"type": "set_model", "provider": "mine", "modelId": "m"})["success"]
    one.say("hello")
    assert "said hello" == one.pi.ask("get_last_assistant_text")["text"]


def test_a_provider_that_throws_fails_the_run(scripted: Start) -> None:
    text = """
        export default (pi) => pi.registerProvider("mine", {
          baseUrl: "http://127.0.0.1:9", apiKey: "k", api: "mine-api",
          models: [MODEL], streamSimple() { throw new Error("no line"); },
        });
    """
    one = scripted(text.replace("MODEL", MODEL))
    assert one.pi.request({"type": "set_model", "provider": "mine", "modelId": "m"})["success"]
    one.say("hello")
    [message] = [
        each["message"] for each in one.pi.found({"type": "message_end"}) if each["message"]["role"] == "assistant"
    ]
    assert "no line" in message["errorMessage"]


def test_state_of_the_agent(scripted: Start) -> None:
    body = """
        ctx.ui.notify(JSON.stringify([ctx.isIdle(), ctx.hasPendingMessages(), ctx.isProjectTrusted(),
          ctx.signal === undefined, ctx.getContextUsage().contextWindow > 0, ctx.getSystemPrompt().length > 0,
          ctx.scopedModels, ctx.thinkingLevel, pi.getCommands().map((each) => each.name), pi.getSettings().x,
          Object.keys(ctx.getSystemPromptOptions()).length > 0]));
        await ctx.waitForIdle();
    """
    one = scripted(command(body), (), settings={"x": 5})
    one.command("/do")
    [text] = shown(one)
    assert [True, False, True, True, True, True, [], "off", ["do"], 5, True] == json.loads(text)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("pi.setThinkingLevel('most')", "there is no thinking level 'most'"),
        ("pi.setLabel(7)", "set_label: entryId must be a string, not a number"),
        ("pi.setActiveTools('read')", "set_active_tools: toolNames must be a list of strings, not a string"),
        ("pi.setLabel('none', 'x')", "none"),
        ("pi.registerVirtualModel({})", "virtual models are not available in pinnace"),
        (
            "ctx.modelRegistry.registerVirtualModel",
            "ctx.modelRegistry.registerVirtualModel is not available in pinnace",
        ),
        ("await pi.exec('ls', [1])", "exec: args must be a list of strings, not a list"),
        ("pi.sendMessage({ customType: 3, content: 'x' })", "custom_type"),
    ],
)
def test_wrong_input_is_an_error_that_names_it(scripted: Start, code: str, error: str) -> None:
    """Thrown where the extension has called."""
    one = scripted(command(f"try {{ {code}; }} catch (error) {{ ctx.ui.notify(error.message); }}"))
    one.command("/do")
    [text] = shown(one)
    assert error in text


def test_settings_are_read_while_an_extension_loads(scripted: Start) -> None:
    """As pi-sandbox does. What is not as it is written in the file would need what pi makes of it."""
    before = """
        import { SettingsManager } from "@earendil-works/pi-coding-agent";
        const shell = SettingsManager.create(".").getShellPath();
        const own = SettingsManager.inMemory({ theme: "dark" });
    """
    body = """
        let failure = "none";
        try { own.getPackages(); } catch (error) { failure = error.message; }
        ctx.ui.notify([shell, own.getTheme(), own.getShellPath(), failure].join());
    """
    one = scripted(before + command(body), settings={"shellPath": "/bin/bash"})
    one.command("/do")
    reason = "getPackages of SettingsManager is not available in pinnace; see docs/typescript-extensions.md"
    assert [f"/bin/bash,dark,,{reason}"] == shown(one)


def test_settings_of_the_user_and_of_the_project_are_read_apart(scripted: Start) -> None:
    """As pi-bar does, without an installation of pi."""
    before = 'import { SettingsManager } from "@earendil-works/pi-coding-agent";'
    body = """
        const own = SettingsManager.create(ctx.cwd);
        const kept = SettingsManager.inMemory({ a: 1 });
        ctx.ui.notify(JSON.stringify([own.getGlobalSettings().theme, own.getProjectSettings(),
          kept.getGlobalSettings(), kept.getProjectSettings()]));
    """
    one = scripted(command(body, before), (), "--approve", settings={"theme": "light"})
    one.pi.ask("get_state")  # a start that met half of the files would not trust the others
    (one.work / ".pi").mkdir()
    (one.work / ".pi" / "settings.json").write_text('{"theme": "dark"}')
    one.command("/do")
    assert ["light", {"theme": "dark"}, {"a": 1}, {}] == json.loads(one.notice())


@pytest.mark.parametrize("flag", ["--approve", "--no-approve"])
def test_settings_of_a_project_are_read_while_an_extension_loads_if_it_is_trusted(scripted: Start, flag: str) -> None:
    """As pi-env does."""
    before = """
        import { SettingsManager } from "@earendil-works/pi-coding-agent";
        const atLoad = SettingsManager.create().getProjectSettings();
    """
    one = scripted(command("args ? await ctx.reload() : ctx.ui.notify(JSON.stringify(atLoad));", before), (), flag)
    one.command("/do")
    assert "{}" == one.notice()
    (one.work / ".pi").mkdir()
    (one.work / ".pi" / "settings.json").write_text('{"theme": "dark"}')
    one.command("/do again")
    one.command("/do")
    assert ('{"theme":"dark"}' if flag == "--approve" else "{}") == one.notice()


def test_a_provider_object_answers_with_its_own_models_and_keys(scripted: Start) -> None:
    """Without an installation of pi: what it resolves is the key of a request, and refreshed models are taken."""
    text = """
        import { createAssistantMessageEventStream } from "@earendil-works/pi-ai";
        const models = [{ ...MODEL, api: "its-own", provider: "object", mark: "kept here" }];
        const provider = {
          id: "object", name: "An object",
          auth: { apiKey: { name: "key", async resolve({ ctx, credential }) {
            return { auth: { apiKey: credential?.key ?? (await ctx.env("OBJECT_KEY")), headers: { x: "y" } } };
          } } },
          getModels: () => models,
          async refreshModels({ publish, signal, allowNetwork, stored, credential }) {
            const id = `later-${signal.aborted}-${allowNetwork}-${stored}-${credential}`;
            const update = () => models.push({ ...models[0], id });
            await publish({ update });
          },
          streamSimple(model, context, { apiKey, headers }) {
            const stream = createAssistantMessageEventStream();
            const usage = { input: 1, output: 1, cacheRead: 0, cacheWrite: 0, totalTokens: 2, cost: { total: 0 } };
            const { api, provider, id, mark } = model;
            const message = { role: "assistant", content: [], api, provider, model: id, usage, stopReason: "stop" };
            queueMicrotask(() => {
              stream.push({ type: "start", partial: message });
              const content = [{ type: "text", text: [api, mark, apiKey, headers.x].join() }];
              stream.push({ type: "done", reason: "stop", message: { ...message, content } });
              stream.end();
            });
            return stream;
          },
        };
        export default (pi) => {
          pi.registerProvider(provider);
          pi.registerCommand("do", { handler: async (args, ctx) => {
            const failures = [{}, { id: "a" }, { getModels() {}, streamSimple() {} }].map((each) => {
              try { pi.registerProvider(each); } catch (error) { return error.message; }
            });
            ctx.ui.notify(failures.join("; "));
          } });
        };
    """
    one = scripted(text.replace("MODEL", MODEL), env={"OBJECT_KEY": "of-its-own"})
    listed = [each["id"] for each in one.pi.ask("get_available_models")["models"] if each["provider"] == "object"]
    assert ["m", "later-false-true-undefined-undefined"] == listed
    assert one.pi.request({"type": "set_model", "provider": "object", "modelId": "m"})["success"]
    one.say("hello")
    assert "its-own,kept here,of-its-own,y" == one.pi.ask("get_last_assistant_text")["text"]
    one.command("/do")
    assert "must have getModels(); registerProvider: a provider object must have getModels(); " in one.notice()


@pytest.mark.peer
def test_a_name_that_we_lack_is_that_of_an_installation_of_pi(scripted: Start) -> None:
    """Of release 0.87.1, the latest that `scripts/peers` has whole. Its modules get one another, and not ours."""
    links = REPOSITORY / ".tools" / "pi-0.87.1" / "node_modules" / ".bin"
    if not (links / "pi").exists():
        pytest.skip("no pi 0.87.1: scripts/peers installs it")
    before = """
        import { SessionManager } from "@earendil-works/pi-coding-agent";
        import { StdinBuffer } from "@earendil-works/pi-tui";
        class Mine extends StdinBuffer {}
    """
    body = """
        const manager = SessionManager.inMemory(ctx.cwd);
        manager.appendMessage({ role: "user", content: "x", timestamp: 1 });
        const buffers = [new StdinBuffer(), new Mine()].map((each) => JSON.stringify(each.getBuffer()));
        ctx.ui.notify([manager.getEntries().length, ...buffers].join());
    """
    one = scripted(command(body, before), path_first=links)
    one.command("/do")
    assert ['1,"",""'] == shown(one)


def test_sets_of_built_in_tools_are_made_while_an_extension_loads(scripted: Start) -> None:
    """@tintinweb/pi-subagents names its tools by them."""
    before = """
        import { createCodingTools, createReadOnlyTools, getPackageDir } from "@earendil-works/pi-coding-agent";
        const sets = [createCodingTools("."), createReadOnlyTools(".")];
        const names = sets.map((tools) => tools.map((tool) => tool.name).join());
    """
    one = scripted(before + command("ctx.ui.notify([...names, getPackageDir()].join(' '));"))
    one.command("/do")
    [text] = shown(one)
    coding, reading, folder = text.split(" ", 2)
    assert ("read,bash,edit,write", "read,grep,find,ls") == (coding, reading)
    assert Path(folder).is_dir()


def test_helpers_of_the_packages(scripted: Start) -> None:
    before = """
        import { parseFrontmatter, truncateHead, truncateTail, formatSize, getAgentDir, serializeConversation,
          withFileMutationQueue } from "@earendil-works/pi-coding-agent";
        import { visibleWidth, truncateToWidth, wrapTextWithAnsi, fuzzyFilter, Text,
          Container } from "@earendil-works/pi-tui";
    """
    body = """
        const { frontmatter, body } = parseFrontmatter("---\\nname: x\\ntags: [a, b]\\n---\\n\\ntext\\n");
        const order = [];
        const change = (n) => async () => { order.push(n); await null; order.push(n); };
        await Promise.all([1, 2].map((n) => withFileMutationQueue("f", change(n))));
        new Container().addChild(new Text("x", 0, 0));
        ctx.ui.notify(JSON.stringify([frontmatter, body, truncateHead("a\\nb\\nc", { maxLines: 2 }).content,
          truncateTail("a\\nb\\nc", { maxLines: 1 }).content, formatSize(2048), getAgentDir().endsWith("agent"), order,
          serializeConversation([{ role: "user", content: "q", timestamp: 1 }]).includes("q"),
          visibleWidth("\\x1b[31m日本\\x1b[0m!"), truncateToWidth("abcdef", 4), wrapTextWithAnsi("aa bb cc", 5),
          fuzzyFilter(["abc", "xyz"], "ac", (each) => each)]));
    """
    one = scripted(command(body, before))
    one.command("/do")
    assert [
        {"name": "x", "tags": ["a", "b"]},
        "text",
        "a\nb",
        "c",
        "2.0KB",
        True,
        [1, 1, 2, 2],
        True,
        5,
        "a...",
        ["aa bb", "cc"],
        ["abc"],
    ] == json.loads(one.notice())


def test_a_timer_uses_its_context_later(scripted: Start) -> None:
    """Code outside of every call belongs to the extension; its failure is reported and ends nothing else."""
    text = """
        export default (pi) => pi.on("session_start", (_event, ctx) => {
          setTimeout(() => { ctx.ui.notify(`later ${ctx.mode}`); throw new Error("stray"); }, 1);
        });
    """
    one = scripted(text)
    assert ["later rpc"] == shown(one)
    one.pi.wait({"type": "extension_error"})
    assert [("background", "stray")] == one.errors
    one.pi.ask("get_state")


def test_extensions_of_both_languages_are_asked_in_their_order(
    extended: Start, written: MakeExtension, node_program: str
) -> None:
    first = written('export default (pi) => pi.on("tool_call", (e, ctx) => ctx.ui.notify("first"));', "first.ts")
    second = written(
        "def extension(pi):\n    @pi.on('tool_call')\n    def check(ctx, event):\n        ctx.ui.notify('second')\n"
    )
    third = written('export default (pi) => pi.on("tool_call", () => ({ block: true, reason: "third" }));', "third.ts")
    one = extended(
        [first, second, third], [call("bash", command="true"), {"text": "done"}], env={"PINNACE_NODE": node_program}
    )
    one.say("go")
    assert ["first", "second"] == shown(one, 2)
    assert [("third", True)] == one.ends
