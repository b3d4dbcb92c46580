"""A client that answers requests for files as a test tells it to."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import trio

from pinnace_agent.client_files.call_files import CallFiles
from pinnace_agent.client_files.requests import ClientRequests
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.tools.base import Tool, ToolContext
from pinnace_agent.tools.edit import EditTool
from pinnace_agent.tools.read import ReadTool
from pinnace_agent.tools.write import WriteTool

Answer = Callable[[Mapping[str, Any]], Mapping[str, object] | None]


class ScriptedClient:
    """Takes the agent's records. Implements the `Emitter`."""

    def __init__(self) -> None:
        self.requests = ClientRequests(self)
        self.requests.offer(["read_text_file", "write_text_file"])
        self.asked: list[Mapping[str, Any]] = []
        self.answer: Answer = lambda _: None
        """Returns the fields of the answer to a request; None: there is none."""
        self.arrived = trio.Event()

    def emit(self, record: Mapping[str, object]) -> None:
        self.asked.append(record)
        self.arrived.set()
        fields = self.answer(record)
        if fields is not None:
            self.requests.answer({"id": record["id"], **fields})

    def update(self, event: Mapping[str, object], builder: MessageBuilder) -> None:
        raise AssertionError(event)

    def progress(self, record: Mapping[str, object], key: str) -> None:
        raise AssertionError(key)

    async def room(self) -> None:
        await trio.lowlevel.checkpoint()

    async def call(self, name: str, folder: Path, *, bound_path: str | None = None, **args: object) -> str:
        """Run a call of a tool, and return the text of its result."""
        tools: dict[str, Tool] = {"read": ReadTool(), "write": WriteTool(), "edit": EditTool()}
        context = ToolContext(str(folder), "c1", lambda _: None, {}, bound_path=bound_path)
        context.client_files = CallFiles(self.requests, [str(folder)], "c1")
        result = await tools[name].execute(args, context)
        return str(result.content[0].get("text"))

    async def edit(self, folder: Path, path: str, old: str, new: str) -> str:
        """Run a call of `edit`."""
        return await self.call("edit", folder, path=path, edits=[{"oldText": old, "newText": new}])


@pytest.fixture
def client() -> ScriptedClient:
    return ScriptedClient()
