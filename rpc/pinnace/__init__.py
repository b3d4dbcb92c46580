"""What users import: names of the inner packages, resolved on first use.

`import pinnace` itself imports nothing else, so that it costs nothing. The inner packages may move things; these names
stay.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pinnace_spec.chart import CHART, Row
    from pinnace_spec.framing import LineDecoder
    from pinnace_spec.records import parse_command
    from pinnace_spec.wire import decode_line, encode_record
    from pinnace_statechart.machine import Chart

__all__ = ["CHART", "Chart", "LineDecoder", "Row", "decode_line", "encode_record", "parse_command"]

_HOMES = {
    "CHART": "pinnace_spec.chart",
    "Row": "pinnace_spec.chart",
    "LineDecoder": "pinnace_spec.framing",
    "parse_command": "pinnace_spec.records",
    "decode_line": "pinnace_spec.wire",
    "encode_record": "pinnace_spec.wire",
    "Chart": "pinnace_statechart.machine",
}


def __getattr__(name: str) -> object:
    """Import the module that has a public name."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
