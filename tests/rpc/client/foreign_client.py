"""Runs in the environment of clients by others: `python foreign_client.py NAME PI`; prints what the client has got.

Each sends one prompt to the agent that the program PI starts, and waits for its end with the means of that client.
"""

import asyncio
import json
import sys
from importlib import import_module


def of_picable(program: str) -> dict[str, object]:
    picable = import_module("picable")
    with picable.PiClient(executable=program, provider="fake", model="m1", no_session=True) as client:
        events = client.subscribe_events()
        client.prompt("go")
        kinds: list[str] = []
        while not kinds or kinds[-1] != "agent_end":
            kinds.append(events.get(timeout=30).type)
        state = client.get_state()
        return {"kinds": kinds, "text": client.get_last_assistant_text(), "model": state.model.id}


def of_pi_py_sdk(program: str) -> dict[str, object]:
    sdk = import_module("pi_py_sdk")

    async def run() -> dict[str, object]:
        agent = sdk.PiAgent(config=sdk.PiConfig(bin=program, provider="fake", model="m1", no_session=True))
        await agent.start()
        kinds = [event.type for event in await agent.prompt_and_wait("go", timeout=30)]
        text, state = await agent.get_last_assistant_text(), await agent.get_state()
        await agent.stop()
        return {"kinds": kinds, "text": text, "model": state["model"]["id"]}

    return asyncio.run(run())


print(json.dumps({"picable": of_picable, "pi-py-sdk": of_pi_py_sdk}[sys.argv[1]](sys.argv[2])))
