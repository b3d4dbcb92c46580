"""Gemini on Vertex AI in the whole program: a token that no record shows."""

import json
from pathlib import Path

from tests.agent.config.authorization_server import MARK, AuthorizationServer

from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.harness.model_server.raw_server import RawServer, Reply
from pinnace_fuzz.trials.workbench import AgentStarter

EVENT = b'data: {"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":"STOP"}]}\n\n'


def answer(reply: Reply) -> None:
    reply.head()
    reply.chunks(EVENT)
    reply.end()


def test_a_prompt_carries_a_token_that_no_record_shows(agent: AgentStarter, tmp_path: Path) -> None:
    with AuthorizationServer() as google, RawServer(answer, answer) as vertex, FakeLlm([]) as llm:
        file = tmp_path / "google.json"
        user = {"type": "authorized_user", "client_id": "c", "client_secret": f"secret-{MARK}"}
        tokens = {"refresh_token": google.issue()["refresh_token"], "token_uri": google.url}
        file.write_text(json.dumps(user | tokens))
        env = {
            "GOOGLE_CLOUD_PROJECT": "p",
            "GOOGLE_CLOUD_LOCATION": "global",
            "GOOGLE_APPLICATION_CREDENTIALS": str(file),
        }
        models = {"providers": {"google-vertex": {"baseUrl": vertex.url}}}
        words = ("--model", "google-vertex/gemini-2.5-flash")
        pi = agent(llm, *words, names_model=False, models=models, env=env)
        pi.say("a", "b")
        requests = vertex.requests

    assert [request.path for request in requests] == [
        "/v1/publishers/google/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
    ] * 2
    assert {request.headers["authorization"] for request in requests} == {f"Bearer access2-{MARK}"}
    assert google.refreshes == 1
    assert MARK not in json.dumps(pi.records)
