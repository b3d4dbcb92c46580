"""What handlers change is what happens: texts, prompts, calls, results, requests, messages, the end of a run."""

import json

import pytest
from tests.rpc.extensions.conftest import MakeExtension, Start, call

DONE: dict[str, object] = {"text": "done"}
MORE: dict[str, object] = {**DONE, "repeat": -1}


def handles(event: str, *lines: str, before: str = "") -> str:
    body = "".join(f"        {line}\n" for line in lines)
    head = f"def extension(pi):\n    seen = []\n{before}\n    @pi.on({event!r})\n"
    return f"{head}    async def handler(ctx, event):\n{body}"


def test_a_prompt_for_this_run_and_a_message_before_it(extended: Start, written: MakeExtension) -> None:
    text = handles(
        "before_agent_start",
        "assert ctx.get_system_prompt() == event.system_prompt",
        "if event.prompt != 'first': return",
        "message = {'customType': 'hint', 'content': 'a hint', 'display': False}",
        "return {'message': message, 'systemPrompt': event.system_prompt + '\\n\\nBe brief.'}",
    )
    one = extended(written(text), [MORE])
    one.say("first")
    assert one.prompt.endswith("Be brief.")
    assert "a hint" in one.user_messages
    one.say("second")

    assert not one.prompt.endswith("Be brief.")
    assert "hint" in [each.get("customType") for each in one.pi.ask("get_entries")["entries"]]
    assert [] == one.errors


def test_a_call_is_carried_out_with_the_input_that_a_handler_has_changed(
    extended: Start, written: MakeExtension
) -> None:
    one = extended(
        written(handles("tool_call", "event.input['command'] = 'echo changed'")),
        [call("bash", command="echo written"), DONE],
    )
    one.say("go")

    assert [("changed\n", False)] == one.ends
    [start] = one.pi.found({"type": "tool_execution_start"})
    assert {"command": "echo written"} == start["args"]


def test_a_block_that_terminates_ends_the_run(extended: Start, written: MakeExtension) -> None:
    text = handles("tool_call", "return {'block': True, 'reason': 'enough', 'terminate': True}")
    one = extended(written(text), [call("bash", command="true"), DONE])
    one.say("go")

    assert [("enough", True)] == one.ends
    assert 1 == len(one.pi.llm.requests)


def test_a_handler_changes_the_result(extended: Start, written: MakeExtension) -> None:
    text = handles(
        "tool_result",
        "return {'content': [{'type': 'text', 'text': 'redacted'}], 'details': {'by': 'me'}, 'isError': True}",
    )
    one = extended(written(text), [call("bash", command="echo secret"), DONE])
    one.say("go")

    [end] = one.pi.found({"type": "tool_execution_end"})
    assert [("redacted", True)] == one.ends
    assert {"by": "me"} == end["result"]["details"]
    assert ["redacted"] == one.read
    [result] = [each for each in one.pi.ask("get_messages")["messages"] if each["role"] == "toolResult"]
    assert (True, {"by": "me"}) == (result["isError"], result["details"])


def test_a_handler_replaces_a_message(extended: Start, written: MakeExtension) -> None:
    text = handles(
        "message_end",
        "if event.message['role'] == 'assistant':",
        "    return {'message': {**event.message, 'content': [{'type': 'text', 'text': 'rewritten'}]}}",
    )
    one = extended(written(text), [DONE])
    one.say("go")

    reported = [
        each["message"] for each in one.pi.found({"type": "message_end"}) if each["message"]["role"] == "assistant"
    ]
    assert ["rewritten"] == [each["content"][0]["text"] for each in reported]
    assert "rewritten" == one.pi.ask("get_last_assistant_text")["text"]


def test_a_handler_changes_the_messages_of_a_request(extended: Start, written: MakeExtension) -> None:
    text = handles(
        "context",
        "blocks = [{'type': 'text', 'text': 'and a thought'}]",
        "event.messages.append({'role': 'user', 'content': blocks, 'timestamp': 1})",
    )
    one = extended(written(text), [MORE])
    one.say("one")

    assert ["one", "and a thought"] == one.user_messages
    assert 2 == len(one.pi.ask("get_messages")["messages"])


def test_a_request_is_sent_as_handlers_have_changed_it(extended: Start, written: MakeExtension) -> None:
    headers = handles(
        "before_provider_headers", "event.headers['x-mine'] = 'yes'", "event.headers['User-Agent'] = None"
    )
    payload = handles("before_provider_request", "return {**event.payload, 'seed': 7}")
    one = extended([written(headers), written(payload)], [DONE])
    one.say("go")
    [request] = one.pi.llm.requests

    assert 7 == request.body["seed"]
    assert "yes" == {name.lower(): value for name, value in request.headers.items()}["x-mine"]


def test_a_handler_can_continue_a_run(extended: Start, written: MakeExtension) -> None:
    text = handles(
        "agent_before_settle",
        "seen.append(1)",
        "entry = {'type': 'custom_message', 'customType': 'more', 'content': 'go on', 'display': True}",
        "return {'continue': True, 'entries': [entry]} if len(seen) == 1 else None",
    )
    one = extended(written(text), [{"text": "one"}, {"text": "two"}])
    one.say("go")

    assert 2 == len(one.pi.llm.requests)
    assert ["go", "go on"] == one.user_messages
    assert 1 == len(one.pi.found({"type": "agent_settled"}))
    assert [] == one.errors


def test_requests_of_agent_settled_handlers_start_afterwards(extended: Start, written: MakeExtension) -> None:
    text = handles("agent_settled", "seen.append(1)", "if len(seen) == 1: pi.send_user_message('once more')")
    one = extended(written(text), [{"text": "one"}, {"text": "two"}])
    one.begin("go")
    one.pi.wait({"type": "agent_settled"})
    one.pi.wait({"type": "agent_settled"})

    assert ["go", "once more"] == one.user_messages


