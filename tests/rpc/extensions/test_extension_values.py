"""Values that extensions hand to the agent: what is no JSON fails alone, and what was handed over does not change."""

import json
from pathlib import Path

import pytest
from tests.rpc.extensions.conftest import Extended, MakeExtension, Start, call, calls, text_of

DONE: dict[str, object] = {"text": "done"}
MORE: dict[str, object] = {**DONE, "repeat": -1}

TOOLS = '''
    import datetime
    import decimal
    from pathlib import Path

    from pinnace.extensions import ToolResult

    circle = {}
    circle["self"] = [circle]
    VALUES = {
        "bytes": {"file": b"x"},
        "set": {"names": [{"a"}]},
        "decimal": {"price": decimal.Decimal("1.5")},
        "nan": {"mean": float("nan")},
        "huge": {"number": 2**70},
        "circle": circle,
        "object": object(),
        "path": {"file": Path("a") / "b", 404: datetime.date(2024, 2, 29), "half": "\\ud800"},
    }

    def extension(pi):
        @pi.tool
        async def give(ctx, where: str, kind: str):
            """Return a value in some place of a result."""
            value = VALUES[kind]
            match where:
                case "details":
                    return ToolResult("text", details=value)
                case "structured":
                    return ToolResult("text", structured=value)
                case "wire":
                    return {"content": [{"type": "text", "text": "text"}], "details": value}
                case "update":
                    await ctx.update(ToolResult("so far", details=value))
                    return "text"
                case "message":
                    pi.send_message("note", "a note", details=value)
                    return "text"
                case "entry":
                    pi.append_entry("note", value)
                    return "text"
                case "label":
                    pi.set_label(ctx.session_manager.get_leaf_id(), value)
                    return "text"
                case "status":
                    ctx.ui.set_status("key", value)
                    return "text"
                case "flag":
                    return ToolResult("text", is_error="yes")
'''

PLACES = {
    "details": "details.{}",
    "structured": "structured.{}",
    "wire": "details.{}",
    "update": "details.{}",
    "message": "details.{}",
    "entry": "data.{}",
}
WRONG = {
    "bytes": "file: bytes is not JSON",
    "set": "names[0]: set is not JSON",
    "decimal": "price: Decimal is not JSON",
    "nan": "mean: nan is not a number of JSON",
    "huge": "number: an integer of more than 64 bits",
    "circle": "self[0]: contains itself",
}


def ends_of(one: Extended) -> list[tuple[str, bool]]:
    """Return the texts of all results in the order of their calls, and whether they are errors."""
    ends = {each["toolCallId"]: each for each in one.pi.found({"type": "tool_execution_end"})}
    starts = [each["toolCallId"] for each in one.pi.found({"type": "tool_execution_start"})]
    return [(text_of(ends[each]["result"]), ends[each]["isError"]) for each in starts]


def test_a_value_that_is_not_json_fails_the_call_and_names_the_place(extended: Start, written: MakeExtension) -> None:
    wrong = [(where, kind) for where in PLACES for kind in WRONG]
    others = [("details", "object"), ("label", "bytes"), ("status", "set"), ("flag", "path")]
    right = [(where, "path") for where in PLACES]
    said: list[tuple[str, dict[str, object]]] = [
        ("give", {"where": where, "kind": kind}) for where, kind in (*wrong, *others, *right)
    ]
    one = extended(written(TOOLS), [calls(*said), MORE])
    one.say("go")

    ends = ends_of(one)
    expected = [PLACES[where].format(WRONG[kind]) for where, kind in wrong]
    expected += ["details: object is not JSON", "label must be a string", "setStatus: statusText must be a string"]
    expected += ["is_error of a ToolResult must be True or False, not str"]
    assert [] == [
        (text, end)
        for text, end in zip(expected, ends[: len(expected)], strict=True)
        if text not in end[0] or not end[1]
    ]
    assert [("text", False)] * len(right) == ends[len(expected) :]
    shown = {"file": "a/b", "404": "2024-02-29", "half": "\ud800"}
    [note] = [each for each in one.pi.ask("get_entries")["entries"] if each["type"] == "custom"]
    assert shown == note["data"]
    one.say("again")
    assert [] == one.errors


