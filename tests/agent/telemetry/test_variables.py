"""Which variables ask for an export."""

import pytest

from pinnace_agent.telemetry.variables import CAPTURE, TelemetryExports, wanted

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
URL = "http://127.0.0.1:4318"


@pytest.mark.parametrize(
    ("variables", "traces", "metrics"),
    [
        ({ENDPOINT: URL}, ("otlp",), ("otlp",)),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": URL}, ("otlp",), ()),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": URL}, (), ("otlp",)),
        ({ENDPOINT: URL, "OTEL_METRICS_EXPORTER": "none"}, ("otlp",), ()),
        ({"OTEL_TRACES_EXPORTER": "console, otlp,console"}, ("console", "otlp"), ()),
        ({"OTEL_TRACES_EXPORTER": "OTLP"}, ("otlp",), ()),
        ({ENDPOINT: URL, "OTEL_SDK_DISABLED": "false"}, ("otlp",), ("otlp",)),
    ],
)
def test_an_export_is_asked_for(variables: dict[str, str], traces: tuple[str, ...], metrics: tuple[str, ...]) -> None:
    assert TelemetryExports(traces, metrics, has_content=False) == wanted(variables)


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_SERVICE_NAME": "mine", "OTEL_RESOURCE_ATTRIBUTES": "a=b", "OTEL_TRACES_SAMPLER": "always_on"},
        {ENDPOINT: ""},
        {ENDPOINT: URL, "OTEL_SDK_DISABLED": "TRUE"},
        {ENDPOINT: URL, "OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"},
        {"OTEL_TRACES_EXPORTER": " , "},
        {CAPTURE: "true"},
    ],
)
def test_nothing_is_asked_for(variables: dict[str, str]) -> None:
    assert wanted(variables) is None


@pytest.mark.parametrize(
    ("value", "has_content"),
    [
        ("true", True),
        ("SPAN_ONLY", True),
        ("span_and_event", True),
        ("EVENT_ONLY", False),
        ("NO_CONTENT", False),
        ("false", False),
        ("1", False),
        ("", False),
    ],
)
def test_content_is_asked_for_by_its_own_variable_alone(value: str, has_content: bool) -> None:
    found = wanted({ENDPOINT: URL, CAPTURE: value})
    assert found is not None
    assert has_content == found.has_content
