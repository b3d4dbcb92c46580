"""`pinnace attach`: a byte pump between standard streams and the host, and a view of a sub-agent.

The pump imports `host.locations`; the view, which an attach to a sub-agent alone loads, `server.queries`.
"""
