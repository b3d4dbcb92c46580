"""A batch is one trace: its span is the parent of its tasks' runs, is exported after a kill, and delays nothing."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.rpc.batch.test_batch import TIMEOUT_S, Bench, Task, gated
from tests.rpc.telemetry.collector import Behaviour, Collector, Span, collecting

from pinnace_fuzz.harness.shell_gate import ShellGate
from pinnace_rpc.batch.span import END_S, BatchSpan
from pinnace_rpc.batch.worker import run_task

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
NAME = "invoke_workflow pinnace batch"
RUN = "invoke_agent pinnace"
LOST = "pinnace: warning: batch: not everything is exported: "
ATTEMPTS = 10
SOON_S = 5.0


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def export_to(collector: Collector, bench: Bench) -> None:
    bench.env |= {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint, "OTEL_METRICS_EXPORTER": "none"}


def spans(collector: Collector, name: str) -> list[Span]:
    return [span for span in collector.spans if span.name == name]


def attempts(bench: Bench) -> Iterator[None]:
    """Let a test try again, each time with another folder.

    Mostly the first attempt does it: a machine that is busy may have no time for an export at the end, which waits for
    two seconds at most.
    """
    for number in range(ATTEMPTS):
        bench.out = bench.folder / f"out-{number}"
        yield


def soon(condition: Callable[[], object]) -> bool:
    """Wait a little for what is being exported."""
    end = time.monotonic() + SOON_S
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return bool(condition())


def test_the_span_of_a_batch_is_the_parent_of_its_tasks_runs(bench: Bench) -> None:
    """And of their verifications. A batch that is started again, which has nothing to run, has none."""
    tasks: list[Task] = [
        {"id": "a", "prompt": "x", "verify": "echo $TRACEPARENT $TRACESTATE; false"},
        {"id": "b", "prompt": "x"},
        {"id": "own", "prompt": "x", "env": {"TRACEPARENT": f"00-{TRACE}-00000000000000aa-01"}},
    ]
    bench.env |= {"TRACEPARENT": f"00-{TRACE}-{PARENT}-01", "TRACESTATE": "vendor=1"}
    for _ in attempts(bench):
        with collecting() as collector:
            export_to(collector, bench)
            first, second = bench.run(tasks), bench.run(tasks)
            if soon(lambda: len(spans(collector, RUN)) == 3 and spans(collector, NAME)):
                break
    [span] = spans(collector, NAME)
    runs = {run.attributes["gen_ai.conversation.id"]: run.parent for run in spans(collector, RUN)}

    assert (1, 1) == (first.returncode, second.returncode)
    assert (TRACE, PARENT) == (span.trace, span.parent)
    assert {"a": span.id, "b": span.id, "own": "00000000000000aa"} == runs
    assert f"00-{TRACE}-{span.id}-01 vendor=1\n" == bench.results["a"]["verify"]["output"]
    counts = {"pinnace.batch.tasks": 3, "pinnace.batch.passed": 2, "pinnace.batch.failed": 1}
    names = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.agent.name": "pinnace batch"}
    assert {**counts, **names, "pinnace.outcome": "completed"}.items() <= span.attributes.items()
    assert "pinnace" == span.resource["service.name"]
    assert not span.is_error


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_span_of_a_batch_that_a_signal_ends_is_exported_and_its_successor_has_another(
    bench: Bench, gates: Callable[[], ShellGate], number: signal.Signals
) -> None:
    for _ in attempts(bench):
        gate = gates()
        with collecting() as collector:
            export_to(collector, bench)
            process = bench.start(gated(gate), "--workers", "1")
            gate.wait_reached()
            process.send_signal(number)
            if number == signal.SIGINT:
                assert process.stderr is not None
                assert any(b"running tasks end" in line for line in process.stderr)
                gate.release()
            process.communicate(timeout=TIMEOUT_S)
            done = bench.run(gated(gate))
            if soon(lambda: len(spans(collector, NAME)) == 2):
                break
    first, second = spans(collector, NAME)

    assert 0 == done.returncode
    assert ("interrupted", True) == (first.attributes["pinnace.outcome"], first.is_error)
    assert (6, number == signal.SIGKILL) == (
        first.attributes["pinnace.batch.tasks"],
        "pinnace.batch.passed" not in first.attributes,
    )
    assert "completed" == second.attributes["pinnace.outcome"]
    assert first.trace != second.trace


@pytest.mark.parametrize("behaviour", ["hangs", "fails"])
def test_a_batch_whose_collector_takes_nothing_ends(bench: Bench, behaviour: Behaviour) -> None:
    """What a batch waits for it is a constant, which the page states."""
    page = (Path(__file__).parents[3] / "docs" / "telemetry.md").read_text(encoding="utf-8")
    for _ in attempts(bench):
        with collecting(behaviour) as collector:
            export_to(collector, bench)
            done = bench.run([{"id": "a", "prompt": "x"}])
        assert 0 == done.returncode
        if (behaviour == "hangs" and collector.asked.is_set()) or LOST in done.stderr:
            break
    else:
        raise AssertionError(done.stderr)

    assert (LOST in done.stderr) == (behaviour == "fails")
    assert 2.0 == END_S
    assert "at most two seconds" in page


@pytest.mark.parametrize("variables", [{}, {"OTEL_SERVICE_NAME": "mine"}, {"OTEL_TRACES_EXPORTER": "no-such"}])
def test_a_batch_without_an_export_has_no_span(bench: Bench, variables: dict[str, str]) -> None:
    """And loads nothing of the library, nor of the agent; with a value that the library refuses, its tasks run."""
    bench.env |= {**variables, "TRACEPARENT": f"00-{TRACE}-{PARENT}-01"}
    task = {"id": "a", "prompt": "x", "verify": "echo $TRACEPARENT"}
    command = bench.command([task])
    done = subprocess.run(
        [command[0], "-X", "importtime", *command[1:]],
        env=bench.env,
        cwd=bench.folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}

    assert f"00-{TRACE}-{PARENT}-01\n" == bench.results["a"]["verify"]["output"]
    assert "pinnace_rpc.batch.span" in loaded
    assert set() == {name for name in loaded if name.startswith(("opentelemetry", "pinnace_agent.telemetry"))}
    assert ("no-such" in done.stderr) == ("OTEL_TRACES_EXPORTER" in variables)


def test_a_worker_elsewhere_gets_the_trace_of_the_coordinator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own would be that of whatever started it."""
    monkeypatch.setenv("TRACEPARENT", "of the worker")
    monkeypatch.setenv("TRACESTATE", "of the worker")
    note = 'printf "%s\\n" "$TRACEPARENT" "$TRACESTATE" > "$0"'
    for name, trace in (("with", {"TRACEPARENT": "of the batch"}), ("without", {})):
        command = ["/bin/sh", "-c", note, str(tmp_path / name)]
        call = {"task": {"id": "t", "prompt": "x"}, "place": str(tmp_path / f"{name}-place"), "flags": []}
        run_task({**call, "command": command, "trace": trace})

    assert "of the batch\n\n" == (tmp_path / "with").read_text()
    assert "of the worker\nof the worker\n" == (tmp_path / "without").read_text()


def test_a_program_that_begins_no_span_costs_the_span_alone(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    span = BatchSpan(1, {"OTEL_TRACES_EXPORTER": "otlp", "TRACEPARENT": "given"})
    span.end(passed=1, failed=0, is_interrupted=False)
    span.close()

    assert {"TRACEPARENT": "given"} == span.variables
    assert "the batch has no span" in capfd.readouterr().err
