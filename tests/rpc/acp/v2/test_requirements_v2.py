"""What the test kit of the protocol requires of version 2, by its ids, each by a test of ours.

Requirements that speak of what this agent does not offer (audio), or that a client alone can break, are left out.
"""

import re
from pathlib import Path
from typing import Any, Final

from tests.rpc.acp.conftest import StartAcp
from tests.rpc.acp.v2.conftest import INFO, begun, idle, opened, text, turn

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
HERE: Final = Path(__file__).parent

_LIFECYCLE: Final = "test_prompt_lifecycle.py::"
_VERSIONS: Final = "test_acp_versions.py::"
_TOOLS: Final = "test_tool_calls_v2.py::"
_HERE: Final = "test_requirements_v2.py::"
_EVERY: Final = "conftest.py::acp2"
"""Every message of every test is held to the schema and to the observer."""
REQUIREMENTS: Final = {
    "ACP-INIT-001": f"{_VERSIONS}test_the_newest_version_that_the_client_has_is_chosen",
    "ACP-INIT-003": f"{_VERSIONS}test_the_newest_version_that_the_client_has_is_chosen",
    "ACP-INIT-201": f"{_VERSIONS}test_the_newest_version_that_the_client_has_is_chosen",
    "ACP-INIT-202": "../test_requirements_v1.py::test_what_version_1_offers_and_answers",
    "ACP-INIT-203": f"{_VERSIONS}test_the_newest_version_that_the_client_has_is_chosen",
    "ACP-INIT-204": f"{_VERSIONS}test_capabilities_are_objects_and_methods_to_log_in_bring_both_methods",
    "ACP-SCHEMA-001": _EVERY,
    "ACP-SESSION-001": f"{_HERE}test_sessions_are_listed_by_folder_and_deleted",
    "ACP-SESSION-002": f"{_HERE}test_sessions_are_listed_by_folder_and_deleted",
    "ACP-SESSION-203": f"{_HERE}test_sessions_are_listed_by_folder_and_deleted",
    "ACP-PROMPT-201": f"{_LIFECYCLE}test_a_prompt_is_accepted_with_the_id_of_its_message",
    "ACP-PROMPT-203": f"{_LIFECYCLE}test_a_prompt_is_accepted_with_the_id_of_its_message",
    "ACP-PROMPT-205": _EVERY,
    "ACP-PROMPT-003": f"{_HERE}test_each_offered_kind_of_block_is_accepted_and_others_are_refused",
    "ACP-PROMPTCAP-001": f"{_HERE}test_each_offered_kind_of_block_is_accepted_and_others_are_refused",
    "ACP-PROMPTCAP-003": f"{_HERE}test_each_offered_kind_of_block_is_accepted_and_others_are_refused",
    "ACP-STATE-201": _EVERY,
    "ACP-STATE-202": f"{_LIFECYCLE}test_a_prompt_is_accepted_with_the_id_of_its_message",
    "ACP-STATE-203": f"{_LIFECYCLE}test_each_end_of_work_has_its_reason_and_the_prompt_stays_accepted",
    "ACP-PERM-201": f"{_TOOLS}test_a_permission_has_a_title_and_a_subject_and_the_work_waits",
    "ACP-CLIENTCAP-201": f"{_HERE}test_without_forms_no_form_is_asked_for",
    "ACP-CLIENTCAP-202": _EVERY,
    "ACP-CANCEL-201": f"{_LIFECYCLE}test_a_cancellation_ends_work_in_each_state",
    "ACP-CANCEL-202": _EVERY,
    "ACP-CANCEL-203": f"{_LIFECYCLE}test_a_cancellation_ends_work_in_each_state",
    "ACP-CANCEL-205": _EVERY,
    "ACP-CANCEL-206": f"{_HERE}test_metadata_of_the_client_changes_nothing",
    "ACP-CANCEL-207": f"{_LIFECYCLE}test_a_cancellation_ends_work_in_each_state",
    "ACP-CANCEL-208": f"{_LIFECYCLE}test_a_session_that_is_closed_ends_its_work_before_the_response",
    "ACP-TRANSPORT-201": _EVERY,
    "ACP-TRANSPORT-002": _EVERY,
    "ACP-TRANSPORT-203": _EVERY,
    "ACP-JSONRPC-001": _EVERY,
    "ACP-JSONRPC-002": _EVERY,
    "ACP-JSONRPC-003": _EVERY,
    "ACP-JSONRPC-004": f"{_VERSIONS}test_each_version_has_its_own_methods",
    "ACP-JSONRPC-005": f"{_VERSIONS}test_lines_that_are_no_request_are_refused_and_the_next_one_is_read",
    "ACP-BATCH-201": f"{_VERSIONS}test_lines_that_are_no_request_are_refused_and_the_next_one_is_read",
    "ACP-RESUME-201": f"{_LIFECYCLE}test_a_session_is_shown_again_as_it_was",
    "ACP-RESUME-202": f"{_LIFECYCLE}test_a_session_is_shown_again_as_it_was",
    "ACP-RESUME-203": f"{_LIFECYCLE}test_a_session_is_shown_again_as_it_was",
    "ACP-RESUME-204": f"{_LIFECYCLE}test_an_accepted_prompt_survives_a_kill_with_its_id",
    "ACP-RESUME-205": f"{_LIFECYCLE}test_a_session_is_shown_again_as_it_was",
    "ACP-LIST-201": f"{_HERE}test_sessions_are_listed_by_folder_and_deleted",
    "ACP-LIST-202": f"{_HERE}test_sessions_are_listed_by_folder_and_deleted",
    "ACP-LIST-203": f"{_HERE}test_sessions_are_listed_by_folder_and_deleted",
    "ACP-LIST-204": f"{_HERE}test_sessions_are_listed_by_folder_and_deleted",
    "ACP-CLOSE-201": f"{_LIFECYCLE}test_a_session_is_shown_again_as_it_was",
    "ACP-CLOSE-202": f"{_LIFECYCLE}test_a_session_that_is_closed_ends_its_work_before_the_response",
    "ACP-DELETE-201": f"{_HERE}test_sessions_are_listed_by_folder_and_deleted",
    "ACP-DELETE-202": f"{_HERE}test_sessions_are_listed_by_folder_and_deleted",
    "ACP-DELETE-203": f"{_HERE}test_sessions_are_listed_by_folder_and_deleted",
    "ACP-ADDDIRS-201": f"{_HERE}test_more_folders_are_taken_by_new_and_by_resume",
    "ACP-ADDDIRS-202": f"{_HERE}test_more_folders_are_taken_by_new_and_by_resume",
    "ACP-CONFIG-201": _EVERY,
    "ACP-CONFIG-202": f"{_TOOLS}test_options_are_set_by_their_id_and_the_type_of_their_value",
    "ACP-CONFIG-203": f"{_LIFECYCLE}test_a_session_is_shown_again_as_it_was",
    "ACP-CONFIG-204": f"{_HERE}test_each_option_has_one_of_its_values",
    "ACP-AUTH-201": f"{_VERSIONS}test_initialize_may_be_repeated_before_any_other_request",
    "ACP-AUTH-202": f"{_VERSIONS}test_capabilities_are_objects_and_methods_to_log_in_bring_both_methods",
    "ACP-AUTH-203": f"{_VERSIONS}test_after_a_logout_nothing_runs_until_the_next_login",
    "ACP-AUTH-204": f"{_VERSIONS}test_after_a_logout_nothing_runs_until_the_next_login",
    "ACP-AUTH-206": f"{_VERSIONS}test_initialize_may_be_repeated_before_any_other_request",
    "ACP-AUTH-207": f"{_VERSIONS}test_initialize_may_be_repeated_before_any_other_request",
    "ACP-PATCH-201": _EVERY,
    "ACP-PATCH-203": f"{_HERE}test_metadata_of_the_client_changes_nothing",
    "ACP-PATCH-204": _EVERY,
    "ACP-PATCH-205": f"{_TOOLS}test_a_plan_that_a_tool_reports_is_shown_and_replayed",
    "ACP-PATCH-206": f"{_TOOLS}test_a_command_has_a_terminal_and_its_output_is_chunks",
    "ACP-PATCH-207": f"{_TOOLS}test_a_command_has_a_terminal_and_its_output_is_chunks",
    "ACP-PATCH-208": _EVERY,
    "ACP-PATCH-209": f"{_TOOLS}test_a_permission_has_a_title_and_a_subject_and_the_work_waits",
    "ACP-ENUM-201": _EVERY,
    "ACP-ENUM-203": f"{_TOOLS}test_a_permission_has_a_title_and_a_subject_and_the_work_waits",
    "ACP-EXT-001": f"{_HERE}test_metadata_of_the_client_changes_nothing",
    "ACP-META-001": f"{_HERE}test_metadata_of_the_client_changes_nothing",
    "ACP-META-201": _EVERY,
}


