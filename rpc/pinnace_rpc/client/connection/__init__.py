"""The client's end of the pipes: the agent's process, its lines, and the calls into the loop that reads them."""
