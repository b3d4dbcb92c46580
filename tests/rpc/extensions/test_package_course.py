"""The course that packages of npm are compared by (`pinnace_campaigns.packages`), with an extension that is known."""

import pytest
from tests.rpc.extensions.conftest import MakeExtension

from pinnace_campaigns.packages.course import Course, sample
from pinnace_fuzz.trials.workbench import AgentStarter

PACKAGE = """
export default (pi) => {
  pi.registerTool({
    name: "add", description: "Adds",
    parameters: { type: "object", properties: { n: { type: "number" } }, required: ["n"] },
    execute: async (_id, { n }) => ({ content: [{ type: "text", text: `sum ${n}` }] }),
  });
  pi.registerCommand("greet", {
    description: "Greets",
    handler: async (_args, ctx) => ctx.ui.notify((await ctx.ui.input("Name?")) ?? `cancelled in ${ctx.cwd}`),
  });
  pi.registerCommand("fail", { handler: async () => { throw new Error("broken"); } });
};
"""


def test_each_step_has_an_outcome(agent: AgentStarter, written: MakeExtension, node_program: str) -> None:
    settings = {"compaction": {"keepRecentTokens": 3}}
    env = {"PINNACE_NODE": node_program}
    path = written(PACKAGE, "package.ts")
    one = agent((), "-e", str(path), env=env, settings=settings, has_session=True)
    outcomes = {each.step: each.seen for each in Course(one).play()}

    steps = "start commands hello tools add /fail /greet again compact fork new_session more end"
    assert steps.split() == [step.split()[-1] for step in outcomes]
    assert [["fail", ""], ["greet", "Greets"]] == outcomes["commands"]["commands"]
    assert [["add", "Adds"]] == outcomes["tools"]["tools"]
    assert [["add", False, "sum <n>"]] == outcomes["tool add"]["results"]
    assert [["command", "broken"]] == outcomes["/fail"]["errors"]
    assert [["input", "Name?"]] == outcomes["/greet"]["dialogs"]
    assert [["notify", None, "cancelled in <work>"]] == outcomes["/greet"]["shown"]
    assert {"success"} == {outcomes[step]["answer"] for step in ("compact", "fork", "new_session", "once more")}
    assert 0 == outcomes["end"]["code"]


def test_an_agent_that_does_not_start_has_an_outcome(
    agent: AgentStarter, written: MakeExtension, node_program: str
) -> None:
    path = written("throw new Error('no');", "package.ts")
    one = agent((), "-e", str(path), env={"PINNACE_NODE": node_program}, is_checked=False)
    *_, end = Course(one).play()
    assert 1 == end.seen["code"]
    assert "no" in str(end.seen["stderr"])


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]}, {"a": "sample"}),
        ({"type": "array", "items": {"type": "integer", "minimum": 4}, "minItems": 1}, [4]),
        ({"type": "array", "items": {"type": "integer"}}, []),
        ({"anyOf": [{"const": "x"}, {"const": "y"}]}, "x"),
        ({"enum": [False, True]}, False),
        ({"type": "boolean"}, False),
    ],
)
def test_a_sample_is_the_smallest_value(schema: dict[str, object], value: object) -> None:
    assert value == sample(schema)
