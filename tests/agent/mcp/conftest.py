"""What tests of connections to MCP servers share."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def collected() -> Iterator[None]:
    """Collect what the library leaves open within the file that ignores its warnings, and not in the one after it."""
    yield
    gc.collect()
