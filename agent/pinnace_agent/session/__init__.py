"""A session: one conversation with its identity and its choices."""

from pinnace_agent.session.conversation import Session

__all__ = ["Session"]
