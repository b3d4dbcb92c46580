"""How the engine reaches its client and its extensions: Protocols. At run time they import no other room."""
