"""What the terminal sends: bytes become keys and pastes, and keys actions. Imports nothing else of the client."""
