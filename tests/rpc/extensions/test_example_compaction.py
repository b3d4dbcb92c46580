"""A compaction that an extension writes, at work in the real program."""

from tests.rpc.extensions.conftest import Extended, Start

from pinnace_fuzz.script import Scripted

NAME = "custom_compaction.py"
# Nothing of the conversation fits, so that there is something to compact after two prompts.
SMALL = {"compaction": {"keepRecentTokens": 1}}


def two_prompts(extended: Start, *script: Scripted) -> Extended:
    one = extended(NAME, [{"text": "first answer"}, {"text": "second answer"}, *script], settings=SMALL)
    one.say("build a boat")
    one.say("paint it")
    return one


def entry(one: Extended) -> object:
    [found] = [each for each in one.pi.ask("get_entries")["entries"] if each["type"] == "compaction"]
    return found


def test_the_summary_is_the_extensions(extended: Start) -> None:
    one = two_prompts(extended, {"text": "a boat, painted"}, {"text": "ok"})
    result = one.pi.ask("compact")
    asked = one.user_messages
    stored = entry(one)
    one.say("go on")

    assert "a boat, painted" == result["summary"]
    assert isinstance(stored, dict)
    assert (True, {"by": "custom_compaction"}) == (stored["fromHook"], stored["details"])
    assert "Summarised by the extension" == one.notice()
    assert "[User]: build a boat" in asked[0]
    assert any("a boat, painted" in text for text in one.user_messages)


def test_a_summary_that_fails_is_the_built_in_one(extended: Start) -> None:
    refused: Scripted = {"error": {"status": 400, "body": {"error": {"message": "no summaries today"}}}}
    one = two_prompts(extended, refused, {"text": "the built-in one", "repeat": -1})
    result = one.pi.ask("compact")
    stored = entry(one)

    assert result["summary"].startswith("the built-in one")
    assert isinstance(stored, dict)
    assert not stored.get("fromHook")
    assert "no summaries today" in one.notice()
    assert "Summarised as always" == one.notice()


def test_it_can_be_called_off(extended: Start) -> None:
    one = two_prompts(extended)
    response = one.pi.request({"type": "compact", "customInstructions": "dry run"})

    assert not response["success"]
    assert "would summarise" in one.notice()
    assert [] == [each for each in one.pi.ask("get_entries")["entries"] if each["type"] == "compaction"]
    assert 2 == len(one.pi.llm.requests)


def test_an_abort_ends_the_request_of_the_extension(extended: Start) -> None:
    one = two_prompts(extended, {"chunks": [{"text": "a bo"}, {"gate": "g"}]})
    one.pi.send({"id": "C", "type": "compact"})
    one.pi.llm.wait_reached("g")
    one.pi.send({"type": "abort"})

    assert not one.pi.wait_response("C")["success"]
    assert 1 == len(one.pi.llm.wait_disconnects(1))
    assert [] == one.errors
