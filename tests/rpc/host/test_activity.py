"""What a host knows of its agents by the records that pass."""

from pathlib import Path

import pytest
import trio.testing
from tests.rpc.host.piped_agent import Hosted, hosted


@pytest.mark.parametrize("first", ["the client", "the host"])
async def test_a_sub_agent_that_has_ended_is_listed_no_more_when_a_client_knows_it(tmp_path: Path, first: str) -> None:
    """R-HST-08: the host waits for it as clients do, and any of them may be answered first."""
    row = {"agentId": "0-1", "sessionId": "s", "task": "count", "state": "running"}
    ended = {"agent": {**row, "state": "completed", "usage": {}}}

    def listed(had: Hosted) -> list[object]:
        return [each["agentId"] for each in had.agent.activity.children]

    async with hosted(tmp_path) as had:
        process = await had.begin()
        await had.send(b'{"id":"s","type":"start_agent","task":"count"}')
        await process.answer("start_agent", await process.asked("start_agent"), {"agent": row})
        waits = {"the host": await process.asked("wait_agent")}
        during = listed(had)
        await had.send(b'{"id":"w","type":"wait_agent","agentId":"0-1"}')
        waits["the client"] = await process.asked("wait_agent")
        await process.answer("wait_agent", waits.pop(first), ended)
        await trio.testing.wait_all_tasks_blocked()
        after = listed(had)
        await process.answer("wait_agent", waits.popitem()[1], ended)
        await trio.testing.wait_all_tasks_blocked()

    assert (["0-1"], []) == (during, after)
