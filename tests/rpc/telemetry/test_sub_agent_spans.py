"""The spans of a sub-agent, as a collector gets them."""

from tests.rpc.subagents.test_subagents import DELEGATE, TOOLS, call
from tests.rpc.telemetry.collector import SOON, collecting
from tests.waiting import wait_until

from pinnace_fuzz.trials.workbench import AgentStarter


def test_the_run_of_a_sub_agent_is_below_the_call_that_has_started_it(agent: AgentStarter) -> None:
    """One trace: the run, the call, the run of the sub-agent, and its own call."""
    bash = {"tool_calls": [{"name": "bash", "args": {"command": "true"}}], "match": "Task: count"}
    script = [call("count"), bash, {"text": "two", "match": "Task: count"}, {"text": "thanks"}]
    with collecting() as collector:
        pi = agent(script, *TOOLS, env={"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint, **SOON})
        pi.say(DELEGATE)
        wait_until(lambda: [span.name for span in collector.spans].count("invoke_agent pinnace") == 2)
        pi.check_end()
        spans = collector.spans
    [started] = [span for span in spans if span.name == "execute_tool subagent"]
    [inner] = [span for span in spans if span.name == "execute_tool bash"]
    runs = {span.parent: span for span in spans if span.name == "invoke_agent pinnace"}

    assert {started.trace} == {span.trace for span in spans}
    assert started.id in runs
    assert runs[started.id].id == inner.parent
    [own] = [run for parent, run in runs.items() if parent != started.id]
    assert own.id == started.parent


def test_the_run_of_one_that_a_client_has_started_is_below_nothing(agent: AgentStarter) -> None:
    """R-SUB-13: also where the agent is in a run of its own meanwhile."""
    waiting = {"chunks": [{"text": "I"}, {"gate": "g"}], "match": "hello"}
    with collecting() as collector:
        pi = agent(
            [waiting, {"text": "two", "match": "Task: count"}],
            env={"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint, **SOON},
        )
        pi.send({"id": "p", "type": "prompt", "message": "hello"})
        pi.llm.wait_reached("g")
        one = pi.ask("start_agent", task="count")["agent"]["agentId"]
        pi.ask("wait_agent", agentId=one)
        pi.llm.release("g")
        wait_until(lambda: [span.name for span in collector.spans].count("invoke_agent pinnace") == 2)
        pi.check_end()
        runs = [span for span in collector.spans if span.name == "invoke_agent pinnace"]

    assert [runs[0].parent] * 2 == [run.parent for run in runs]
    assert runs[0].trace != runs[1].trace
