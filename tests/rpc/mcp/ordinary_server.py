"""A server made with the official SDK: on stdio, or over streamable HTTP, with a listening socket as argument."""

import sys
from typing import Annotated, Any

from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel, Field

server = MCPServer("ordinary", instructions="Adds numbers.\nAnd more.")


class Form(BaseModel):
    name: Annotated[str, Field(description="Your name")]
    age: int = 7


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def count(steps: int, ctx: Context[Any, Any]) -> str:
    """Count with progress."""
    for step in range(steps):
        await ctx.report_progress(step + 1, steps)
    return "counted"


@server.tool()
async def ask(ctx: Context[Any, Any]) -> str:
    """Ask the user."""
    answer = await ctx.elicit("Who are you?", Form)
    return f"{answer.action} {getattr(answer, 'data', None)}"


@server.tool()
def environment(name: str) -> str:
    """Return a variable."""
    import os

    return os.environ.get(name, "not set")


@server.prompt()
def greet(name: str, how: str = "kindly") -> str:
    """Greet somebody."""
    return f"Greet {name} {how}."


@server.resource("note://one")
def note() -> str:
    """A note."""
    return "the note"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        import uvicorn

        uvicorn.run(server.streamable_http_app(), fd=int(sys.argv[1]))
    else:
        server.run()
