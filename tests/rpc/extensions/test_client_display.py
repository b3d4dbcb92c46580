"""The client's own displays, as extensions set them. Rules R-UI-30 and R-UI-31.

One agent has extensions in both languages.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.rpc.extensions.conftest import Extended

from pinnace_fuzz.trials.workbench import AgentStarter

PYTHON: Final = """
def extension(pi):
    @pi.command("py")
    def show(ctx, args):
        ui = ctx.ui
        ui.set_working_visible(args != "hide")
        ui.set_hidden_thinking_label(args or None)
        ui.set_tools_expanded(not ui.get_tools_expanded())
        wrong = []
        for member, value in (
            ("message", 5), ("indicator", {"frames": "abc"}), ("indicator", {"frames": [1]}), ("indicator", 5),
            ("indicator", {"frames": ["x"] * 101}), ("indicator", {"intervalMs": 0}),
            ("indicator", {"intervalMs": "1"}),
        ):
            try:
                getattr(ui, f"set_working_{member}")(value)
            except (TypeError, ValueError) as error:
                wrong.append(str(error))
        ui.notify(f"{len(wrong)} {ui.get_tools_expanded()}")
"""
NODE: Final = """
export default function (pi) {
  pi.registerCommand("node", {
    handler: async (args, { ui }) => {
      const [message, options, visible] = JSON.parse(args);
      ui.setWorkingMessage(message ?? undefined);
      ui.setWorkingIndicator(options ?? undefined);
      ui.setWorkingVisible(visible);
      ui.setToolsExpanded(true);
      ui.notify(JSON.stringify(ui.getToolsExpanded()));
    },
  });
}
"""


def test_both_languages_set_the_displays_of_the_client(agent: AgentStarter, tmp_path: Path, node_program: str) -> None:
    """R-UI-30, R-UI-31: each change is sent whole, to a client that begins to draw as well; none without one."""
    python, node = tmp_path / "shows.py", tmp_path / "shows.mjs"
    python.write_text(PYTHON)
    node.write_text(NODE)
    one = Extended(agent((), "-e", str(python), "-e", str(node), env={"PINNACE_NODE": node_program}))

    def after(command: str) -> str:
        one.command(command)
        return one.notice()

    def sent(kind: str) -> list[Mapping[str, object]]:
        return [{k: v for k, v in each.items() if k != "type"} for each in one.pi.found({"type": kind})]

    assert "7 False" == after("/py label")
    assert not sent("ui_display")
    assert not sent("ui_tools_expanded")
    one.pi.ask("hello", surfaces=True, toolsExpanded=True)
    label = {"hiddenThinkingLabel": "label"}
    assert [label] == sent("ui_display")
    colour, options = "\x1b[31mred\x1b[39m", {"frames": ["\x1b]0;t\x07a", ""], "intervalMs": 80.4}
    assert "true" == after("/node " + json.dumps([f"{colour}\n", options, True]))
    message = {**label, "workingMessage": f"{colour} "}
    both = {**message, "workingFrames": ["a", ""], "workingIntervalMs": 80}
    assert [label, message, both] == sent("ui_display")
    assert not sent("ui_tools_expanded")
    assert "true" == after("/node " + json.dumps(["", {"frames": [], "intervalMs": -1}, False]))
    empty = {**label, "workingMessage": "", "workingFrames": []}
    assert {**empty, "workingVisible": False} == sent("ui_display")[-1]
    assert "7 False" == after("/py")
    assert {"workingMessage": "", "workingFrames": []} == sent("ui_display")[-1]
    assert [{"expanded": False}] == sent("ui_tools_expanded")
    one.pi.ask("hello", toolsExpanded=True)
    assert "true" == after("/node [null, null, true]")
    assert {} == sent("ui_display")[-1]
    assert [{"expanded": False}] == sent("ui_tools_expanded")
    after("/py last")
    one.pi.ask("hello", surfaces=False)
    count = len(sent("ui_display"))
    assert "false" == after("/node [null, null, false]")
    one.pi.ask("hello", surfaces=True)
    assert {"workingVisible": False, "hiddenThinkingLabel": "last"} == sent("ui_display")[-1]
    one.pi.ask("new_session")
    assert {} == sent("ui_display")[-1]
    assert count + 2 == len(sent("ui_display"))
    assert not one.errors
