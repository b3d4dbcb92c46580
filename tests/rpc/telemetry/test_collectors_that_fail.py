"""A collector that hangs, refuses or fails changes no run and keeps no process; nor does a missing library."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.rpc.conftest import COMMAND, CONVERSATION_TIMEOUT_S
from tests.rpc.telemetry.collector import LIMIT_S, SOON, Collector, Span, collecting
from tests.source_tree import PYTHONPATH
from tests.waiting import wait_until

from pinnace_agent.core.installing import how_to_install
from pinnace_campaigns.trials.one_shot import OneShotStarter, Printed
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import AgentStarter

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
RETRY = {"retry": {"enabled": True, "baseDelayMs": 1}}
LATER: Scripted = {"error": {"status": 503, "body": {"error": {"message": "later"}}}}
ATTEMPTS = 10
LOST = "pinnace: warning: not everything is exported: "


def asked(print_agent: OneShotStarter, **variables: str) -> Printed:
    return print_agent(["-p", "hello"], [{"text": "the answer"}], env=variables).end()


def test_a_run_and_the_end_wait_for_no_collector(print_agent: OneShotStarter) -> None:
    """While it has not answered: the request that failed is being sent, and is when the process has ended."""
    with collecting("hangs") as collector:
        script: list[Scripted] = [LATER, {"text": "the answer", "hold": "until the collector is asked"}]
        one = print_agent(["-p", "hello"], script, env={ENDPOINT: collector.endpoint, **SOON}, settings=RETRY)
        one.close_stdin()
        assert collector.asked.wait(LIMIT_S)
        one.llm.release("until the collector is asked")
        ended = one.end()

    assert (0, "the answer\n") == ended[:2]


def test_a_signal_ends_a_process_that_exports(agent: AgentStarter) -> None:
    """While the collector has not answered, too."""
    with collecting("hangs") as collector:
        script: list[Scripted] = [LATER, {"chunks": [{"text": "begun"}, {"hang": True}]}]
        pi = agent(script, env={ENDPOINT: collector.endpoint, **SOON}, settings=RETRY)
        pi.send({"type": "prompt", "message": "go"})
        pi.wait({"type": "message_update"})
        assert collector.asked.wait(LIMIT_S)
        pi.process.signal(signal.SIGTERM)
        assert 128 + signal.SIGTERM == pi.wait_exit(CONVERSATION_TIMEOUT_S)


def whole_trace(collector: Collector) -> list[Span]:
    """Return the spans of an invocation with its request, if both have come: what one attempt sends may come late."""
    traces: dict[str, list[Span]] = {}
    for span in collector.spans:
        traces.setdefault(span.trace, []).append(span)
    return next((found for found in traces.values() if len(found) > 1), [])


def test_what_a_signal_ends_is_exported_at_the_end(agent: AgentStarter) -> None:
    """Mostly: a process on a machine that is busy may have no time for it, and another one has to show it."""
    with collecting() as collector:
        for _ in range(ATTEMPTS):
            pi = agent([{"chunks": [{"text": "begun"}, {"hang": True}]}], env={ENDPOINT: collector.endpoint})
            pi.send({"type": "prompt", "message": "go"})
            pi.wait({"type": "message_update"})
            pi.process.signal(signal.SIGTERM)
            pi.wait_exit(CONVERSATION_TIMEOUT_S)
            if found := whole_trace(collector):
                break
    invocation, request = found

    assert "aborted" == invocation.attributes["pinnace.outcome"]
    assert ["aborted"] == request.attributes["gen_ai.response.finish_reasons"]
    assert request.parent == invocation.id


@pytest.mark.parametrize("behaviour", ["fails", "refuses"])
def test_a_collector_that_takes_nothing_is_reported_once(agent: AgentStarter, behaviour: str) -> None:
    with collecting("fails") as collector:
        endpoint = collector.endpoint if behaviour == "fails" else "http://127.0.0.1:9"
        pi = agent([{"text": "one"}, {"text": "two"}], env={ENDPOINT: endpoint, **SOON})
        pi.say("one")
        wait_until(lambda: LOST in pi.stderr_text)
        pi.say("two")
        pi.check_end()

    assert 1 == pi.stderr_text.count("\n")


def test_a_missing_library_is_reported_with_its_extra(print_agent: OneShotStarter, tmp_path: Path) -> None:
    hidden = tmp_path / "hidden" / "opentelemetry"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ModuleNotFoundError('hidden', name='opentelemetry')")
    ended = asked(
        print_agent, **{ENDPOINT: "http://127.0.0.1:9", "PYTHONPATH": f"{hidden.parent}{os.pathsep}{PYTHONPATH}"}
    )

    assert (0, "the answer\n") == ended[:2]
    assert 1 == ended.err.count("\n")
    assert f"the extra otel is not installed. Install it with: {how_to_install('otel')}\n" in ended.err


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "the distribution opentelemetry-exporter-otlp-proto-grpc"),
        ({"OTEL_TRACES_EXPORTER": "no-such"}, "no exporter of traces is installed under the name no-such"),
    ],
)
def test_an_exporter_that_is_not_installed_is_reported(
    print_agent: OneShotStarter, variables: dict[str, str], reason: str
) -> None:
    ended = asked(print_agent, **{ENDPOINT: "http://127.0.0.1:9", **variables})

    assert (0, "the answer\n") == ended[:2]
    assert 1 == ended.err.count("\n")
    assert reason in ended.err


@pytest.mark.parametrize("variables", [{}, {ENDPOINT: "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"}])
def test_nothing_of_the_library_is_loaded_unless_an_export_is_asked_for(variables: dict[str, str]) -> None:
    """In a process of its own, through a run of a model with a tool."""
    command = (sys.executable, "-P", "-X", "importtime", *COMMAND[2:], "-p", "--no-session", "--provider", "offline")
    done = subprocess.run(
        [*command, "run `true`"],
        env={"PYTHONPATH": PYTHONPATH, "PATH": os.environ["PATH"], "PINNACE_OFFLINE_DELAY_MS": "0", **variables},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=True,
        timeout=CONVERSATION_TIMEOUT_S,
    )

    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "pinnace_agent.engine.tool_calls" in loaded
    assert set() == {name for name in loaded if name.startswith(("opentelemetry", "pinnace_agent.telemetry.otel"))}
    if not variables:
        assert set() == {name for name in loaded if name.startswith("pinnace_agent.telemetry")}


def test_no_command_gets_the_key_of_a_collector(agent: AgentStarter) -> None:
    """Whether or not anything is exported, and after the files were read again, too."""
    pi = agent([], env={"OTEL_EXPORTER_OTLP_HEADERS": "x-token=secret-of-the-collector"})
    commands = ["printenv OTEL_EXPORTER_OTLP_HEADERS", "env"]
    before = [pi.ask("bash", command=command)["output"] for command in commands]
    pi.ask("reload")
    after = [pi.ask("bash", command=command)["output"] for command in commands]

    for missing, everything in (before, after):
        assert "" == missing
        assert "PATH=" in everything
        assert "OTEL" not in everything