HANDLERS = {
    # event, what its handler returns, the error for the client
    "tool_result": ("{'details': {'a': b''}}", "tool_result: details.a: bytes is not JSON"),
    "message_end": (
        "{'message': {**event.message, 'extra': {1}}} if event.message['role'] == 'assistant' else None",
        "message_end: message.extra: set is not JSON",
    ),
    "turn_end": (
        "{'entries': [{'type': 'custom', 'customType': 'n', 'data': {1}}]}",
        "turn_end: entries[0].data: set is not JSON",
    ),
    "agent_before_settle": (
        "{'entries': [{'type': 'custom', 'customType': 'n', 'data': {1}}]}",
        "agent_before_settle: entries[0].data: set is not JSON",
    ),
    "tool_call": ("event.input.update(extra=b'')", "tool_call: input.extra: bytes is not JSON"),
    "context": ("event.messages[0].update(extra=b'')", "context: messages[0].extra: bytes is not JSON"),
    "before_provider_request": (
        "event.payload.update(extra=b'')",
        "before_provider_request: payload.extra: bytes is not JSON",
    ),
}


@pytest.mark.parametrize("event", HANDLERS)
def test_a_handler_result_that_is_not_json_is_reported_and_ends_the_run(
    extended: Start, written: MakeExtension, event: str
) -> None:
    answer, text = HANDLERS[event]
    body = f"def extension(pi):\n    @pi.on({event!r})\n    def handler(ctx, event):\n        return {answer}\n"
    one = extended(written(body), [call("bash", command="echo secret"), MORE])
    one.say("go")

    assert {(event, True)} == {(each, text in problem) for each, problem in one.errors}
    match event:
        case "tool_result":
            [(shown, is_error)] = one.ends
            assert is_error
            assert shown.startswith("The result of this call is withheld: ")
            assert "secret" not in str(one.read)
        case "tool_call":
            [(shown, is_error)] = one.ends
            assert is_error
        case "context" | "before_provider_request":
            assert [] == one.pi.llm.requests
            message = one.pi.ask("get_messages")["messages"][-1]
            assert ("error", True) == (message["stopReason"], text in message["errorMessage"])
        case _:
            assert "done" == one.pi.ask("get_last_assistant_text")["text"]


@pytest.mark.parametrize(
    ("event", "answer"),
    [("input", "{'action': 'transform'}"), ("before_agent_start", "{'systemPrompt': 5}")],
)
def test_a_prompt_is_refused_when_a_handler_that_may_stop_it_can_not_be_understood(
    extended: Start, written: MakeExtension, event: str, answer: str
) -> None:
    body = f"def extension(pi):\n    @pi.on({event!r})\n    def handler(ctx, event):\n        return {answer}\n"
    one = extended(written(body), [MORE])
    response = one.pi.wait_response(one.begin("go"))

    assert (False, "refused_by_extension") == (response["success"], response["errorCode"])
    assert f"{event}: " in response["error"]
    assert [event] == [each for each, _ in one.errors]
    assert [] == one.pi.llm.requests
    assert [] == one.pi.ask("get_messages")["messages"]


def test_a_queued_text_is_refused_when_a_handler_of_input_can_not_be_understood(
    extended: Start, written: MakeExtension
) -> None:
    body = """
        def extension(pi):
            @pi.on("input")
            def handler(ctx, event):
                return {"action": "nonsense"} if event.text == "queued" else None
    """
    one = extended(written(body), [call("bash", command="echo 1"), MORE])
    one.pi.send({"id": "s", "type": "steer", "message": "queued"})
    response = one.pi.wait_response("s")
    assert (False, "refused_by_extension") == (response["success"], response["errorCode"])
    one.say("go")
    assert ["go"] == one.user_messages


def test_keys_that_are_not_known_are_reported_once_and_the_rest_counts(extended: Start, written: MakeExtension) -> None:
    body = '''
        def extension(pi):
            @pi.tool
            def mine(ctx):
                """Return more than is known."""
                content = [{"type": "text", "text": "mine", "extra": b"x"}]
                return {"content": content, "myField": 1, "isError": True}

            @pi.on("context")
            def hide(ctx, event):
                shown = [each for each in event.messages if "secret" not in str(each)]
                return {"messages": shown, "note": "hidden"}
    '''
    one = extended(written(body), [call("mine"), call("mine"), MORE])
    one.say("go")
    one.say("a secret")

    assert [("mine", False)] * 2 == one.ends
    assert ["mine", "mine"] == one.read
    assert ["go"] == one.user_messages
    assert ["context", "tool mine", "tool mine", "tool mine"] == sorted(event for event, _ in one.errors)
    texts = " ".join(text for _, text in one.errors)
    assert "'myField'" in texts
    assert "a block of type 'text' has no field 'extra'" in texts
    assert "isError of a returned dict marks no failure: raise ToolError" in texts
    assert "'note'" in texts


