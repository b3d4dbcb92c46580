"""Version 1 of the protocol: a prompt is answered when its turn is over, and calls are announced and then updated."""
