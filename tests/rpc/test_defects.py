"""A defect of the program is answered, told and survived: R-RSP-01 holds for our faults too."""

import json
from pathlib import Path
from typing import Any

import trio

from pinnace_agent.jobs import Jobs
from pinnace_agent.profile import AgentProfile
from pinnace_agent.resources.configuration import load_configuration
from pinnace_agent.resources.models import ModelRegistry
from pinnace_agent.resources.selection import Selection
from pinnace_agent.resources.settings import Settings
from pinnace_agent.session import Session
from pinnace_agent.session.library import Library
from pinnace_fuzz import coverage
from pinnace_rpc.dispatch import Dispatcher
from pinnace_rpc.outbox import Outbox
from pinnace_rpc.projection import make_projection
from pinnace_rpc.startup import Prepared, build_host
from pinnace_spec.messages import Model


class BrokenRegistry(ModelRegistry):
    """A registry with a defect."""

    def available(self) -> list[Model]:
        raise RuntimeError("the registry is broken")


class Sink:
    def __init__(self) -> None:
        self.data = b""

    async def send_all(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        self.data += data


async def answers(*commands: dict[str, object]) -> list[dict[str, Any]]:
    """Return what an agent with a broken registry writes."""
    registry = load_configuration({"HOME": "/nonexistent"}, Path("/nonexistent")).registry
    registry.__class__ = BrokenRegistry
    profile = AgentProfile(registry, {}, str)
    prepared = Prepared(profile, Session("/nonexistent"), Library(None), Selection(), Settings())
    outbox, sink = Outbox(make_projection("pi")), Sink()
    dispatcher = Dispatcher(outbox, lambda: None)
    async with trio.open_nursery() as nursery:
        build_host(prepared, outbox, dispatcher, Jobs(nursery))
        for command in commands:
            dispatcher.receive(json.dumps(command).encode())
        outbox.close()
        await outbox.pump(sink)
    records = [json.loads(line) for line in sink.data.splitlines()]
    coverage.note_records(records)
    return records


async def test_a_read_and_a_setting_that_fail_are_answered_and_the_next_command_is_too() -> None:
    records = await answers(
        {"id": "r", "type": "get_available_models"},
        {"id": "s", "type": "set_model", "provider": "a", "modelId": "b"},
        {"id": "n", "type": "get_state"},
    )

    assert [("r", False), ("s", False), ("n", True)] == [(record["id"], record["success"]) for record in records]
    for record in records[:2]:
        assert ("internal_error", "Internal error: the registry is broken") == (record["errorCode"], record["error"])
