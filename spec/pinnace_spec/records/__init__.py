"""Every record of the protocol, field by field: commands, responses, events, messages."""
