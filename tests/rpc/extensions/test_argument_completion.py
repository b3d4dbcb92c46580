"""Completions of the arguments of commands, as a client sees them. Rule R-UI-20.

One agent has extensions in both languages; it serves every test.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from tests.rpc.extensions.conftest import Extended

from pinnace_fuzz.trials.workbench import AgentStarter

PYTHON: Final = """
import trio
from pinnace.extensions import Completion

def extension(pi):
    async def complete(prefix):
        match prefix:
            case "hang":
                await trio.sleep_forever()
            case "fail":
                raise RuntimeError("on purpose")
            case "odd":
                return ["good", 5, {"value": 6}, {"label": "no value"}, Completion("best", description="d")]
            case "text":
                return "text"
            case "many":
                return [str(each) for each in range(200)]
        await trio.sleep(0)
        return [Completion("staging", "Staging", "For tests"), "stable"]

    @pi.command("deploy", complete=complete)
    def deploy(ctx, args):
        ctx.ui.notify(args)

    @pi.command("plain")
    def plain(ctx, args):
        pass
"""
NODE: Final = """
export default function (pi) {
  pi.registerCommand("release", {
    handler: async () => {},
    getArgumentCompletions: async (prefix) => {
      if (prefix === "hang") await new Promise(() => {});
      if (prefix === "fail") throw new Error("on purpose");
      return prefix === "no" ? null : [{ value: `${prefix}1`, label: "One", description: "The first" }];
    },
  });
}
"""


@pytest.fixture
def asked(agent: AgentStarter, tmp_path: Path, node_program: str) -> Callable[[], Extended]:
    """Starts an agent with both extensions."""
    python, node = tmp_path / "deploy.py", tmp_path / "release.mjs"
    python.write_text(PYTHON)
    node.write_text(NODE)

    def start() -> Extended:
        return Extended(agent((), "-e", str(python), "-e", str(node), env={"PINNACE_NODE": node_program}))

    return start


def completions(one: Extended, name: str, prefix: str) -> list[Any]:
    """Return the completions of some arguments."""
    found: list[Any] = one.pi.ask("get_completions", name=name, prefix=prefix)["completions"]
    return found


def send(one: Extended, command_id: str, name: str) -> None:
    """Ask what is never answered by its function."""
    one.pi.send({"id": command_id, "type": "get_completions", "name": name, "prefix": "hang"})


def failure(one: Extended, name: str, prefix: str, *values: str) -> str:
    """Ask, see which values are there all the same, and return the error that was reported last."""
    mark = one.pi.mark()
    assert list(values) == [each["value"] for each in completions(one, name, prefix)]
    return str(one.pi.wait({"type": "extension_error", "event": "completion"}, since=mark)["error"])


def test_a_function_that_fails_or_offers_something_else_costs_itself_alone(
    asked: Callable[[], Extended],
) -> None:
    """R-UI-20: what each offers is listed; failures of both languages, and each offer of another form, are reported."""
    one = asked()
    assert completions(one, "deploy", "st") == [
        {"value": "staging", "label": "Staging", "description": "For tests"},
        {"value": "stable"},
    ]
    assert completions(one, "release", "v") == [{"value": "v1", "label": "One", "description": "The first"}]
    for name, prefix in (("release", "no"), ("plain", ""), ("unknown", "")):
        assert [] == completions(one, name, prefix)
    assert [str(each) for each in range(100)] == [each["value"] for each in completions(one, "deploy", "many")]
    for name in ("deploy", "release"):
        assert "on purpose" in failure(one, name, "fail")
    assert "must be a list or None, not str" in failure(one, "deploy", "text")
    assert failure(one, "deploy", "odd", "good", "best")
    wanted = [
        "1: expected a string or an object with value, not int",
        "2: value must be a string, not int",
        "3: value must be a string, not NoneType",
    ]
    for (event, error), each in zip(one.errors[-3:], wanted, strict=True):
        assert event == "completion"
        assert f"completion {each}" in error


def test_a_later_question_replaces_an_earlier_one(asked: Callable[[], Extended]) -> None:
    """R-UI-20: one that hangs, in either language, is answered with nothing; the end of stdin answers the last one."""
    one = asked()
    send(one, "first", "deploy")
    send(one, "second", "release")
    assert one.pi.wait_response("first")["data"] == {"completions": []}
    assert one.pi.ask("get_state")["isStreaming"] is False
    assert [each["value"] for each in completions(one, "deploy", "st")] == ["staging", "stable"]
    assert one.pi.wait_response("second")["data"] == {"completions": []}
    send(one, "last", "deploy")
    one.pi.close_stdin()
    assert one.pi.wait_response("last")["data"] == {"completions": []}
    assert not one.errors
