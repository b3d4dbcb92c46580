"""The active branch of a session as a trajectory: ATIF, the format of Harbor and its tools, version 1.7.

One step for each message. Results of tools are the observation of the answer that called them. A compaction is a step
of the system; what it took out of the model's context stays in its place before it. Images are named, not contained:
the format refers to files. The trajectory of a sub-agent is contained, and the result of its call refers to it. Pure.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

from pinnace_agent.core.json_access import as_object
from pinnace_agent.export.source import Source
from pinnace_agent.llm.context import llm_text
from pinnace_agent.session.child_agents import listed_children
from pinnace_agent.session.context import context_message
from pinnace_agent.session.identity import iso_time
from pinnace_agent.session.totals import TokenTotals, add_tokens
from pinnace_spec.records.messages import AssistantMessage, Message, ToolResultMessage, Usage
from pinnace_spec.rules import errors

VERSION: Final = "ATIF-v1.7"

Step = dict[str, object]


def trajectory(source: Source, program_version: str, read_child: Callable[[str], Source | None]) -> str:
    """Return the trajectory as JSON.

    Args:
        source: The session.
        program_version: Of this program.
        read_child: Returns the session in a file, that of a sub-agent; None: there is none.

    Raises:
        ClientError: The session has no message; the format needs one.
    """
    document = _document(source, program_version, read_child)
    if document is None:
        raise errors.ClientError(errors.EXPORT_NOTHING, errors.ErrorCode.SESSION_UNAVAILABLE)
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _document(
    source: Source, program_version: str, read_child: Callable[[str], Source | None]
) -> dict[str, object] | None:
    """Return a trajectory with those of the session's sub-agents; None: the session has no message."""
    children = {
        str(each["agentId"]): each
        for each in listed_children(source.entries, str(source.header.get("id", "")), source.path)
    }
    documents: dict[str, object] = {}

    def refer(identity: str) -> Sequence[Step]:
        """Return what a result refers to, and contain it."""
        child = children.get(identity)
        if child is None or identity in documents or (read := read_child(str(child["sessionFile"]))) is None:
            return ()
        document = _document(read, program_version, read_child)
        if document is None:
            return ()
        documents[identity] = {**document, "trajectory_id": identity}
        return [{"trajectory_id": identity, "session_id": identity, "extra": {"state": child["state"]}}]

    steps: list[Step] = []
    totals: TokenTotals = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
    cost = 0.0
    model: str | None = None
    for message in branch_messages(source):
        if message["role"] == "toolResult":
            if _observe(steps, message, refer):
                continue
            step = _step("system", f"Result of {message['toolName']}: {plain_text(message['content'])}")
        elif message["role"] == "assistant":
            step = _answer(message)
            usage = message["usage"]
            add_tokens(totals, usage["input"], usage["output"], usage["cacheRead"], usage["cacheWrite"])
            cost += usage["cost"]["total"]
            model = str(step["model_name"])
        else:
            is_user = message["role"] in {"user", "bashExecution"}
            step = _step("user" if is_user else "system", message_text(message))
        steps.append({"step_id": len(steps) + 1, **_timestamp(message["timestamp"]), **step})
    if not steps:
        return None
    for identity, child in children.items():
        if "toolCallId" not in child:  # a client has started it: no result refers to it
            refer(identity)
    agent: dict[str, object] = {"name": "pinnace", "version": program_version}
    if model is not None:
        agent["model_name"] = model
    document: dict[str, object] = {
        "schema_version": VERSION,
        "session_id": str(source.header.get("id", "")),
        "agent": agent,
        "steps": steps,
        "final_metrics": {
            "total_prompt_tokens": totals["total"] - totals["output"],
            "total_completion_tokens": totals["output"],
            "total_cached_tokens": totals["cacheRead"],
            "total_cost_usd": cost,
            "total_steps": len(steps),
        },
    }
    if documents:
        document["subagent_trajectories"] = list(documents.values())
    return document


def branch_messages(source: Source) -> list[Message]:
    """Return the messages of the active branch, also those that a compaction has taken out of the context."""
    tree = source.tree()
    found = (context_message(tree.entries[place]) for place in tree.path(tree.leaf))
    return [message for message in found if message is not None]


def message_text(message: Message) -> str:
    """Return what a message says, as a text."""
    if message["role"] == "bashExecution":
        return f"$ {message['command']}\n{message['output']}"
    return plain_text(llm_text(message))


def plain_text(content: object) -> str:
    """Return the text of blocks; an image is named by its type."""
    if isinstance(content, str):
        return content
    parts: list[str] = []
    for each in cast("Sequence[object]", content) if isinstance(content, list) else ():
        block: Mapping[str, object] = as_object(each) or {}
        if block.get("type") == "text":
            parts.append(str(block.get("text", "")))
        elif block.get("type") == "image":
            parts.append(f"[image: {block.get('mimeType')}]")
    return "\n".join(parts)


def _timestamp(ms: int) -> Step:
    """Return the time of a step; nothing for one that no calendar has, which a damaged session may hold."""
    try:
        return {"timestamp": iso_time(int(ms))}
    except (ValueError, OverflowError, OSError):
        return {}


def _step(source: str, message: str) -> Step:
    return {"source": source, "message": message}


def _answer(message: AssistantMessage) -> Step:
    texts = [block["text"] for block in message["content"] if block["type"] == "text"]
    thoughts = [block["thinking"] for block in message["content"] if block["type"] == "thinking"]
    calls = [
        {"tool_call_id": block["id"], "function_name": block["name"], "arguments": as_object(block["arguments"]) or {}}
        for block in message["content"]
        if block["type"] == "toolCall"
    ]
    step: Step = {
        "source": "agent",
        "model_name": f"{message['provider']}/{message['model']}",
        "message": "\n".join(texts),
        "metrics": _metrics(message["usage"]),
        "llm_call_count": 1,
        "extra": {"stop_reason": message["stopReason"]},
    }
    if thoughts:
        step["reasoning_content"] = "\n".join(thoughts)
    if calls:
        step["tool_calls"] = calls
    if "errorMessage" in message:
        step["extra"] = {"stop_reason": message["stopReason"], "error": message["errorMessage"]}
    return step


def _metrics(usage: Usage) -> Mapping[str, object]:
    return {
        "prompt_tokens": usage["input"] + usage["cacheRead"] + usage["cacheWrite"],
        "completion_tokens": usage["output"],
        "cached_tokens": usage["cacheRead"],
        "cost_usd": usage["cost"]["total"],
    }


def _observe(steps: Sequence[Step], result: ToolResultMessage, refer: Callable[[str], Sequence[Step]]) -> bool:
    """Add a result to the step that called the tool; return False if there is none.

    `refer` returns the references to the trajectory of a sub-agent.
    """
    for step in reversed(steps):
        if step["source"] != "agent":
            continue
        calls = cast("list[Mapping[str, object]]", step.get("tool_calls", []))
        if all(call["tool_call_id"] != result["toolCallId"] for call in calls):
            return False
        observation = cast("dict[str, list[object]]", step.setdefault("observation", {"results": []}))
        shown = {"source_call_id": result["toolCallId"], "content": plain_text(result["content"])}
        agent = as_object((as_object(result.get("details")) or {}).get("agent")) or {}
        references = refer(str(agent.get("agentId", "")))
        referred = {"subagent_trajectory_ref": references} if references else {}
        observation["results"].append(shown | referred | ({"extra": {"is_error": True}} if result["isError"] else {}))
        return True
    return False
