"""What is sent to Azure, as the original sends it: address, headers and body, for a table of conversations.

What release 1.5.2 sent is kept in tests/data, so that this runs without it. Where it is present it must still send
that. To record anew, delete the file and run this with the original.
"""

import json
from typing import Any, Final

import pytest
from tests.agent.llm.conversations import BASH, READ, conversations
from tests.agent.llm.original_requests import Conversation, ask_original, plain_ids
from tests.agent.samples import served_model, user
from tests.recorded import Record, RecordedList

from pinnace_agent.core.surroundings import Surroundings, surrounded_by
from pinnace_agent.llm.azure import AzureSettingsWrong, at_azure, deployment_problems
from pinnace_agent.llm.openai_chat import compat as chat_compat
from pinnace_agent.llm.openai_chat import request as chat_request
from pinnace_agent.llm.openai_responses import azure, compat
from pinnace_agent.llm.request import LlmRequest
from pinnace_spec.records.messages import THINKING_LEVELS, Model

RECORD: Final = RecordedList("azure-requests")
NAMED: Final = {"AZURE_OPENAI_RESOURCE_NAME": "res"}
SIGNATURE: Final = json.dumps({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"})


def model(**fields: object) -> Model:
    azures: dict[str, object] = {
        "id": "gpt-5",
        "api": "azure-openai-responses",
        "provider": "azure",
        "baseUrl": "",
        "reasoning": True,
        "input": ["text", "image"],
        "contextWindow": 1_000_000,
        "thinkingLevelMap": {"off": None, "minimal": "minimal", "xhigh": "xhigh", "max": "xhigh"},
    }
    return served_model(**{**azures, **fields})


PLAIN: Final = model(id="gpt-4", reasoning=False, input=["text"])
DEEPSEEK: Final = model(id="deepseek", api="openai-completions", compat={"supportsDeveloperRole": False})
DIFFERENCES: Final = {
    "a thought alone": "no thoughts are sent that no item follows: the server refuses them",
    "ids that differ at their ends": "ids that differ stay different, and results follow their calls in order",
}
IDS: Final = ("call_1|fc_1", "call_2|fc_2")


def located(name: str, variables: dict[str, str], base_url: str = "") -> Conversation:
    return Conversation(name, model(baseUrl=base_url), [user("hi")], variables=variables)


def at(address: str) -> Conversation:
    return located(f"at {address}", {"AZURE_OPENAI_BASE_URL": address})


CASES: Final = [
    *(
        Conversation(name, model(), messages, "high", tools=(BASH, READ), variables=NAMED)
        for name, messages in conversations(model(), IDS, SIGNATURE).items()
    ),
    *(
        Conversation(f"{name}, of a plain model", PLAIN, messages, variables=NAMED)
        for name, messages in conversations(PLAIN, IDS, SIGNATURE).items()
    ),
    *(Conversation(f"level {level}", model(), [user("hi")], level, variables=NAMED) for level in THINKING_LEVELS),
    *(
        Conversation(f"level {level} without names", model(thinkingLevelMap={}), [user("hi")], level, variables=NAMED)
        for level in THINKING_LEVELS[:5]
    ),
    Conversation("no system prompt", model(), [user("hi")], system_prompt="", variables=NAMED),
    Conversation(
        "no key of the cache",
        model(compat={"promptCacheKeyMode": "disabled", "supportsStrictMode": False}),
        [user("hi")],
        tools=(BASH,),
        variables=NAMED,
    ),
    Conversation(
        "parameters",
        model(samplingParams={"top_p": 0.5}, samplingParamsByThinkingLevel={"low": {"top_p": 0.7}}),
        [user("hi")],
        "low",
        variables=NAMED,
    ),
    located("nothing set", {}),
    located("a resource", NAMED),
    located("address before resource", {**NAMED, "AZURE_OPENAI_BASE_URL": "https://a.example/v1"}),
    located("a blank address", {**NAMED, "AZURE_OPENAI_BASE_URL": "  "}),
    located("of models.json", {}, "https://mine.openai.azure.com"),
    located("a variable before models.json", NAMED, "https://mine.openai.azure.com"),
    located("a version", {**NAMED, "AZURE_OPENAI_API_VERSION": "2025-04-01-preview"}),
    located("a deployment", {**NAMED, "AZURE_OPENAI_DEPLOYMENT_NAME_MAP": " x=y , gpt-5 = my-gpt,,odd,=z"}),
    located("a deployment of another", {**NAMED, "AZURE_OPENAI_DEPLOYMENT_NAME_MAP": "gpt-4=my-gpt"}),
    Conversation(
        "variables of auth.json",
        model(),
        [user("hi")],
        variables={"AZURE_OPENAI_RESOURCE_NAME": "other", "AZURE_OPENAI_API_VERSION": "2024"},
        own_variables={"AZURE_OPENAI_RESOURCE_NAME": "res", "AZURE_OPENAI_API_VERSION": ""},
    ),
    *map(
        at,
        (
            "https://res.openai.azure.com",
            " https://res.openai.azure.com/// ",
            "https://res.openai.azure.com/openai",
            "https://res.openai.azure.com/openai/v1",
            "https://res.openai.azure.com/openai/v1/",
            "https://res.openai.azure.com/openai/v1/responses?api-version=preview",
            "https://res.openai.azure.com/openai/deployments/x",
            "https://res.cognitiveservices.azure.com/",
            "https://res.services.ai.azure.com/openai/",
            "https://res.ai.azure.com",
            "https://res.services.ai.azure.com/api/projects/p",
            "https://RES.OpenAI.Azure.com",
            "https://openai.azure.com.example/",
            "https://gateway.example",
            "https://gateway.example/azure/",
            "http://127.0.0.1:8080/v1",
            "res.openai.azure.com",
            "nonsense",
        ),
    ),
]


def sent(asked: Conversation) -> Record:
    """Return what would be sent for a conversation."""
    request = LlmRequest(
        asked.model, asked.system_prompt, asked.messages, asked.tools, asked.level, "key", {}, "s1",
        variables=asked.own_variables,
    )  # fmt: skip
    with surrounded_by(Surroundings(asked.variables)):
        request = at_azure(request)
        if asked.model["api"] == "openai-completions":
            http = chat_request.http_request(request, chat_compat.compat_of(request.model))
        else:
            http = azure.http_request(request, compat.compat_of(request.model))
    headers = {name.lower(): value for name, value in http.headers.items()}
    return {"url": http.url, "headers": headers, "body": json.loads(http.body)}


def compared(answer: Record, asked: Conversation) -> Any:
    """Return what must be equal: the same host in any case, the headers that are not of a client's own."""
    url = answer["url"].replace("RES.OpenAI.Azure.com", "res.openai.azure.com")
    headers = {name: answer["headers"].get(name) for name in ("api-key", "authorization", "content-type")}
    return url, headers, plain_ids(answer["body"], asked)


def test_the_original_still_sends_what_is_recorded(original_pi: list[str]) -> None:
    asked = ask_original(original_pi, CASES)
    RECORD.check([{"case": case.name, **answer} for case, answer in zip(CASES, asked, strict=True)])


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_same_is_sent_as_by_the_original(case: Conversation) -> None:
    (theirs,) = (each for each in RECORD.read() if each["case"] == case.name)
    if "error" in theirs:
        with pytest.raises(AzureSettingsWrong):
            sent(case)
        return
    is_equal = compared(sent(case), case) == compared(theirs, case)

    assert is_equal == (case.name.removesuffix(", of a plain model") not in DIFFERENCES)


def test_chat_completions_go_to_the_resource_too() -> None:
    """As the original sends them, whose provider sets the address before the API is asked."""
    variables = {**NAMED, "AZURE_OPENAI_DEPLOYMENT_NAME_MAP": "deepseek=mine"}
    found = sent(Conversation("", DEEPSEEK, [user("hi")], variables=variables))

    assert found["url"] == "https://res.openai.azure.com/openai/v1/chat/completions"
    assert found["headers"]["authorization"] == "Bearer key"
    assert found["body"]["model"] == "mine"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AZURE_OPENAI_BASE_URL", "res.openai.azure.com"),
        ("AZURE_OPENAI_BASE_URL", "http://[::1"),
        ("AZURE_OPENAI_RESOURCE_NAME", ""),
        ("AZURE_OPENAI_RESOURCE_NAME", "a resource"),
        ("AZURE_OPENAI_RESOURCE_NAME", "https://res.openai.azure.com"),
    ],
)
def test_an_address_that_is_none_is_refused_with_the_name_of_its_variable(name: str, value: str) -> None:
    with pytest.raises(AzureSettingsWrong, match=name):
        sent(located("", {name: value}))


def test_a_pair_that_is_none_costs_itself_alone_and_is_named() -> None:
    variables = {**NAMED, "AZURE_OPENAI_DEPLOYMENT_NAME_MAP": "what,gpt-5=mine"}
    asked = located("", variables)

    assert [sent(asked)["body"]["model"], sent(asked)["body"]["model"]] == ["mine", "mine"]
    assert deployment_problems(variables) == [
        "AZURE_OPENAI_DEPLOYMENT_NAME_MAP: 'what' is not used: it must be MODEL=DEPLOYMENT"
    ]
