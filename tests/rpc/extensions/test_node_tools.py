"""Tools of extensions in TypeScript: schemas, partial results, cancellation, failures."""

import pytest
from tests.rpc.extensions.conftest import Extended, Start, call, calls, text_of

GREET = """
import { Type } from "typebox";
import { StringEnum } from "@earendil-works/pi-ai";
import { defineTool } from "@earendil-works/pi-coding-agent";
const greet = defineTool({
  name: "greet", label: "Greet", description: "Greet someone", promptSnippet: "greets",
  promptGuidelines: ["Use greet to greet."],
  parameters: Type.Object({
    name: Type.String({ description: "Who" }),
    tone: Type.Optional(StringEnum(["warm", "cool"])),
    times: Type.Optional(Type.Integer({ minimum: 1 })),
  }),
  async execute(id, params, signal, onUpdate, ctx) { BODY },
});
export default (pi) => pi.registerTool(greet);
"""


def greeter(scripted: Start, body: str, *arguments: dict[str, object]) -> Extended:
    return scripted(GREET.replace("BODY", body), [*(calls(("greet", each)) for each in arguments), {"text": "done"}])


def test_a_tool_is_declared_called_and_answers(scripted: Start) -> None:
    body = "return { content: [{ type: 'text', text: `hello ${params.name} ${id.length > 0}` }], details: { n: 1 } };"
    one = greeter(scripted, body, {"name": "Bo", "tone": "warm"})
    one.say("go")
    [declared] = [
        each["function"] for each in one.pi.llm.requests[0].body["tools"] if each["function"]["name"] == "greet"
    ]
    assert {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Who"},
            "tone": {"type": "string", "enum": ["warm", "cool"]},
            "times": {"type": "integer", "minimum": 1},
        },
        "required": ["name"],
    } == {key: declared["parameters"][key] for key in ("type", "properties", "required")}
    assert [("hello Bo true", False)] == one.ends
    assert {"n": 1} == one.pi.found({"type": "tool_execution_end"})[0]["result"]["details"]
    assert "- greet: greets" in one.prompt
    assert "Use greet to greet." in one.prompt


def test_arguments_are_validated_before_it_runs(scripted: Start) -> None:
    one = greeter(scripted, "return { content: [] };", {"name": "Bo", "tone": "loud"})
    one.say("go")
    [(text, is_error)] = one.ends
    assert is_error
    assert "tone" in text


