"""Tools that an extension activates before a run: the prompt lists them, whatever other handlers have added to it."""

import json
from pathlib import Path

from pinnace_fuzz.trials.workbench import AgentStarter

EXTENSION = """
def extension(pi):
    @pi.on("before_agent_start")
    def first(ctx, event):
        return {"systemPrompt": event.system_prompt + " ADDED FIRST"}

    @pi.on("before_agent_start")
    def second(ctx, event):
        pi.set_active_tools(["read"])

    @pi.on("before_agent_start")
    def third(ctx, event):
        ctx.ui.notify(event.system_prompt)
        return {"systemPrompt": event.system_prompt + " ADDED LAST"}
"""


def test_later_handlers_and_the_model_see_the_prompt_of_the_new_tools(agent: AgentStarter, tmp_path: Path) -> None:
    """With what former handlers have added."""
    file = tmp_path / "tools.py"
    file.write_text(EXTENSION)
    pi = agent([{"text": "fine", "repeat": -1}], "-e", str(file))
    pi.say("one")
    body = json.loads(pi.llm.requests[-1].text)
    [seen] = [each["message"] for each in pi.found({"type": "extension_ui_request", "method": "notify"})]
    prompt = body["messages"][0]["content"]
    assert [each["function"]["name"] for each in body["tools"]] == ["read"]
    assert prompt == f"{seen} ADDED LAST"
    assert seen.endswith(" ADDED FIRST")
    assert ("- read:" in seen, "- bash:" in seen) == (True, False)
    pi.check_end()
