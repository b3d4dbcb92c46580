"""A server made with the official SDK: a call of `grow` adds a tool, and reports that to clients that listen."""

from typing import Any

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("listening")


def grown() -> str:
    """Be new."""
    return "new"


@server.tool()
async def grow(ctx: Context[Any, Any]) -> str:
    """Add a tool."""
    server.add_tool(grown)
    await ctx.notify_tools_changed()
    return "added"


if __name__ == "__main__":
    server.run()
