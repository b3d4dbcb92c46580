"""`pinnace attach`: a byte pump between standard streams and the host; imports `host.locations`."""
