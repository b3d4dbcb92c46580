"""What is sent to Vertex AI, as the original sends it: address, headers and body, for a table of conversations.

What release 1.5.2 sent is kept in tests/data, so that this runs without it. Where it is present it must still send
that. To record anew, delete the file and run this with the original.
"""

import json
from pathlib import Path
from typing import Any, Final, cast

import pytest
from tests.agent.llm.conversations import BASH, READ, conversations
from tests.agent.llm.original_requests import Conversation, ask_original, plain_ids
from tests.agent.samples import served_model, user
from tests.recorded import Record, RecordedList

from pinnace_agent.core.surroundings import Surroundings, surrounded_by
from pinnace_agent.llm.google.messages import UNSIGNED
from pinnace_agent.llm.google.vertex import VertexSettingsWrong, address, http_request
from pinnace_agent.llm.request import LlmRequest
from pinnace_spec.records.messages import THINKING_LEVELS, Model

RECORD: Final = RecordedList("vertex-requests")
BUILT_IN: Final = "https://{location}-aiplatform.googleapis.com"
PLACE: Final = {"GOOGLE_CLOUD_PROJECT": "proj-1", "GOOGLE_CLOUD_LOCATION": "europe-west4"}
USER: Final = {"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"}
THIRD: Final = {"off": None, "minimal": None, "low": "low", "medium": "medium", "high": "high"}


def model(model_id: str = "gemini-3.8-flash", **fields: object) -> Model:
    gemini: dict[str, object] = {
        "id": model_id,
        "api": "google-vertex",
        "provider": "google-vertex",
        "baseUrl": BUILT_IN,
        "reasoning": True,
        "input": ["text", "image"],
        "contextWindow": 1_000_000,
        "maxTokens": 65_536,
        **({"thinkingLevelMap": THIRD} if "-3" in model_id else {}),
    }
    return served_model(**{**gemini, **fields})


def located(name: str, variables: dict[str, str], of: Model | None = None, **fields: Any) -> Conversation:
    return Conversation(name, of or model(), [user("hi")], variables=variables, key=None, **fields)


def at(base_url: str, key: str | None = None) -> Conversation:
    of = model(baseUrl=base_url)
    return Conversation(f"{'key' if key else 'token'} at {base_url}", of, [user("hi")], variables=PLACE, key=key)


OLD: Final = model("gemini-2.5-flash")
# What our requests to Google differ in, of any of its APIs; each case must still do so.
DIFFERENCES: Final = {
    "blank texts of gemini-3.8-flash": "a text without words is kept",
    "blank texts of gemini-2.5-flash": "a text without words is kept",
    "ids that differ at their ends of gemini-3.8-flash": "ids that differ stay different, results follow their calls",
    "ids that differ at their ends of gemini-2.5-flash": "results follow their calls in order",
    "results with images of gemini-2.5-flash": "the images of all results are in one turn, behind all results",
    "several texts in a result of gemini-2.5-flash": "the images of all results are in one turn, behind all results",
    "level minimal of gemini-3.8-flash": "a level that the model does not have is not replaced here",
    "level off of gemini-2.5-pro": "this model refuses less thinking than its minimum",
    "level minimal of gemini-2.5-flash-lite": "this model refuses less thinking than its minimum",
    "level off of gemini-9-lux": "models of its generation have levels in the place of budgets",
}
CAPTIONS: Final = {"Attached image(s) from tool result:": "images:", "Tool result image:": "images:"}
CASES: Final = [
    *(
        Conversation(f"{name} of {of['id']}", of, messages, "high", tools=(BASH, READ), variables=PLACE, key=None)
        for of in (model(), OLD)
        for name, messages in conversations(of, ("call_1", "call_2"), "c2lnbmVk").items()
    ),
    *(
        Conversation(f"level {level} of {of['id']}", of, [user("hi")], level, variables=PLACE)
        for of in (model(), model("gemini-2.5-pro"), OLD, model("gemini-2.5-flash-lite"), model("gemini-9-lux"))
        for level in THINKING_LEVELS[:5]
    ),
    Conversation("no system prompt", model(), [user("hi")], system_prompt="", variables=PLACE),
    Conversation("a key without a place", model(), [user("hi")]),
    Conversation("no thinking", model(reasoning=False), [user("hi")], variables=PLACE),
    located("nothing set", {}),
    located("no location", {"GOOGLE_CLOUD_PROJECT": "proj-1"}),
    located("no project", {"GOOGLE_CLOUD_LOCATION": "global"}),
    located("the second name", {"GCLOUD_PROJECT": "second", "GOOGLE_CLOUD_LOCATION": "global"}),
    located("the first name counts", {**PLACE, "GCLOUD_PROJECT": "second"}),
    located("several regions", {**PLACE, "GOOGLE_CLOUD_LOCATION": "eu"}),
    located("several regions of America", {**PLACE, "GOOGLE_CLOUD_LOCATION": "us"}),
    located("a region of America", {**PLACE, "GOOGLE_CLOUD_LOCATION": "us-central1"}),
    located("of auth.json", {**PLACE}, own_variables={"GOOGLE_CLOUD_PROJECT": "mine"}),
    *(
        located(f"the model {name}", PLACE, model(name))
        for name in ("publishers/google/models/x", "zai-org/glm-5", "models/x", "projects/p/locations/l/endpoints/1")
    ),
    *(
        at(url, key)
        for key in (None, "key")
        for url in (
            "",
            "http://127.0.0.1:8080",
            "http://127.0.0.1:8080/v1/",
            "http://127.0.0.1:8080/v1beta1/projects/p/locations/l",
            "https://gateway.example/vertex",
        )
    ),
]