def test_each_requirement_names_a_test_that_exists() -> None:
    missing = []
    for requirement, place in REQUIREMENTS.items():
        file, _, name = place.partition("::")
        if not re.search(rf"def {name}\(", (HERE / file).read_text(encoding="utf-8")):
            missing.append((requirement, place))
    assert missing == []


def test_sessions_are_listed_by_folder_and_deleted(acp2: StartAcp, work: Path) -> None:
    """With and without servers; of a folder without sessions the list is empty; to delete none is a success."""
    agent = acp2(script=[{"text": "one"}, {"text": "two"}])
    begun(agent)
    first = agent.call("session/new", cwd=str(work))["sessionId"]
    second = agent.call("session/new", cwd=str(work), mcpServers=[])["sessionId"]
    turn(agent, first, "a")
    turn(agent, second, "b")
    listed = agent.call("session/list")["sessions"]
    here = agent.call("session/list", cwd=str(work))["sessions"]

    assert first != second
    assert {first, second} == {each["sessionId"] for each in listed} == {each["sessionId"] for each in here}
    assert {str(work)} == {each["cwd"] for each in listed}
    assert agent.call("session/list", cwd="/no/such/folder") == {"sessions": []}
    for session in (first, first, "no-such-session"):
        agent.call("session/delete", sessionId=session)
    assert [second] == [each["sessionId"] for each in agent.call("session/list")["sessions"]]


