"""The connection to one server: its bytes, and the protocol by the library `mcp`. Imports `limits`, `ports`, `shell`.

Loaded in a thread with the first connection: the library takes half a second. Nothing outside imports it before.
"""