@pytest.fixture
def user_file(tmp_path: Path) -> str:
    path = tmp_path / "credentials.json"
    path.write_text(json.dumps(USER))
    return str(path)


def sent(asked: Conversation) -> Record:
    """Return what would be sent for a conversation; the token is what the resolver adds."""
    request = LlmRequest(
        asked.model, asked.system_prompt, asked.messages, asked.tools, asked.level, asked.key,
        {} if asked.key else {"Authorization": "Bearer token"}, "s1", variables=asked.own_variables,
    )  # fmt: skip
    with surrounded_by(Surroundings(asked.variables)):
        http = http_request(request._replace(model={**asked.model, "baseUrl": address(request)}))
    headers = {name.lower(): value for name, value in http.headers.items()}
    return {"url": http.url, "headers": headers, "body": json.loads(http.body)}


def plain(value: object, name: str = "") -> object:
    """Return a body without the words of either program, and without the mark for calls that have no signature."""
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        return {key: plain(member, key) for key, member in members.items() if member != UNSIGNED}
    if isinstance(value, list):
        return [plain(each) for each in cast("list[object]", value)]
    if name in {"output", "error"}:
        return value or "(no tool output)"
    return CAPTIONS.get(value, value) if isinstance(value, str) else value


def compared(answer: Record, asked: Conversation) -> Any:
    headers = {name: answer["headers"].get(name) for name in ("x-goog-api-key", "authorization", "content-type")}
    body = dict(answer["body"])
    if "systemInstruction" in body:
        # Its role says nothing: there is only one that speaks there.
        body["systemInstruction"] = {"parts": body["systemInstruction"]["parts"]}
    return answer["url"], headers, plain_ids(plain(body), asked)


def test_the_original_still_sends_what_is_recorded(original_pi: list[str], user_file: str) -> None:
    named = [case._replace(variables={**case.variables, "GOOGLE_APPLICATION_CREDENTIALS": user_file}) for case in CASES]
    asked = ask_original(original_pi, named)
    RECORD.check([{"case": case.name, **answer} for case, answer in zip(CASES, asked, strict=True)])


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_same_is_sent_as_by_the_original(case: Conversation) -> None:
    (theirs,) = (each for each in RECORD.read() if each["case"] == case.name)
    if "error" in theirs:
        with pytest.raises(VertexSettingsWrong):
            sent(case)
        return
    is_equal = compared(sent(case), case) == compared(theirs, case)

    assert is_equal == (case.name not in DIFFERENCES)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GOOGLE_CLOUD_PROJECT", "a/b"),
        ("GOOGLE_CLOUD_PROJECT", "a b"),
        ("GOOGLE_CLOUD_LOCATION", "evil.example/"),
        ("GOOGLE_CLOUD_LOCATION", "x@evil.example"),
        ("GOOGLE_CLOUD_LOCATION", " "),
    ],
)
def test_a_variable_that_would_lead_elsewhere_is_refused_by_its_name(name: str, value: str) -> None:
    with pytest.raises(VertexSettingsWrong, match=name):
        sent(located("", {**PLACE, name: value}))
