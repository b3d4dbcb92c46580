"""What is sent to Cloudflare, as the original sends it: address, headers and body, for a table of conversations.

What release 1.5.2 sent is kept in tests/data, so that this runs without it. Where it is present it must still send
that. To record anew, delete the file and run this with the original.
"""

import json
from typing import Final

import pytest
from tests.agent.llm.conversations import BASH, READ, conversations
from tests.agent.llm.original_providers import (
    DIFFERENCES,
    ProviderCase,
    ask_original,
    built_in,
    compared,
    request_of,
    sent,
)
from tests.agent.samples import user
from tests.recorded import RecordedList

from pinnace_spec.records.messages import THINKING_LEVELS

RECORD: Final = RecordedList("cloudflare-requests")
ENV: Final = {"CLOUDFLARE_API_KEY": "key", "CLOUDFLARE_ACCOUNT_ID": "acc", "CLOUDFLARE_GATEWAY_ID": "gate-1"}
WORKERS, GATEWAY = "cloudflare-workers-ai", "cloudflare-ai-gateway"


SIGNATURE: Final = json.dumps({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"})
MODELS: Final = {
    "workers": (built_in(WORKERS, "@cf/moonshotai/kimi-k2.7-code"), ("call_1", "call_2"), "reasoning_content"),
    "workers, DeepSeek": (built_in(WORKERS, "@cf/deepseek-ai/deepseek-v4-pro-0813"), ("call_1", "call_2"), None),
    "chat": (built_in(GATEWAY, "workers-ai/@cf/moonshotai/kimi-k2.7-code"), ("call_1", "call_2"), "reasoning_content"),
    "messages": (built_in(GATEWAY, "claude-sonnet-4-5"), ("toolu_1", "toolu_2"), "c2ln"),
    "responses": (built_in(GATEWAY, "gpt-5"), ("call_1|fc_1", "call_2|fc_2"), SIGNATURE),
}
ACCOUNT: Final = {"CLOUDFLARE_ACCOUNT_ID": "own", "CLOUDFLARE_GATEWAY_ID": "gate-2"}
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
            f"{kind}: variables of auth.json",
            of,
            [user("hi")],
            ENV,
            auth={"type": "api_key", "key": "stored", "env": ACCOUNT},
            key="stored",
            own_variables=ACCOUNT,
        )
        for kind, (of, _, _) in MODELS.items()
    ),
    *(
        ProviderCase(f"{kind}: {name} is {value!r}", of, [user("hi")], {**ENV, name: value})
        for kind, (of, _, _) in MODELS.items()
        for name in ("CLOUDFLARE_ACCOUNT_ID", "CLOUDFLARE_GATEWAY_ID")
        for value in ("", "0a1b2c3d4e5f60718293a4b5c6d7e8f9")
        if name != "CLOUDFLARE_GATEWAY_ID" or of["provider"] == GATEWAY
    ),
]


def test_the_original_still_sends_what_is_recorded(original_pi: list[str]) -> None:
    RECORD.check(ask_original(original_pi, CASES))


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_same_is_sent_as_by_the_original(case: ProviderCase) -> None:
    (theirs,) = (each for each in RECORD.read() if each["case"] == case.name)
    if "error" in theirs:
        assert request_of(case)[0] is None
        return
    is_equal = compared(sent(case), case) == compared(theirs, case)

    assert is_equal == (case.name.partition(": ")[2] not in DIFFERENCES[case.model["api"]])
