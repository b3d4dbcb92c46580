"""What is sent for a ChatGPT plan, as the original sends it: address, headers and body, for a table of conversations.

What release 1.5.2 sent is kept in tests/data, so that this runs without it. Where it is present it must still send
that. To record anew, delete the file and run this with the original.
"""

import base64
import json
from typing import Any, Final

import pytest
from tests.agent.llm.conversations import BASH, READ, conversations
from tests.agent.llm.original_requests import Conversation, ask_original, plain_ids
from tests.agent.samples import served_model, user
from tests.recorded import Record, RecordedList

from pinnace_agent.core.surroundings import Surroundings, surrounded_by
from pinnace_agent.llm.openai_responses.codex import account_of, http_request
from pinnace_agent.llm.request import LlmRequest
from pinnace_spec.records.messages import THINKING_LEVELS, Model

RECORD: Final = RecordedList("codex-requests")
SIGNATURE: Final = json.dumps({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"})
BUILT_IN: Final = "https://chatgpt.com/backend-api"
IDS: Final = ("call_1|fc_1", "call_2|fc_2")


def token(claims: object) -> str:
    """Return an access token with these claims; nobody checks its signature."""
    parts = ({"alg": "RS256"}, claims)
    return ".".join(
        [*(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts), "c2ln"]
    )


TOKEN: Final = token({"https://api.openai.com/auth": {"chatgpt_account_id": "acc-1"}, "exp": 1})


def model(**fields: object) -> Model:
    codex: dict[str, object] = {
        "id": "gpt-5.6-sol",
        "api": "openai-codex-responses",
        "provider": "openai-codex",
        "baseUrl": BUILT_IN,
        "reasoning": True,
        "input": ["text", "image"],
        "contextWindow": 272_000,
        "thinkingLevelMap": {"xhigh": "xhigh", "max": "max", "minimal": "low"},
    }
    return served_model(**{**codex, **fields})


PLAIN: Final = model(id="gpt-4", reasoning=False, input=["text"])
DIFFERENCES: Final = {
    "a thought alone": "no thoughts are sent that no item follows: the server refuses them",
    "ids that differ at their ends": "ids that differ stay different, and results follow their calls in order",
    "no system prompt": "the instructions of each program are its own",
}
CASES: Final = [
    *(
        Conversation(name, model(), messages, "high", tools=(BASH, READ), key=TOKEN)
        for name, messages in conversations(model(), IDS, SIGNATURE).items()
    ),
    *(
        Conversation(f"{name}, of a plain model", PLAIN, messages, key=TOKEN)
        for name, messages in conversations(PLAIN, IDS, SIGNATURE).items()
    ),
    *(Conversation(f"level {level}", model(), [user("hi")], level, key=TOKEN) for level in THINKING_LEVELS),
    Conversation("no thinking can not be", model(thinkingLevelMap={"off": None}), [user("hi")], key=TOKEN),
    Conversation("no system prompt", model(), [user("hi")], system_prompt="", key=TOKEN),
    Conversation(
        "no strict tools", model(compat={"supportsStrictMode": False}), [user("hi")], tools=(BASH,), key=TOKEN
    ),
    *(
        Conversation(f"at {url}", model(baseUrl=url), [user("hi")], key=TOKEN)
        for url in ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/codex//", "http://127.0.0.1:8080/codex/responses")
    ),
    Conversation("a key without an account", model(), [user("hi")], key="sk-key"),
    Conversation("a token without an account", model(), [user("hi")], key=token({"sub": "x"})),
]


def sent(asked: Conversation) -> Record:
    """Return what would be sent for a conversation."""
    request = LlmRequest(
        asked.model, asked.system_prompt, asked.messages, asked.tools, asked.level, asked.key, {}, "s1"
    )
    account_id = account_of(asked.key or "")
    assert account_id is not None
    with surrounded_by(Surroundings({})):
        http = http_request(request, account_id)
    headers = {name.lower(): value for name, value in http.headers.items()}
    return {"url": http.url, "headers": headers, "body": json.loads(http.body)}


def compared(answer: Record, asked: Conversation) -> Any:
    """Return what must be equal: of the headers all but the name and the encoding of the program."""
    headers = {name: value for name, value in answer["headers"].items() if name not in PROGRAMS_OWN}
    return answer["url"], headers, plain_ids(answer["body"], asked)


PROGRAMS_OWN: Final = frozenset({"originator", "content-encoding", "accept-language", "sec-fetch-mode"})


def test_the_original_still_sends_what_is_recorded(original_pi: list[str]) -> None:
    asked = ask_original(original_pi, CASES)
    RECORD.check([{"case": case.name, **answer} for case, answer in zip(CASES, asked, strict=True)])


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_same_is_sent_as_by_the_original(case: Conversation) -> None:
    (theirs,) = (each for each in RECORD.read() if each["case"] == case.name)
    if "error" in theirs:
        assert account_of(case.key or "") is None
        return
    is_equal = compared(sent(case), case) == compared(theirs, case)

    assert is_equal == (case.name.removesuffix(", of a plain model") not in DIFFERENCES)


@pytest.mark.parametrize(
    "odd", ["", "a.b", "a.b.c", "a.W10.c", "a.bnVsbA.c", token({"https://api.openai.com/auth": 1})]
)
def test_a_token_that_names_no_account_is_no_error(odd: str) -> None:
    assert account_of(odd) is None