def test_more_folders_are_taken_by_new_and_by_resume(acp2: StartAcp, work: Path) -> None:
    other = work.parent / "other"
    other.mkdir()
    agent = acp2(script=[{"text": "one"}])
    begun(agent)
    session = agent.call("session/new", cwd=str(work), additionalDirectories=[str(other)])["sessionId"]
    turn(agent, session, "a")
    agent.call("session/close", sessionId=session)
    agent.call("session/resume", sessionId=session, cwd=str(work), additionalDirectories=[str(other)])
    error = agent.error("session/resume", sessionId=session, cwd=str(work), additionalDirectories=["other"])
    assert (error["code"], error["data"]["path"]) == (-32602, "params.additionalDirectories[0]")


def test_each_offered_kind_of_block_is_accepted_and_others_are_refused(acp2: StartAcp, work: Path) -> None:
    """What is refused is no message, and begins no work."""
    agent = acp2(script=[{"text": "seen"}])
    session = opened(agent, work)
    blocks: list[dict[str, Any]] = [
        {"type": "text", "text": "See "},
        {"type": "image", "data": PIXEL, "mimeType": "image/png"},
        {"type": "resource_link", "name": "a", "uri": "file:///a"},
        {"type": "resource", "resource": {"uri": "file:///b", "text": "b"}},
    ]
    for refused in ({"type": "audio", "data": PIXEL, "mimeType": "audio/wav"}, {"type": "_other", "x": 1}):
        error = agent.error("session/prompt", sessionId=session, prompt=[*blocks, refused])
        assert (error["code"], error["data"]["path"]) == (-32602, "params.prompt[4].type")
    before = len(agent.updates(session))
    agent.call("session/prompt", sessionId=session, prompt=blocks)
    idle(agent)

    assert [each for each in agent.updates(session)[:before] if each["sessionUpdate"] == "state_update"] == []
    shown = agent.update("user_message")["content"]
    assert [each["type"] for each in shown] == ["text", "resource", "image"]


def test_without_forms_no_form_is_asked_for(acp2: StartAcp, work: Path) -> None:
    path = work.parent / "asking.py"
    path.write_text(
        """
def extension(pi):
    @pi.command("ask")
    async def ask(ctx, args):
        ctx.ui.notify(f"{await ctx.ui.input('Name?')} {await ctx.ui.select('Which?', ['a'])}")
"""
    )
    agent = acp2("-e", str(path))
    session = opened(agent, work)
    assert turn(agent, session, "/ask")["stopReason"] == "end_turn"

    assert agent.update("notice", title="None None")
    assert [message for message in agent.messages if message.get("method") == "elicitation/create"] == []


def test_metadata_of_the_client_changes_nothing(acp2: StartAcp, work: Path) -> None:
    """Of any message; a method of others has an answer; each prompt has an id of its own."""
    agent = acp2(script=[{"text": "one"}, {"text": "two"}])
    agent.call("initialize", protocolVersion=2, info=INFO, _meta={"a": 1})
    session = agent.call("session/new", cwd=str(work), _meta={"b": {}})["sessionId"]
    agent.notify("session/cancel", sessionId=session, _meta={"c": []})
    since = len(agent.messages)
    first = agent.call("session/prompt", sessionId=session, prompt=text("a"), _meta={"d": None})["messageId"]
    idle(agent, since)

    assert turn(agent, session, "b")["messageId"] != first
    assert agent.error("_no/such/method")["code"] == -32601


def test_each_option_has_one_of_its_values(acp2: StartAcp, work: Path) -> None:
    agent = acp2("--model", "m2")
    begun(agent)
    for option in agent.call("session/new", cwd=str(work))["configOptions"]:
        if option["type"] == "select":
            values = [each["value"] for each in option["options"]]
            assert len(values) == len(set(values))
            assert option["currentValue"] in values
