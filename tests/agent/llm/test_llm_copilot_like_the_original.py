"""What is sent to GitHub Copilot, as the original sends it: address, headers and body, for a table of conversations.

What release 1.5.2 sent is kept in tests/data, so that this runs without it. Where it is present it must still send
that. To record anew, delete the file and run this with the original.
"""

import json
import time
from typing import Any, Final

import pytest
from tests.agent.llm.conversations import BASH, READ, conversations
from tests.agent.llm.original_providers import DIFFERENCES, ProviderCase, ask_original, built_in, compared, sent
from tests.agent.samples import user
from tests.recorded import RecordedList

from pinnace_agent.llm.copilot import DOMAIN_VARIABLE, base_url, domain_of
from pinnace_spec.records.messages import THINKING_LEVELS

RECORD: Final = RecordedList("copilot-requests")
COPILOT: Final = "github-copilot"
ENV: Final = {"COPILOT_GITHUB_TOKEN": "key"}
SIGNATURE: Final = json.dumps({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"})
MODELS: Final = {
    "chat": (built_in(COPILOT, "gemini-3.8-flash"), ("call_1", "call_2"), "reasoning_content"),
    "messages": (built_in(COPILOT, "claude-haiku-4.5"), ("toolu_1", "toolu_2"), "c2ln"),
    "messages, adaptive": (built_in(COPILOT, "claude-opus-5"), ("toolu_1", "toolu_2"), "c2ln"),
    "responses": (built_in(COPILOT, "gpt-6.1-sol"), ("call_1|fc_1", "call_2|fc_2"), SIGNATURE),
    "responses, without thoughts": (built_in(COPILOT, "gpt-6-luna"), ("call_1|fc_1", "call_2|fc_2"), SIGNATURE),
}


def login(access: str, **fields: object) -> dict[str, Any]:
    """Return a login that lasts as long as anybody tests."""
    return {"type": "oauth", "refresh": "gho", "access": access, "expires": 4_000_000_000_000, **fields}


LOGINS: Final[dict[str, dict[str, Any]]] = {
    "individual": login("tid=1;exp=2;proxy-ep=proxy.individual.githubcopilot.com;sku=x"),
    "business at the end": login("tid=1;proxy-ep=proxy.business.githubcopilot.com"),
    "no endpoint": login("tid=1;exp=2"),
    "another endpoint": login("proxy-ep=copilot.example.com;x"),
    "a company": login("tid=1", enterpriseUrl="company.ghe.com"),
    "a company's address": login("tid=1", enterpriseUrl="https://company.ghe.com/login"),
    "a company with an endpoint": login("proxy-ep=proxy.enterprise.githubcopilot.com", enterpriseUrl="company.ghe.com"),
}
CASES: Final = [
    *(
        ProviderCase(f"{kind}: {name}", of, messages, ENV, "medium", (BASH, READ))
        for kind, (of, ids, signature) in MODELS.items()
        for name, messages in conversations(of, ids, signature).items()
    ),
    *(
        ProviderCase(f"{kind}: level {level}", of, [user("hi")], ENV, level)
        for kind, (of, _, _) in MODELS.items()
        for level in THINKING_LEVELS
    ),
    *(
        ProviderCase(
            f"{kind}: login, {name}",
            of,
            [user("hi")],
            {},
            auth=entry,
            key=entry["access"],
            own_variables={DOMAIN_VARIABLE: entry["enterpriseUrl"]} if "enterpriseUrl" in entry else {},
        )
        for kind, (of, _, _) in MODELS.items()
        for name, entry in LOGINS.items()
    ),
]


def test_the_original_still_sends_what_is_recorded(original_pi: list[str]) -> None:
    assert time.time() * 1000 < LOGINS["individual"]["expires"]
    RECORD.check(ask_original(original_pi, CASES))


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_same_is_sent_as_by_the_original(case: ProviderCase) -> None:
    (theirs,) = (each for each in RECORD.read() if each["case"] == case.name)
    is_equal = compared(sent(case), case) == compared(theirs, case)

    assert is_equal == (case.name.partition(": ")[2] not in DIFFERENCES[case.model["api"]])


@pytest.mark.parametrize(
    "token", ["", "proxy-ep=", "proxy-ep=evil.example/path", "proxy-ep=a b;", "proxy-ep=user@evil.example;"]
)
def test_an_endpoint_that_is_no_host_counts_as_none(token: str) -> None:
    assert base_url(token, None) == "https://api.individual.githubcopilot.com"


@pytest.mark.parametrize("text", ["", " ", "localhost", "http://[", "a b.com", "https://"])
def test_what_is_no_domain_counts_as_none(text: str) -> None:
    assert domain_of(text) is None
