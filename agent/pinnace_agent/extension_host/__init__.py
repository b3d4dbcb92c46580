"""The running agent as extensions find it: the implementation of the ports that `extensions` declares."""
