"""Tools, resources and prompts of MCP servers, as an extension that is built in. Imports `extensions`, `config`, below.

The library for the protocol (the package `mcp`, an extra) is imported in `wire` alone, and with the first connection.
"""