@pytest.mark.parametrize("answer", ["result", "operations"])
def test_a_command_of_the_user_is_run_by_whom_a_handler_names(
    extended: Start, written: MakeExtension, answer: str
) -> None:
    before = """
    class Elsewhere:
        async def exec(self, command, *, on_data, **rest):
            on_data(b"from elsewhere\\n")
            return 5
"""
    answers = {
        "result": "return {'result': {'output': 'made up', 'exitCode': 4, 'cancelled': False, 'truncated': False}}",
        "operations": "return {'operations': Elsewhere()}",
    }
    one = extended(written(handles("user_bash", answers[answer], before=before)))
    result = one.pi.ask("bash", command="touch here")

    assert {"result": ("made up", 4), "operations": ("from elsewhere\n", 5)}[answer] == (
        result["output"],
        result["exitCode"],
    )
    assert [] == list(one.work.iterdir())


def test_resources_of_an_extension_are_there(extended: Start, written: MakeExtension) -> None:
    path = written(handles("resources_discover", "return {'skillPaths': ['skills'], 'promptPaths': ['prompts']}"))
    skill = path.parent / "skills" / "sailing"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: sailing\ndescription: How to sail\n---\nHoist the sails.\n")
    (path.parent / "prompts").mkdir()
    (path.parent / "prompts" / "tack.md").write_text("Tack to $1")
    one = extended(path, [MORE])
    one.say("/tack port")
    names = [each["name"] for each in one.pi.ask("get_commands")["commands"]]

    assert {"tack", "skill:sailing"} <= set(names)
    assert ["Tack to port"] == one.user_messages
    assert "How to sail" in one.prompt


# What else a tool may say.


def test_all_parts_of_a_result(extended: Start, written: MakeExtension) -> None:
    text = '''
        from pinnace.extensions import ToolResult

        USAGE = {"input": 3, "output": 4, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 7,
                 "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0.5}}

        def extension(pi):
            @pi.tool
            def whole(ctx) -> ToolResult:
                """Return everything."""
                return ToolResult("text", details={"a": 1}, structured={"b": 2}, usage=USAGE, terminate=True)
    '''
    one = extended(written(text), [call("whole"), DONE])
    one.say("go")

    assert 1 == len(one.pi.llm.requests)
    [message] = [each for each in one.pi.ask("get_messages")["messages"] if each["role"] == "toolResult"]
    assert {"a": 1} == message["details"]


def test_progress_of_a_tool_is_delivered_as_it_comes(extended: Start, written: MakeExtension) -> None:
    text = '''
        def extension(pi):
            @pi.tool
            async def slow(ctx) -> str:
                """Say something on the way."""
                await ctx.update("half")
                ctx.update("more")
                return "all"
    '''
    one = extended(written(text), [call("slow"), DONE])
    one.say("go")

    updates = [each["partialResult"]["content"][0]["text"] for each in one.pi.found({"type": "tool_execution_update"})]
    assert "half" in updates or "more" in updates
    assert [("all", False)] == one.ends


def test_an_extensions_tool_replaces_the_built_in_one(extended: Start, written: MakeExtension) -> None:
    text = """
        def extension(pi):
            @pi.tool(name="read", description="Read nothing")
            def read(ctx, path: str) -> str:
                return f"not {path}"
    """
    one = extended(written(text), [call("read", path="a.txt"), DONE])
    one.say("go")

    assert [("not a.txt", False)] == one.ends
    assert 1 == one.declared.count("read")


def test_old_arguments_are_repaired_before_they_are_checked(extended: Start, written: MakeExtension) -> None:
    text = '''
        def extension(pi):
            @pi.tool(prepare_arguments=lambda args: {"path": args.get("file", args.get("path"))})
            def look(ctx, path: str) -> str:
                """Look at a file."""
                return path
    '''
    one = extended(written(text), [call("look", file="old.txt"), DONE])
    one.say("go")

    assert [("old.txt", False)] == one.ends


def test_a_tool_that_is_not_active_from_the_start_is_not_declared(extended: Start, written: MakeExtension) -> None:
    text = '''
        def extension(pi):
            @pi.tool(default_active=False)
            def later(ctx) -> str:
                """Come later."""
                return "here"

            @pi.command("now")
            def now(ctx, args):
                pi.set_active_tools([*pi.get_active_tools(), "later"])
    '''
    one = extended(written(text), [MORE])
    one.say("one")
    assert "later" not in one.declared
    one.command("/now")
    one.say("two")

    assert "later" in one.declared


def test_a_reload_reads_models_again_and_gives_back_what_extensions_had_described(
    extended: Start, written: MakeExtension
) -> None:
    path = written(
        """
        import pathlib

        marker = pathlib.Path(__file__).with_name("again")

        def extension(pi):
            if not marker.exists():
                pi.register_provider(
                    "box", base_url="http://127.0.0.1:1", api_key="k", api="openai-completions", models=[{"id": "m9"}]
                )
            marker.touch()

            @pi.command("again")
            async def again(ctx, args):
                await ctx.reload()
        """
    )
    one = extended(path)
    file = one.pi.home.agent_dir / "models.json"
    content = json.loads(file.read_text())

    def models() -> set[str]:
        return {each["id"] for each in one.pi.ask("get_available_models")["models"]}

    before = models()
    assert "m9" in before
    [provider] = content["providers"].values()
    provider["models"].append({**provider["models"][0], "id": "added"})
    file.write_text(json.dumps(content))
    assert before == models()
    one.command("/again")

    assert before - {"m9"} | {"added"} == models()