def test_a_result_does_not_change_with_the_list_that_a_tool_returned(
    extended: Start, written: MakeExtension, tmp_path: Path
) -> None:
    """Not in the next request, nor for clients, nor in the file of a clone, nor for handlers."""
    body = '''
        from pinnace.extensions import ToolResult

        def extension(pi):
            blocks = []
            details = {"log": []}

            @pi.tool
            def grow(ctx, items: list[str]):
                """Return what there is so far, and go on with it."""
                items.append("mine")
                blocks.append({"type": "text", "text": f"{len(blocks) + 1}"})
                details["log"].append(len(blocks))
                pi.append_entry("log", details)
                pi.send_message("note", blocks, details=details, deliver_as="next_turn")
                return ToolResult(blocks, details=details)

            @pi.on("tool_call")
            def look(ctx, event):
                details["input"] = event.input  # kept, and changed when the call is over

            @pi.on("agent_end")
            def spoil(ctx, event):
                blocks[0]["text"] = "spoilt"
                details["log"].clear()
                details["input"]["items"] = "spoilt"
    '''
    one = extended(written(body), [call("grow", items=["a"]), MORE], has_session=True)
    one.say("go")
    one.say("once more")

    assert ["1"] == one.read
    said = one.pi.ask("get_messages")["messages"]
    [result] = [each for each in said if each["role"] == "toolResult"]
    [note] = [each for each in said if each["role"] == "custom"]
    assert ([{"type": "text", "text": "1"}], [1]) == (result["content"], result["details"]["log"])
    assert ([{"type": "text", "text": "1"}], [1]) == (note["content"], note["details"]["log"])
    [called] = [
        block
        for each in said
        if each["role"] == "assistant"
        for block in each["content"]
        if block["type"] == "toolCall"
    ]
    assert {"items": ["a"]} == called["arguments"]
    [entry] = [each for each in one.pi.ask("get_entries")["entries"] if each["type"] == "custom"]
    assert [1] == entry["data"]["log"]
    assert one.pi.ask("clone")["cancelled"] is False
    copied = Path(one.pi.ask("get_state")["sessionFile"]).read_text(encoding="utf-8")
    assert "spoilt" not in copied
    assert 1 == sum(json.loads(line).get("customType") == "log" for line in copied.splitlines())


