"""What an author of extensions imports: `pi`, `ctx` and helpers. Imports services, ports, registration and events."""
