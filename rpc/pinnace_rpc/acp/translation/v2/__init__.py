"""Version 2 of the protocol: a prompt is answered when its message is accepted, and the end of work is a state."""
