"""Export over gRPC, where opentelemetry-exporter-otlp-proto-grpc is installed, which the environment of CI has not."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.rpc.telemetry.collector import SOON
from tests.source_tree import PYTHONPATH
from tests.waiting import wait_until

from pinnace_campaigns.trials.one_shot import OneShotStarter
from pinnace_fuzz.script import Scripted

REASON = "opentelemetry-exporter-otlp-proto-grpc is not installed"
pytest.importorskip("opentelemetry.exporter.otlp.proto.grpc", reason=REASON)
grpc: Any = pytest.importorskip("grpc")  # without types, as the next
SERVICE: Any = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc")
MESSAGES: Any = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")


class Traces(SERVICE.TraceServiceServicer):  # type: ignore[misc]  # Any, as it is installed
    """Takes spans, once its gate is open, or refuses them."""

    def __init__(self, *, refuses: bool) -> None:
        self.names: set[str] = set()
        self.keys: set[str] = set()
        self._refuses = refuses

    def Export(self, request: Any, context: Any) -> Any:
        self.keys |= {value for name, value in context.invocation_metadata() if name == "x-token"}
        if self._refuses:
            context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
        for resource in request.resource_spans:
            self.names |= {span.name for scope in resource.scope_spans for span in scope.spans}
        return MESSAGES.ExportTraceServiceResponse()


@pytest.mark.parametrize("refuses", [False, True])
def test_spans_are_exported_over_grpc_and_a_collector_that_refuses_is_reported(
    print_agent: OneShotStarter, *, refuses: bool
) -> None:
    traces = Traces(refuses=refuses)
    server = grpc.server(ThreadPoolExecutor(2))
    SERVICE.add_TraceServiceServicer_to_server(traces, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    script: list[Scripted] = [{"tool_calls": [{"name": "bash", "args": {"command": "true"}}]}, {"text": "the answer"}]
    try:
        one = print_agent(
            ["-p", "hello"],
            script,
            env={
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"http://127.0.0.1:{port}",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
                "OTEL_EXPORTER_OTLP_HEADERS": "x-token=secret",
                "PYTHONPATH": f"{PYTHONPATH}{os.pathsep}{Path(grpc.__file__).parents[1]}",
                **SOON,
            },
        )
        ended = one.end()
        wait_until(lambda: traces.keys)
    finally:
        server.stop(None).wait()

    assert (0, "the answer\n", {"secret"}) == (*ended[:2], traces.keys)
    assert refuses == ("not everything is exported: Transient error StatusCode.UNAVAILABLE" in ended.err)
    assert refuses or {"chat m1", "execute_tool bash"} <= traces.names
