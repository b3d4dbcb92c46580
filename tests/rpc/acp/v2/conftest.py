"""Agents that speak version 2 with a scripted model server, each message held to its schema and to the observer."""

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.rpc.acp.conftest import StartAcp, acp_agents

from pinnace_fuzz.acp.agent import AcpAgent, Message
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.script import Scripted

INFO = {"name": "test", "version": "1"}


@pytest.fixture
def acp2(llm: Callable[[Iterable[Scripted]], FakeLlm], tmp_path: Path) -> Iterator[StartAcp]:
    """Starts agents in mode acp for a client of version 2, in one home; they end with the test."""

    def connect(command: Sequence[str], **options: Any) -> AcpAgent:  # Any: of `AcpAgent`
        return AcpAgent(command, version=2, **options)

    with acp_agents(llm, tmp_path, connect) as start:
        yield start


def begun(agent: AcpAgent, **capabilities: Any) -> Message:  # Any: JSON
    """Initialize an agent and return its answer."""
    return agent.call("initialize", protocolVersion=2, info=INFO, capabilities=capabilities)


def opened(agent: AcpAgent, cwd: Path, **capabilities: Any) -> str:  # Any: JSON
    """Initialize an agent and open a session."""
    begun(agent, **capabilities)
    session: str = agent.call("session/new", cwd=str(cwd))["sessionId"]
    return session


def text(said: str) -> list[Mapping[str, object]]:
    """Return a prompt of one text."""
    return [{"type": "text", "text": said}]


def idle(agent: AcpAgent, after: int = 0) -> Message:
    """Wait for the end of work, and return it."""
    return agent.update("state_update", after, state="idle")


def turn(agent: AcpAgent, session: str, said: str) -> Message:
    """Send a prompt, and wait for the end of its work; return that, with the id of the message as `messageId`."""
    after = len(agent.messages)
    accepted = agent.call("session/prompt", sessionId=session, prompt=text(said))
    return {**idle(agent, after), "messageId": accepted["messageId"]}


def states(updates: Iterable[Message]) -> list[object]:
    """Return the states in updates, each with its reason if it has one."""
    found = [each for each in updates if each["sessionUpdate"] == "state_update"]
    return [f"{each['state']}:{each['stopReason']}" if "stopReason" in each else each["state"] for each in found]


def transcript(updates: Iterable[Message]) -> list[Message]:
    """Return what a client has in the end: messages, calls, terminals, compactions and plans, as first seen."""
    entities: dict[tuple[str, str], Message] = {}

    def entity(kind: str, identity: str) -> Message:
        return entities.setdefault((kind, identity), {"of": kind, "id": identity})

    for update in updates:
        kind = update["sessionUpdate"]
        if kind in ("user_message", "agent_message", "agent_thought"):
            entity(kind, update["messageId"])["text"] = _shown(update["content"])
        elif kind in ("agent_message_chunk", "agent_thought_chunk"):
            found = entity(kind.removesuffix("_chunk"), update["messageId"])
            found["text"] = found.get("text", "") + _shown([update["content"]])
        elif kind == "tool_call_update":
            patch = {name: value for name, value in update.items() if name not in ("sessionUpdate", "toolCallId")}
            found = entity("call", update["toolCallId"])
            found.update({name: value for name, value in patch.items() if name != "capabilities" and value != []})
            if patch.get("content") == []:
                found.pop("content", None)
        elif kind == "terminal_update":
            found = entity("terminal", update["terminalId"])
            found.update({name: update[name] for name in ("command", "cwd", "exitStatus") if name in update})
            if "output" in update:
                found["output"] = decoded(update["output"]["data"])
        elif kind == "terminal_output_chunk":
            found = entity("terminal", update["terminalId"])
            found["output"] = found.get("output", "") + decoded(update["data"])
        elif kind == "compaction_update":
            found = entity("compaction", update["compactionId"])
            found.update({name: update[name] for name in ("status", "summary", "error") if name in update})
        elif kind == "plan_update":
            entity("plan", update["plan"]["planId"])["entries"] = update["plan"]["entries"]
    whole = [each for each in entities.values() if each.get("text", "x") != ""]
    return sorted(whole, key=lambda each: each["of"] == "terminal")  # which have no place of their own


def decoded(data: str) -> str:
    """Return the text of base64."""
    return base64.b64decode(data, validate=True).decode()


def _shown(content: Iterable[Message]) -> str:
    return "".join(each.get("text", f"<{each['type']}>") for each in content)


def essence(updates: Iterable[Mapping[str, Any]]) -> tuple[dict[tuple[str, str], str], dict[str, Any]]:
    """Return the texts of messages and the calls, with what both versions have of them."""
    texts: dict[tuple[str, str], str] = {}
    calls: dict[str, Any] = {}
    for update in updates:
        kind = update["sessionUpdate"]
        if kind.endswith(("message_chunk", "thought_chunk")):
            key = (kind.removesuffix("_chunk"), update["messageId"])
            texts[key] = texts.get(key, "") + update["content"]["text"]
        elif kind in ("user_message", "agent_message", "agent_thought"):
            texts[kind, update["messageId"]] = "".join(each["text"] for each in update["content"])
        elif kind in ("tool_call", "tool_call_update"):
            names = ("title", "name", "kind", "status", "rawInput", "locations")
            fields = {name: update[name] for name in names if name in update}
            calls.setdefault(update["toolCallId"], {}).update(fields)
    return texts, calls
