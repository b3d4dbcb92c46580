"""What the test kit of the protocol requires of version 1, by its ids, each by a test of ours.

Requirements of which the kit only records what an agent does, and that of audio, which this agent does not offer, are
left out.
"""

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from tests.rpc.acp.conftest import StartAcp, text

HERE: Final = Path(__file__).parent

_ASKING: Final = "test_permissions.py::"
_CANCELLING: Final = "test_cancelling.py::"
_FILES: Final = "test_editor_files.py::"
_HERE: Final = "test_requirements_v1.py::test_what_version_1_offers_and_answers"
_LOGINS: Final = "v2/test_acp_logins.py::"
_MESSAGES: Final = "test_acp_messages.py::"
_SESSIONS: Final = "test_sessions.py::"
_EVERY: Final = "conftest.py::acp"
"""Every message of every test is held to the schema and to the observer."""
REQUIREMENTS: Final = {
    "ACP-TRANSPORT-001": _EVERY,
    "ACP-TRANSPORT-002": _EVERY,
    "ACP-JSONRPC-001": _EVERY,
    "ACP-JSONRPC-002": _EVERY,
    "ACP-JSONRPC-003": f"{_MESSAGES}test_what_is_no_message_is_refused_and_the_next_line_is_read",
    "ACP-JSONRPC-004": f"{_MESSAGES}test_what_is_no_message_is_refused_and_the_next_line_is_read",
    "ACP-JSONRPC-005": f"{_MESSAGES}test_what_is_no_message_is_refused_and_the_next_line_is_read",
    "ACP-INIT-001": _HERE,
    "ACP-INIT-002": _HERE,
    "ACP-INIT-003": "v2/test_acp_versions.py::test_the_newest_version_that_the_client_has_is_chosen",
    "ACP-INIT-004": _HERE,
    "ACP-SCHEMA-001": _EVERY,
    "ACP-SCHEMA-002": _HERE,
    "ACP-SESSION-001": _HERE,
    "ACP-SESSION-002": _HERE,
    "ACP-PROMPT-001": "test_turns.py::test_a_conversation_is_shown_and_ends",
    "ACP-PROMPT-002": _EVERY,
    "ACP-PROMPT-003": "test_turns.py::test_every_kind_of_block_has_its_place_in_the_message",
    "ACP-CANCEL-001": f"{_CANCELLING}test_in_each_state_in_which_a_prompt_may_be",
    "ACP-CANCEL-002": f"{_CANCELLING}test_in_each_state_in_which_a_prompt_may_be",
    "ACP-LOAD-001": f"{_SESSIONS}test_after_a_kill_everything_that_was_complete_is_shown_again",
    "ACP-LOAD-002": "test_replay.py::test_what_was_live_is_shown_again_by_another_process",
    "ACP-LOAD-003": f"{_SESSIONS}test_after_a_kill_everything_that_was_complete_is_shown_again",
    "ACP-RESUME-001": f"{_SESSIONS}test_resume_shows_nothing_and_goes_on",
    "ACP-RESUME-002": f"{_SESSIONS}test_resume_shows_nothing_and_goes_on",
    "ACP-LIST-001": f"{_SESSIONS}test_sessions_are_listed_a_page_at_a_time_and_deleted",
    "ACP-LIST-002": _HERE,
    "ACP-DELETE-001": f"{_SESSIONS}test_sessions_are_listed_a_page_at_a_time_and_deleted",
    "ACP-DELETE-002": _HERE,
    "ACP-CLOSE-001": _HERE,
    "ACP-CLOSE-002": f"{_CANCELLING}test_a_closed_session_cancels_its_prompt_and_no_other",
    "ACP-ADDDIRS-001": f"{_FILES}test_additional_folders_are_in_the_prompt_and_their_files_are_the_editors",
    "ACP-MODES-001": _HERE,
    "ACP-MODES-002": f"{_ASKING}test_the_mode_can_be_chosen_and_is_an_option_too",
    "ACP-CONFIG-001": _HERE,
    "ACP-CONFIG-002": _HERE,
    "ACP-CONFIG-003": _HERE,
    "ACP-PROMPTCAP-001": "test_turns.py::test_every_kind_of_block_has_its_place_in_the_message",
    "ACP-PROMPTCAP-003": "test_turns.py::test_an_embedded_resource_reaches_the_model_and_is_shown_again",
    "ACP-AUTH-001": _HERE,
    "ACP-AUTH-002": _HERE,
    "ACP-AUTH-003": f"{_LOGINS}test_a_login_is_shown_as_an_address_and_its_model_can_be_used",
    "ACP-AUTH-004": f"{_SESSIONS}test_after_a_logout_nothing_begins_until_the_next_login",
    "ACP-AUTH-005": _HERE,
    "ACP-CLIENTCAP-001": _HERE,
    "ACP-CLIENTCAP-002": _HERE,
    "ACP-CLIENTCAP-003": f"{_ASKING}test_without_forms_a_question_is_declined_and_a_confirmation_is_a_permission",
    "ACP-EXT-001": _HERE,
    "ACP-META-001": _HERE,
    "ACP-ERROR-001": _HERE,
    "ACP-SHUTDOWN-001": f"{_CANCELLING}test_the_end_of_stdin_answers_what_is_open_and_leaves_no_process",
}