PREPARED = """
export default (pi) => pi.registerTool({ name: "greet", label: "G", description: "Greet",
  parameters: { type: "object", properties: { name: { type: "string" } }, required: ["name"] },
  prepareArguments: (args) => { BODY },
  execute: async (id, params) => ({ content: [{ type: "text", text: `hello ${params.name}` }], details: {} }) });
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return { name: args.who };", ("hello Bo", False)),
        ("pi.getActiveTools(); return { name: 'x'.repeat(pi.getSettings().x) };", (f"hello {'x' * 100_000}", False)),
        ("throw new Error('who?');", ("who?", True)),
        ("return 7;", ("greet: prepareArguments must return an object of arguments", True)),
    ],
    ids=["repairs", "asks", "throws", "nonsense"],
)
def test_arguments_are_repaired_before_they_are_validated(
    scripted: Start, body: str, expected: tuple[str, bool]
) -> None:
    """Also by a function that reads the agent meanwhile, and makes more than a pipe holds."""
    script = [calls(("greet", {"who": "Bo"})), {"text": "done"}]
    one = scripted(PREPARED.replace("BODY", body), script, settings={"x": 100_000})
    one.say("go")
    assert [expected] == one.ends


def test_partial_results_reach_the_client(scripted: Start) -> None:
    body = """
        for (const text of ["one", "two"]) onUpdate({ content: [{ type: "text", text }], details: {} });
        return { content: [{ type: "text", text: "three" }], details: {} };
    """
    one = greeter(scripted, body, {"name": "Bo"})
    one.say("go")
    updates = one.pi.found({"type": "tool_execution_update"})
    assert ["one", "two"] == [text_of(each["partialResult"]) for each in updates]
    assert [("three", False)] == one.ends


def test_what_it_throws_is_the_result(scripted: Start) -> None:
    one = greeter(scripted, "throw new Error('no one is here');", {"name": "Bo"})
    one.say("go")
    assert [("no one is here", True)] == one.ends
    assert [] == one.errors


def test_a_result_may_say_that_the_call_has_failed(scripted: Start) -> None:
    """Of pi-lens, for one; `details` are kept, unlike those of an error that is thrown."""
    body = 'return { content: [{ type: "text", text: "none found" }], details: { n: 1 }, isError: IS };'
    for given, is_error in (("true", True), ("false", False), ("undefined", False), ('"true"', False)):
        one = greeter(scripted, body.replace("IS", given), {"name": "Bo"})
        one.say("go")
        assert [("none found", is_error)] == one.ends, given
        assert {"n": 1} == one.pi.found({"type": "tool_execution_end"})[0]["result"]["details"]


def test_an_abort_reaches_its_signal(scripted: Start) -> None:
    """And nothing that the call still asks is carried out."""
    body = """
        ctx.ui.notify("waiting");
        await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
        try { pi.appendEntry("late", 1); } catch (error) { console.error(error.message); }
        await pi.exec("touch", ["aborted"]).catch(() => {});
        fs.writeFileSync("seen", "");
    """
    text = GREET.replace("BODY", body).replace(
        "export default (pi) => pi", "let pi;\nexport default (api) => (pi = api)"
    )
    one = scripted('import fs from "node:fs";\n' + text, [calls(("greet", {"name": "Bo"})), {"text": "done"}])
    one.begin("go")
    assert "waiting" == one.notice()
    one.pi.ask("abort")
    one.pi.wait({"type": "agent_settled"})
    one.pi.ask("get_state")
    assert [True] == [is_error for _, is_error in one.ends]
    assert "late" not in [each.get("customType") for each in one.pi.ask("get_entries")["entries"]]
    assert not (one.work / "aborted").exists()


def test_a_tool_is_registered_later_and_made_active(scripted: Start) -> None:
    text = """
        import { Type } from "@sinclair/typebox";
        export default (pi) => {
          pi.registerCommand("more", { handler: async (name, ctx) => {
            pi.registerTool({ name, label: name, description: "More", parameters: Type.Object({}),
              execute: async () => ({ content: [{ type: "text", text: "more!" }], details: {} }) });
            const isThere = (list) => list.includes(name);
            ctx.ui.notify([pi.getActiveTools(), pi.getAllTools().map((tool) => tool.name)].map(isThere).join());
            pi.setActiveTools([name]);
            ctx.ui.notify(pi.getActiveTools().join());
          } });
        };
    """
    one = scripted(text, [call("extra"), {"text": "done"}])
    one.command("/more extra")
    assert ["true,true", "extra"] == [one.notice(), one.notice()]
    one.say("go")
    assert ["extra"] == one.declared
    assert [("more!", False)] == one.ends


@pytest.mark.parametrize("name", ["bash", "read"])
def test_a_built_in_tool_is_wrapped(scripted: Start, name: str) -> None:
    text = f"""
        import {{ create{name.title()}ToolDefinition }} from "@earendil-works/pi-coding-agent";
        export default (pi) => {{
          const own = create{name.title()}ToolDefinition(process.cwd());
          pi.registerTool({{ ...own, async execute(id, params, signal, onUpdate, ctx) {{
            const result = await own.execute(id, params, signal, onUpdate, ctx);
            return {{ ...result, content: [...result.content, {{ type: "text", text: "(wrapped)" }}] }};
          }} }});
        }};
    """
    arguments = {"command": "echo hi"} if name == "bash" else {"path": "note.txt"}
    one = scripted(text, [call(name, **arguments), {"text": "done"}])
    (one.work / "note.txt").write_text("hi")
    one.say("go")
    [(shown, is_error)] = one.ends
    assert not is_error
    assert ["hi", "(wrapped)"] == [each for each in shown.replace("(wrapped)", "\n(wrapped)").split("\n") if each]


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("operations: createLocalBashOperations()", "hi"),
        (
            "operations: { exec: async (line, cwd, { onData }) => { onData('far ' + line); return { exitCode: 0 }; } }",
            "far echo hi",
        ),
        (
            "spawnHook: (run) => ({ ...run, command: `${run.command} $MINE`, env: { ...run.env, MINE: 'too' } })",
            "hi too",
        ),
    ],
    ids=["local", "remote", "hook"],
)
def test_bash_is_run_elsewhere(scripted: Start, option: str, expected: str) -> None:
    text = f"""
        import {{ createBashTool, createLocalBashOperations }} from "@earendil-works/pi-coding-agent";
        export default (pi) => pi.registerTool(createBashTool(process.cwd(), {{ {option} }}));
    """
    one = scripted(text, [call("bash", command="echo hi"), {"text": "done"}])
    one.say("go")
    assert [(expected, False)] == [(shown.strip(), is_error) for shown, is_error in one.ends]


def test_a_tool_without_a_result_is_a_failed_call(scripted: Start) -> None:
    one = greeter(scripted, "return 7;", {"name": "Bo"})
    one.say("go")
    assert [True] == [is_error for _, is_error in one.ends]
