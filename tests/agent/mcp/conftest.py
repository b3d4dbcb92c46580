"""What tests of connections to MCP servers share."""

import gc
from collections.abc import Iterator

import pytest

_PASSES = 5
"""At most: what ends with an object is collected in a later pass, as pytest does itself at its end."""


@pytest.fixture(scope="module")
def collected() -> Iterator[None]:
    """Collect what the library leaves open within the file that ignores its warnings, and not in the one after it."""
    yield
    for _ in range(_PASSES):
        if not gc.collect():
            break
