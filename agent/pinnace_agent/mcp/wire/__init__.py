"""The connection to a server: bytes, and the protocol by the library `mcp`. Imports `oauth.credentials` and below.

Loaded in a thread with the first connection: the library takes half a second. Nothing outside imports it before.
"""
