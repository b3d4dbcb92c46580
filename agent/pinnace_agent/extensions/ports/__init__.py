"""What extensions may read of the running agent and request of it, as protocols. Imports registration and events."""
