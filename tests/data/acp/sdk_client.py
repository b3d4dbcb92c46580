"""A client made with the official SDK for Python: one conversation, whose outcome it prints as JSON.

Runs in the environment of the clients by others. Arguments: the folder of the session, then the agent's command.
"""

import asyncio
import json
import os
import sys
from importlib import import_module
from typing import Any

acp: Any = import_module("acp")
cwd, program, *words = sys.argv[1:]
seen: dict[str, Any] = {"text": "", "calls": {}, "asked": 0}


class Editor:
    async def session_update(self, session_id: str, update: Any, **_more: Any) -> None:
        if update.session_update == "agent_message_chunk":
            seen["text"] += update.content.text
        elif update.session_update in ("tool_call", "tool_call_update") and update.status:
            seen["calls"][update.tool_call_id] = update.status

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_more: Any
    ) -> dict[str, Any]:
        seen["asked"] += 1
        option = next(each for each in options if each.kind == "allow_once")
        return {"outcome": {"outcome": "selected", "optionId": option.option_id}}

    def on_connect(self, conn: Any) -> None:
        pass


async def main() -> None:
    env = dict(os.environ)
    async with acp.spawn_agent_process(Editor(), program, *words, env=env, cwd=cwd) as (agent, process):
        seen["version"] = (await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)).protocol_version
        session = (await agent.new_session(cwd=cwd, mcp_servers=[])).session_id
        await agent.set_session_mode(mode_id="ask", session_id=session)
        prompt = [acp.text_block("Please run `echo hello`")]
        seen["first"] = (await agent.prompt(prompt=prompt, session_id=session)).stop_reason
        second = asyncio.ensure_future(agent.prompt(prompt=prompt, session_id=session))
        await asyncio.sleep(0)
        await agent.cancel(session_id=session)
        seen["second"] = (await second).stop_reason
        seen["listed"] = [each.cwd for each in (await agent.list_sessions(cwd=cwd)).sessions]
        await agent.close_session(session_id=session)
        try:
            await agent.prompt(prompt=prompt, session_id=session)
        except acp.RequestError as error:
            seen["code"] = error.code
        await agent.load_session(cwd=cwd, session_id=session, mcp_servers=[])
    seen["exit"] = process.returncode


asyncio.run(main())
print(json.dumps(seen))
