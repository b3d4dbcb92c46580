"""These tests run inside a sandbox, too, if a variable says so (`tests/agent/sandbox/around_tools.py`)."""

import pytest
from tests.agent.sandbox.around_tools import mark_exceptions, sandbox_around_the_tools

__all__ = ["sandbox_around_the_tools"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Expect failures where none can be avoided."""
    mark_exceptions(items)
