"""The plan of an agent, which a tool of an extension reports in the details of its results.

`details.plan` is a list of entries, or an object with `entries` and perhaps an `id`; each entry is a text or has
`content`, and perhaps `status` and `priority`. What is malformed is no plan, or no entry of it.
"""

from typing import Final

from pinnace_agent.core.json_access import as_list, as_object
from pinnace_rpc.acp.translation.shown import Json, PlanChanged

_STATUSES: Final = ("pending", "in_progress", "completed", "cancelled")
_PRIORITIES: Final = ("high", "medium", "low")


def plan_of(tool: str, result: Json) -> PlanChanged | None:
    """Return the plan in the result of a tool; None: there is none."""
    plan = (as_object(result.get("details")) or {}).get("plan")
    fields = as_object(plan) or {}
    entries = as_list(plan if not fields else fields.get("entries"))
    if entries is None:
        return None
    identity = fields.get("id")
    found = [entry for each in entries if (entry := _entry(each)) is not None]
    return PlanChanged(identity if isinstance(identity, str) and identity else tool, found)


def _entry(value: object) -> Json | None:
    fields = {"content": value} if isinstance(value, str) else as_object(value) or {}
    content = fields.get("content")
    if not isinstance(content, str) or not content.strip():
        return None
    status, priority = fields.get("status"), fields.get("priority")
    return {
        "content": content,
        "priority": priority if priority in _PRIORITIES else "medium",
        "status": status if status in _STATUSES else "pending",
    }
