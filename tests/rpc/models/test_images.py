"""Images between a tool, the history and the model, through a whole agent."""

import json

from PIL import Image

from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

LOOK: list[Scripted] = [{"tool_calls": [{"name": "read", "args": {"path": "picture"}}]}, {"text": "seen"}]


def lay_out(agent: HomedAgent, size: tuple[int, int]) -> None:
    Image.new("RGB", size, "red").save(agent.home.work / "picture", "PNG")


def sent(agent: HomedAgent) -> str:
    """Return the request that follows the tool call."""
    return json.dumps(agent.llm.requests[-1].body)


def test_a_model_is_sent_what_read_attached(agent: AgentStarter) -> None:
    pi = agent(LOOK)
    lay_out(pi, (2500, 4))
    pi.say("look")

    assert "data:image/" in sent(pi)
    assert "original 2500x4, displayed at 2000x3" in sent(pi)


def test_resizing_can_be_switched_off(agent: AgentStarter) -> None:
    pi = agent(LOOK, settings={"images": {"autoResize": False}})
    lay_out(pi, (2500, 4))
    pi.say("look")

    assert "data:image/" in sent(pi)
    assert "displayed at" not in sent(pi)


def test_images_can_be_kept_from_models(agent: AgentStarter) -> None:
    """They stay in the history; a prompt's own is left out as well."""
    pi = agent(LOOK, settings={"images": {"blockImages": True}})
    lay_out(pi, (30, 4))
    image = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    pi.ask("prompt", message="look", images=[image])
    pi.wait({"type": "agent_settled"})

    assert "iVBORw0KGgo" not in sent(pi)
    assert "data:image/" not in sent(pi)
    assert sent(pi).count("(image omitted: the settings keep images from models)") == 2
    blocks = [block for message in pi.ask("get_messages")["messages"] for block in message["content"]]
    assert [block["type"] for block in blocks].count("image") == 2