def test_changing_received_values_does_not_change_the_agent(extended: Start, written: MakeExtension) -> None:
    """Events, contexts and the session: copies, or only to be read."""
    body = '''
        def spoil(value, seen=()):
            """Change everything that can be changed."""
            if isinstance(value, (list, tuple)):
                for each in value:
                    spoil(each)
                if isinstance(value, list):
                    try:
                        value.append("spoilt")
                    except TypeError:
                        pass
            elif isinstance(value, dict):
                for each in list(value.values()):
                    spoil(each)
                try:
                    value["text"] = value["id"] = "spoilt"
                except TypeError:
                    pass

        EVENTS = [
            "session_start", "agent_start", "agent_end", "turn_start", "turn_end", "message_start", "message_update",
            "message_end", "tool_execution_start", "tool_execution_update", "tool_execution_end", "input",
            "before_agent_start", "tool_result", "agent_before_settle", "agent_settled", "model_select",
            "after_provider_response", "provider_stream_event",
        ]

        def extension(pi):
            def handler(ctx, event):
                for name in type(event).__slots__:
                    spoil(getattr(event, name))
                spoil(ctx.model)
                if event.type == "turn_start":  # there are a thousand
                    spoil(ctx.model_registry.all())
                    spoil(ctx.model_registry.available())
                spoil(list(ctx.scoped_models))
                spoil(ctx.model_registry.find(ctx.model["provider"], ctx.model["id"]))
                reader = ctx.session_manager
                spoil(reader.get_entries())
                spoil(reader.get_branch())
                spoil(reader.get_tree())
                spoil(reader.get_header())
                spoil(reader.build_session_context())
                spoil(ctx.get_system_prompt())
                spoil(pi.get_settings())
                for tool in pi.get_all_tools():
                    spoil(tool.parameters)
                    spoil(tool.source_info)
                for command in pi.get_commands():
                    spoil(command.source_info)
                spoil(pi.get_active_tools())
                spoil(ctx.get_context_usage())

            for name in EVENTS:
                pi.on(name, handler)

            @pi.command("mine")
            def mine(ctx, args):
                spoil(ctx.get_system_prompt_options())
    '''
    image = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    one = extended(written(body), [call("bash", command="echo fine"), MORE])
    models = one.pi.ask("get_available_models")
    commands = one.pi.ask("get_commands")
    model = models["models"][0]
    one.pi.ask("set_model", provider=model["provider"], modelId=model["id"])
    one.accepted(one.begin("go", images=[image]))
    one.pi.wait({"type": "agent_settled"})
    one.say("again")
    one.command("/mine")

    assert [] == one.errors
    assert commands == one.pi.ask("get_commands")
    assert models == one.pi.ask("get_available_models")
    found = [each for each in one.pi.ask("get_messages")["messages"] if "spoilt" in json.dumps(each)]
    assert [] == found
    assert "spoilt" not in json.dumps(one.pi.ask("get_entries"))
    assert "spoilt" not in json.dumps([request.body for request in one.pi.llm.requests])
    assert "spoilt" not in json.dumps(one.pi.ask("get_state"))


def test_the_time_of_a_message_of_an_extension_is_the_same_after_a_restart(
    extended: Start, written: MakeExtension
) -> None:
    """Of one that waits in a queue, and of one that waits for the next prompt."""
    body = '''
        import time

        def extension(pi):
            @pi.tool
            def speak(ctx) -> str:
                """Say something that is delivered later."""
                pi.send_message("queued", "one", deliver_as="steer")
                pi.send_message("next", "two", deliver_as="next_turn")
                time.sleep(0.01)  # so that the clock shows another time when they are delivered
                return "said"

            @pi.command("aside")
            def aside(ctx, args):
                pi.send_message("aside", "three")
    '''
    one = extended(written(body), [call("speak"), MORE], has_session=True)
    one.say("go")
    one.command("/aside")
    one.say("again")
    before = one.pi.ask("get_messages")["messages"]
    kinds = [each["customType"] for each in before if each["role"] == "custom"]
    assert ["queued", "aside", "next"] == kinds
    path = one.pi.ask("get_state")["sessionFile"]
    one.pi.ask("new_session")
    one.pi.ask("switch_session", sessionPath=path)

    assert before == one.pi.ask("get_messages")["messages"]
    times = [each["timestamp"] for each in before]
    assert sorted(times) == times


def test_a_message_of_a_handler_of_agent_settled_begins_no_run(extended: Start, written: MakeExtension) -> None:
    """Unless it says so: each run would settle in its turn."""
    body = """
        def extension(pi):
            @pi.on("agent_settled")
            def note(ctx, event):
                pi.send_message("note", "settled")
    """
    one = extended(written(body), [MORE])
    for text in ("go", "again"):
        mark = one.pi.mark()
        one.say(text)
        one.pi.wait({"type": "message_end", "message": {"role": "custom"}}, since=mark)

    assert 2 == len(one.pi.found({"type": "agent_start"}))
    assert ["go", "settled", "again"] == one.user_messages


def test_an_exit_code_that_is_none_fails_the_command(extended: Start, written: MakeExtension) -> None:
    body = """
        class Elsewhere:
            async def exec(self, command, *, on_data, **rest):
                on_data(b"out")
                return b"0" if command == "bytes" else 3

        def extension(pi):
            @pi.on("user_bash")
            def where(ctx, event):
                return {"operations": Elsewhere()}
    """
    one = extended(written(body))
    result = one.pi.ask("bash", command="bytes")
    assert ("out\nexec of operations must return an exit code or None, not bytes", 1) == (
        result["output"],
        result["exitCode"],
    )
    assert 3 == one.pi.ask("bash", command="other")["exitCode"]
