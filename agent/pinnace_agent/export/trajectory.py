"""The active branch of a session as a trajectory: ATIF, the format of Harbor and its tools, version 1.7.

One step for each message. Results of tools are the observation of the answer that called them. A compaction is a step
of the system; what it took out of the model's context stays in its place before it. Images are named, not contained:
the format refers to files. Pure.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Final, cast

from pinnace_agent.core.json_access import as_object
from pinnace_agent.export.source import Source
from pinnace_agent.llm.context import llm_text
from pinnace_agent.session.context import context_message
from pinnace_agent.session.identity import iso_time
from pinnace_agent.session.totals import TokenTotals, add_tokens
from pinnace_spec.records.messages import AssistantMessage, Message, ToolResultMessage, Usage
from pinnace_spec.rules import errors

VERSION: Final = "ATIF-v1.7"

Step = dict[str, object]


def trajectory(source: Source, program_version: str) -> str:
    """Return the trajectory as JSON.

    Raises:
        ClientError: The session has no message; the format needs one.
    """
    steps: list[Step] = []
    totals: TokenTotals = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
    cost = 0.0
    model: str | None = None
    for message in branch_messages(source):
        if message["role"] == "toolResult":
            if _observe(steps, message):
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
        raise errors.ClientError(errors.EXPORT_NOTHING, errors.ErrorCode.SESSION_UNAVAILABLE)
    agent: dict[str, object] = {"name": "pinnace", "version": program_version}
    if model is not None:
        agent["model_name"] = model
    document = {
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
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


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


def _observe(steps: Sequence[Step], result: ToolResultMessage) -> bool:
    """Add a result to the step that called the tool; return False if there is none."""
    for step in reversed(steps):
        if step["source"] != "agent":
            continue
        calls = cast("list[Mapping[str, object]]", step.get("tool_calls", []))
        if all(call["tool_call_id"] != result["toolCallId"] for call in calls):
            return False
        observation = cast("dict[str, list[object]]", step.setdefault("observation", {"results": []}))
        shown = {"source_call_id": result["toolCallId"], "content": plain_text(result["content"])}
        observation["results"].append(shown | ({"extra": {"is_error": True}} if result["isError"] else {}))
        return True
    return False