def test_each_requirement_of_version_1_names_a_test_that_exists() -> None:
    assert [] == [
        (requirement, place)
        for requirement, place in REQUIREMENTS.items()
        if not re.search(
            rf"def {place.partition('::')[2]}\(", (HERE / place.partition("::")[0]).read_text(encoding="utf-8")
        )
    ]


def test_what_version_1_offers_and_answers(acp: StartAcp, work: Path) -> None:
    """To a client without any capability: it is asked for no file, terminal, form or option that is on or off."""
    read = {"tool_calls": [{"name": "read", "args": {"path": "a.txt"}}, {"name": "bash", "args": {"command": "true"}}]}
    (work / "a.txt").write_text("one\n")
    agent = acp(script=[read, {"text": "done"}])
    offered = agent.call("initialize", protocolVersion=1, clientCapabilities={})
    assert (1, "pinnace") == (offered["protocolVersion"], offered["agentInfo"]["name"])
    assert offered["agentInfo"]["version"]
    assert [] == offered["authMethods"]  # there is a key

    opened: Any = agent.call("session/new", cwd=str(work), mcpServers=[])
    session, other = opened["sessionId"], agent.call("session/new", cwd=str(work), mcpServers=[])["sessionId"]
    assert session
    assert session != other
    assert opened["modes"]["currentModeId"] in {each["id"] for each in opened["modes"]["availableModes"]}
    options = {each["id"]: each for each in opened["configOptions"]}
    assert {"select"} == {each["type"] for each in options.values()}
    for each in options.values():
        assert each["currentValue"] in {value["value"] for value in each["options"]}
    chosen: Any = agent.call("session/set_config_option", sessionId=session, configId="mode", value="read-only")
    assert {**{name: each["currentValue"] for name, each in options.items()}, "mode": "read-only"} == {
        each["id"]: each["currentValue"] for each in chosen["configOptions"]
    }
    agent.call("session/set_config_option", sessionId=session, configId="mode", value=options["mode"]["currentValue"])

    traced = {"_meta": {"traceparent": "00-80e1afed08e019fc1110464cfa66635c-7a085853722dc6d2-01"}}
    result = agent.call("session/prompt", sessionId=session, prompt=text("go"), **traced)
    assert "end_turn" == result["stopReason"]
    assert {"session/update"} == {each["method"] for each in agent.messages if "method" in each}

    agent.call("session/close", sessionId=other)
    agent.call("session/delete", sessionId="no-such-session")
    assert {"sessions": []} == agent.call("session/list", cwd="/proc")
    refused: list[tuple[str, dict[str, object]]] = [
        ("_no/such", {}),
        ("session/new", {"cwd": "no/path", "mcpServers": []}),
        ("session/prompt", {"sessionId": "none", "prompt": text("go")}),
    ]
    for method, fields in refused:
        message = agent.error(method, fields)["message"]
        assert message
        assert "\n" not in message
    types = json.loads(files("pinnace_fuzz.acp").joinpath("schema.json").read_text())["$defs"]
    for name, shown in (("Initialize", offered), ("NewSession", opened), ("Prompt", result)):
        assert set(shown) <= set(types[f"{name}Response"]["properties"])
