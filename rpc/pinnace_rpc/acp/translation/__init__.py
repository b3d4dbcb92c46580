"""What a record of an agent is in the Agent Client Protocol, and what a request is for an agent. Pure."""
