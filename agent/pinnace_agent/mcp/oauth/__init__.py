"""Sign-ins to MCP servers: where they are kept, how a user signs in, the commands. Imports `mcp.server` and below.

The protocol is that of the library, by `wire.authorization`. `credentials` is imported from below, too.
"""
