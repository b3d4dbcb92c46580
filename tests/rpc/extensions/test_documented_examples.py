"""The examples of the published documentation of extensions, as this program's authors write them.

Each is translated name by name: `registerTool` with an object is `register_tool(ToolDefinition(...))`, camel case is
snake case, the context comes first, times are seconds. What an example returns stays a dict in the wire's spelling.
"""

import base64
import json
from pathlib import Path

import pytest
from tests.rpc.extensions.conftest import Extended, MakeExtension, Start, call, calls

DONE: dict[str, object] = {"text": "done"}
MORE: dict[str, object] = {**DONE, "repeat": -1}
SMALL = {"compaction": {"keepRecentTokens": 1}}

QUICK_START = """
    from pinnace.extensions import ToolDefinition

    def extension(pi):
        @pi.on("session_start")
        async def loaded(ctx, event):
            ctx.ui.notify("Extension loaded!", "info")

        @pi.on("tool_call")
        async def gate(ctx, event):
            if event.tool_name == "bash" and "rm -rf" in (event.input.get("command") or ""):
                ok = await ctx.ui.confirm("Dangerous!", "Allow rm -rf?")
                if not ok:
                    return {"block": True, "reason": "Blocked by user"}

        async def greet(ctx, params):
            return {"content": [{"type": "text", "text": f"Hello, {params['name']}!"}], "details": {}}

        pi.register_tool(
            ToolDefinition(
                name="greet",
                label="Greet",
                description="Greet someone by name",
                parameters={
                    "type": "object",
                    "properties": {"name": {"type": "string", "description": "Name to greet"}},
                    "required": ["name"],
                },
                execute=greet,
            )
        )

        @pi.command("hello", description="Say hello")
        async def hello(ctx, args):
            ctx.ui.notify(f"Hello {args or 'world'}!", "info")
"""

WRITING = """
    from pinnace.extensions import events as ev

    def extension(pi):
        @pi.on(ev.BashCall)
        async def gate(ctx, event):
            ok = await ctx.ui.confirm("Title", "Are you sure?")
            ctx.ui.notify("Done!", "success")
            ctx.ui.notify("odd", "surprise")
            ctx.ui.set_status("my-ext", "Processing...")
            ctx.ui.set_widget("my-ext", ["Line 1", "Line 2"])

        @pi.shortcut("ctrl+x", description="Toggle plan mode")
        async def toggle(ctx):
            ctx.ui.notify("Toggled!")

        pi.flag("my-flag", description="Start in plan mode", type="boolean", default=False)
"""


def test_the_quick_start(extended: Start, written: MakeExtension) -> None:
    script = [calls(("greet", {"name": "Ann"}), ("bash", {"command": "rm -rf never-there"})), DONE]
    one = extended(written(QUICK_START), script)
    assert "Extension loaded!" == one.notice()
    one.command("/hello")
    assert "Hello world!" == one.notice()
    one.begin("go")
    one.reply(one.asked("confirm"), confirmed=False)
    one.pi.wait({"type": "agent_settled"})

    assert {("Hello, Ann!", False), ("Blocked by user", True)} == set(one.ends)
    assert [] == one.errors


def test_a_message_of_any_kind_is_shown_and_blocks_no_call(extended: Start, written: MakeExtension) -> None:
    one = extended(written(WRITING), [call("bash", command="echo ran"), DONE])
    one.begin("go")
    one.reply(one.asked("confirm"), confirmed=True)
    one.pi.wait({"type": "agent_settled"})

    assert ["info", "info"] == [each["notifyType"] for each in one.frames("notify")]
    assert [("ran\n", False)] == one.ends
    assert [] == one.errors


EVENTS = """
    from pinnace.extensions import builtin, events as ev

    def extension(pi):
        seen = []

        @pi.on("resources_discover")
        async def resources(ctx, event):
            assert event.reason == "startup" and event.cwd
            folder = str(pi.path.parent)
            return {
                "skillPaths": [f"{folder}/skills"],
                "promptPaths": [f"{folder}/prompts"],
                "themePaths": [f"{folder}/themes"],
            }

        @pi.on("session_start")
        async def start(ctx, event):
            ctx.ui.notify(f"Session: {ctx.session_manager.get_session_file() or 'ephemeral'}", "info")

        @pi.on("session_before_switch")
        async def switch(ctx, event):
            if event.reason == "new":
                ok = await ctx.ui.confirm("Clear?", "Delete all messages?")
                if not ok:
                    return {"cancel": True}

        @pi.on("session_before_fork")
        async def fork(ctx, event):
            assert event.entry_id and event.position in ("before", "at")
            return {"cancel": True} if event.position == "before" else {"skipConversationRestore": True}

        @pi.on("session_before_compact")
        async def before_compact(ctx, event):
            assert event.branch_entries and event.custom_instructions is None
            return {
                "compaction": {
                    "summary": "...",
                    "firstKeptEntryId": event.preparation["firstKeptEntryId"],
                    "tokensBefore": event.preparation["tokensBefore"],
                }
            }

        @pi.on("session_compact")
        async def compacted(ctx, event):
            ctx.ui.notify(f"compacted {event.compaction_entry['summary']} {event.from_extension}")

        @pi.on("session_before_tree")
        async def before_tree(ctx, event):
            return {"summary": {"summary": "...", "details": {}}} if event.preparation["userWantsSummary"] else None

        @pi.on("session_tree")
        async def tree(ctx, event):
            ctx.ui.notify(f"tree {bool(event.new_leaf_id)} {bool(event.summary_entry)} {event.from_extension}")

        @pi.on("session_shutdown")
        async def shutdown(ctx, event):
            ctx.ui.notify("goodbye")

        @pi.on("before_agent_start")
        async def before(ctx, event):
            assert ctx.get_system_prompt() == event.system_prompt and event.images is None
            return {
                "message": {
                    "customType": "my-extension",
                    "content": "Additional context for the LLM",
                    "display": True,
                },
                "systemPrompt": event.system_prompt + "\\n\\nExtra instructions for this turn...",
            }

        @pi.on("agent_end")
        async def end(ctx, event):
            seen.append(("agent_end", len(event.messages)))

        @pi.on("turn_start")
        async def turn(ctx, event):
            seen.append(("turn_start", event.turn_index, event.timestamp > 0))

        @pi.on("turn_end")
        async def turn_end(ctx, event):
            seen.append(("turn_end", event.turn_index, event.message["role"], len(event.tool_results)))

        @pi.on("message_update")
        async def update(ctx, event):
            assert event.message["role"] == "assistant" and event.assistant_message_event["type"]

        @pi.on("tool_execution_start")
        async def tool_start(ctx, event):
            seen.append(("tool_start", event.tool_name, bool(event.tool_call_id), event.args["command"]))

        @pi.on("tool_execution_update")
        async def tool_update(ctx, event):
            assert event.tool_call_id and event.tool_name and event.args is not None and event.partial_result

        @pi.on("tool_execution_end")
        async def tool_end(ctx, event):
            seen.append(("tool_end", event.tool_name, event.is_error, bool(event.result)))

        @pi.on("context")
        async def context(ctx, event):
            filtered = [each for each in event.messages if "pruned" not in str(each)]
            return {"messages": filtered}

        @pi.on("before_provider_request")
        def request(ctx, event):
            return {**event.payload, "temperature": 0}

        @pi.on("after_provider_response")
        def response(ctx, event):
            seen.append(("response", event.status, "content-type" in event.headers))

        @pi.on("model_select")
        async def model(ctx, event):
            former = event.previous_model
            prev = f"{former['provider']}/{former['id']}" if former else "none"
            following = f"{event.model['provider']}/{event.model['id']}"
            ctx.ui.notify(f"Model changed ({event.source}): {prev} -> {following}", "info")

        @pi.on("tool_call")
        async def tool_call(ctx, event):
            if isinstance(event, ev.BashCall):
                event.input["command"] = f"echo from the profile\\n{event.input['command']}"
                if "rm -rf" in event.input["command"]:
                    return {"block": True, "reason": "Dangerous command"}

        @pi.on("tool_result")
        async def tool_result(ctx, event):
            assert ctx.cancel_scope is not None and event.is_error is False
            return {"content": [*event.content, {"type": "text", "text": "patched"}], "details": {}, "isError": False}

        @pi.on("input")
        async def text(ctx, event):
            if event.text.startswith("?quick "):
                return {"action": "transform", "text": f"Respond briefly: {event.text[7:]}"}
            if event.text == "ping":
                ctx.ui.notify("pong", "info")
                return {"action": "handled"}
            if event.source == "extension":
                return {"action": "continue"}
            return {"action": "continue"}

        @pi.on("user_bash")
        def user_bash(ctx, event):
            assert event.cwd and event.exclude_from_context is False
            if event.command == "elsewhere":
                return {"result": {"output": "...", "exitCode": 0, "cancelled": False, "truncated": False}}

            class Operations:
                async def exec(self, command, **options):
                    return await builtin.local_bash().exec(f"echo first\\n{command}", **options)

            return {"operations": Operations()}

        @pi.command("seen")
        def tell(ctx, args):
            import json
            ctx.ui.notify(json.dumps(seen))
            seen.clear()

        @pi.command("go-to")
        async def go_to(ctx, args):
            first = ctx.session_manager.get_entries()[0]
            await ctx.navigate_tree(
                first["id"],
                summarize=True,
                custom_instructions="Focus on error handling changes",
                replace_instructions=False,
                label="review-checkpoint",
            )
"""


@pytest.fixture
def eventful(extended: Start, written: MakeExtension) -> Extended:
    path = written(EVENTS)
    (path.parent / "prompts").mkdir()
    (path.parent / "prompts" / "fix.md").write_text("Fix it.")
    (path.parent / "skills" / "sail").mkdir(parents=True)
    (path.parent / "skills" / "sail" / "SKILL.md").write_text("---\nname: sail\ndescription: Sails.\n---\nSail.")
    one = extended(path, [call("bash", command="echo ran"), MORE], has_session=True, settings=SMALL)
    assert one.notice().startswith("Session: ")
    return one


def test_the_examples_of_events_in_a_run(eventful: Extended) -> None:
    one = eventful
    assert {"fix", "skill:sail"} <= {each["name"] for each in one.pi.ask("get_commands")["commands"]}
    one.begin("ping")
    assert "pong" == one.notice()
    one.say("?quick what is pruned")
    assert "Respond briefly: what is pruned" not in one.user_messages
    assert "Additional context for the LLM" in one.user_messages
    assert one.prompt.endswith("Extra instructions for this turn...")
    assert [("from the profile\nran\npatched", False)] == one.ends
    assert 0 == one.pi.llm.requests[-1].body["temperature"]
    one.command("/seen")
    expected = [
        ["turn_start", 0, True],
        ["response", 200, True],
        ["tool_start", "bash", True, "echo ran"],
        ["tool_end", "bash", False, True],
        ["turn_end", 0, "assistant", 1],
        ["turn_start", 1, True],
        ["response", 200, True],
        ["turn_end", 1, "assistant", 0],
    ]
    seen = json.loads(one.notice())
    assert expected == [each for each in seen if each[0] != "agent_end"]
    assert "agent_end" == seen[-1][0]
    assert "first\nmine\n" == one.pi.ask("bash", command="echo mine")["output"]
    assert "..." == one.pi.ask("bash", command="elsewhere")["output"]
    assert [] == one.errors


def test_the_examples_of_events_of_a_session(eventful: Extended) -> None:
    one = eventful
    one.say("go")
    entries = one.pi.ask("get_entries")["entries"]
    user = next(each for each in entries if each["type"] == "message" and each["message"]["role"] == "user")
    assert one.pi.ask("fork", entryId=user["id"])["cancelled"]
    one.begin("/go-to")
    assert "tree True True True" == one.notice()
    one.say("and more")
    one.pi.send({"type": "compact"})
    assert "compacted ... True" == one.notice()
    one.pi.send({"type": "new_session", "id": "new"})
    one.reply(one.asked("confirm"), confirmed=False)
    assert one.pi.wait_response("new")["data"]["cancelled"]
    one.pi.ask("clone")
    assert "goodbye" == one.notice()
    assert [] == one.errors


def test_a_message_shown_at_the_end_of_the_process_reaches_the_client(extended: Start, written: MakeExtension) -> None:
    text = """
        def extension(pi):
            @pi.on("session_shutdown")
            async def shutdown(ctx, event):
                ctx.ui.notify("goodbye")
    """
    one = extended(written(text))
    one.pi.ask("get_state")
    one.pi.close_stdin()

    assert 0 == one.pi.wait_exit()
    assert ["goodbye"] == [each["message"] for each in one.frames("notify")]


COMMANDS = """
    import json
    import math
    from pinnace.extensions import SessionManager, ToolDefinition, get_language_from_path, highlight_code, key_hint
    from pinnace.extensions import key_text, raw_key_hint

    def extension(pi):
        pi.flag("plan", description="Start in plan mode", type="boolean", default=False)
        handed = []

        @pi.command("my-cmd")
        async def my_cmd(ctx, args):
            await ctx.wait_for_idle()
            assert ctx.is_idle() and not ctx.has_pending_messages()
            reader = ctx.session_manager
            assert reader.get_leaf_id() == (reader.get_branch()[-1]["id"] if reader.get_branch() else None)
            usage = ctx.get_context_usage()
            assert usage is None or usage.tokens is None or usage.tokens < 100_000
            assert ctx.get_system_prompt()
            ctx.ui.notify(f"{len(reader.get_entries())} entries", "info")

        @pi.command("again")
        async def again(ctx, args):
            async def setup(sm):
                sm.append_message(
                    {
                        "role": "user",
                        "content": [{"type": "text", "text": "Context from previous session..."}],
                        "timestamp": 1,
                    }
                )

            file = ctx.session_manager.get_session_file()
            result = await ctx.new_session(parent_session=file, setup=setup)
            assert not result.cancelled

        @pi.command("copy")
        async def copy(ctx, args):
            leaf = ctx.session_manager.get_leaf_id()
            result = await ctx.fork(leaf, position="at")
            assert not result.cancelled

        @pi.command("switch", description="Switch to another session")
        async def switch(ctx, args):
            folder = ctx.session_manager.get_session_dir()
            sessions = await SessionManager.list(ctx.cwd, folder)
            assert {s.id for s in sessions} <= {s.id for s in await SessionManager.list_all(folder)}
            assert await SessionManager.list(ctx.cwd) == []
            if len(sessions) == 0:
                return
            choice = await ctx.ui.select("Pick session:", [s.file for s in sessions])
            if choice:
                await ctx.switch_session(choice)

        @pi.command("state")
        async def state(ctx, args):
            entry_id = pi.append_entry("my-state", {"count": 42})
            restored = [e["data"] for e in ctx.session_manager.get_entries() if e["type"] == "custom"]
            pi.set_session_name("Refactor auth module")
            pi.set_label(entry_id, "checkpoint-before-refactor")
            label = ctx.session_manager.get_label(entry_id)
            pi.set_label(entry_id, None)
            shown = [restored[-1]["count"], pi.get_session_name(), label, ctx.session_manager.get_label(entry_id)]
            ctx.ui.notify(json.dumps(shown))

        def completions(prefix):
            envs = ["dev", "staging", "prod"]
            items = [{"value": each, "label": each} for each in envs]
            filtered = [item for item in items if item["value"].startswith(prefix)]
            return filtered or None

        @pi.command("deploy", description="Deploy to an environment", complete=completions)
        async def deploy(ctx, args):
            ctx.ui.notify(f"Deploying: {args}", "info")

        @pi.command("lists")
        async def lists(ctx, args):
            commands = pi.get_commands()
            ours = [each for each in commands if each.source == "extension"]
            assert all(each.source_info["scope"] == "temporary" for each in ours)
            tools = {each.name: each for each in pi.get_all_tools()}
            assert tools["read"].description and tools["read"].parameters
            assert tools["read"].source_info == {
                "path": "<builtin:read>", "source": "builtin", "scope": "temporary", "origin": "top-level"
            }
            assert pi.get_flag("--plan") is False
            pi.set_active_tools(["read", "bash"])
            assert pi.get_active_tools() == ["read", "bash"]
            result = await pi.exec("echo", ["status"], timeout=60)
            assert (result.stdout, result.stderr, result.code, result.killed) == ("status\\n", "", 0, False)
            current = pi.get_thinking_level()
            pi.set_thinking_level("high")
            model = ctx.model_registry.find(ctx.model["provider"], ctx.model["id"])
            assert await pi.set_model(model)
            pi.events.on("my:event", lambda data: ctx.ui.notify(f"event {data['a']} {current}"))
            pi.events.emit("my:event", {"a": 1})

        @pi.command("providers")
        async def providers(ctx, args):
            pi.register_provider(
                "my-proxy",
                {
                    "baseUrl": "https://proxy.example.com",
                    "apiKey": "PROXY_API_KEY",
                    "api": "anthropic-messages",
                    "models": [
                        {
                            "id": "claude-sonnet-4-20250514",
                            "name": "Claude 4 Sonnet (proxy)",
                            "reasoning": False,
                            "input": ["text", "image"],
                            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
                            "contextWindow": 200000,
                            "maxTokens": 16384,
                        }
                    ],
                },
            )
            pi.register_provider("anthropic", {"baseUrl": "https://proxy.example.com"})
            there = ctx.model_registry.find("my-proxy", "claude-sonnet-4-20250514") is not None
            pi.unregister_provider("my-proxy")
            pi.unregister_provider("anthropic")
            gone = ctx.model_registry.find("my-proxy", "claude-sonnet-4-20250514") is None
            ctx.ui.notify(f"{there} {gone}")

        @pi.command("images")
        async def images(ctx, args):
            pi.send_user_message(
                [
                    {"type": "text", "text": "Describe this image:"},
                    {
                        "type": "image",
                        "source": {"type": "base64", "mediaType": "image/png", "data": args},
                    },
                ]
            )

        @pi.command("message")
        async def message(ctx, args):
            pi.send_message("my-extension", "Message text", True, {"a": 1}, trigger_turn=True, deliver_as="steer")

        @pi.command("compact-it")
        async def compact(ctx, args):
            ctx.compact(
                "Focus on recent changes",
                on_complete=lambda result: ctx.ui.notify("Compaction completed", "info"),
                on_error=lambda error: ctx.ui.notify(f"Compaction failed: {error}", "error"),
            )

        @pi.command("dialogs")
        async def dialogs(ctx, args):
            choice = await ctx.ui.select("Pick one:", ["A", "B", "C"])
            ok = await ctx.ui.confirm("Delete?", "This cannot be undone")
            name = await ctx.ui.input("Name:", "placeholder")
            text = await ctx.ui.editor("Edit:", "prefilled text")
            late = await ctx.ui.confirm("Timed Confirmation", "This dialog will auto-cancel. Confirm?", timeout=0.01)
            ctx.ui.notify(json.dumps([choice, ok, name, text, late]), "info")

        @pi.command("shown")
        async def shown(ctx, args):
            ui = ctx.ui
            ui.set_status("my-ext", "Processing...")
            ui.set_status("my-ext", None)
            ui.set_working_message("Thinking deeply...")
            ui.set_working_message()
            ui.set_working_indicator({"frames": [ui.theme.fg("accent", "●")]})
            ui.set_working_indicator({"frames": [ui.theme.fg("dim", "·")], "intervalMs": 120})
            ui.set_working_indicator({"frames": []})
            ui.set_working_indicator()
            ui.set_widget("my-widget", ["Line 1", "Line 2"])
            ui.set_widget("my-widget", ["Line 1", "Line 2"], placement="belowEditor")
            ui.set_widget("my-widget", lambda tui, theme: None)
            ui.set_widget("my-widget", None)
            ui.set_footer(lambda tui, theme: None)
            ui.set_footer(None)
            ui.set_title("pi - my-project")
            ui.set_editor_text("Prefill text")
            assert ui.get_editor_text() == ""
            ui.paste_to_editor("pasted content")
            expanded = ui.get_tools_expanded()
            ui.set_tools_expanded(True)
            ui.set_tools_expanded(expanded)
            ui.set_editor_component(lambda tui, theme, keybindings: None)
            ui.set_editor_component(None)
            themes, light = ui.get_all_themes(), ui.get_theme("light")
            result = ui.set_theme("light")
            if not result.success:
                ui.notify(f"Failed: {result.error}", "error")
            ui.set_theme(light)
            assert await ui.custom(lambda tui, theme, keybindings, done: None, overlay=True) is None
            for colour in ("toolTitle", "accent", "success", "error", "warning", "muted", "dim"):
                assert "text" in ui.theme.fg(colour, "text")
            assert all("text" in style("text") for style in (ui.theme.bold, ui.theme.italic, ui.theme.strikethrough))
            assert key_hint("app.tools.expand", "to expand") == "ctrl+o to expand"
            assert raw_key_hint(key_text("tui.select.confirm"), "to confirm") == "enter to confirm"
            assert get_language_from_path("/path/to/file.rs") == "rust"
            [line] = highlight_code("const x = 1;", "typescript", ui.theme)
            assert "const" in line and line != "const x = 1;"
            assert highlight_code("const x = 1;", get_language_from_path("/a.odd"), ui.theme) == ["const x = 1;"]
            ui.notify("shown", "info")

        @pi.message_renderer("my-extension")
        def render(message, options, theme):
            return theme.fg("accent", f"[{message['customType']}] ") + message["content"]

        @pi.command("bye")
        async def bye(ctx, args):
            ctx.shutdown()
"""

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.fixture
def commanded(extended: Start, written: MakeExtension) -> Extended:
    return extended(written(COMMANDS), [MORE], has_session=True)


def test_the_examples_of_commands(commanded: Extended) -> None:
    one = commanded
    one.command("/my-cmd")
    assert one.notice().endswith(" entries")
    one.command("/state")
    assert [42, "Refactor auth module", "checkpoint-before-refactor", None] == json.loads(one.notice())
    one.command("/deploy staging")
    assert "Deploying: staging" == one.notice()
    one.command("/lists")
    assert one.notice().startswith("event 1 ")
    one.command("/providers")
    assert "True True" == one.notice()
    one.begin(f"/images {PNG}")
    one.pi.wait({"type": "agent_settled"})
    assert PNG in json.dumps(one.pi.llm.requests[-1].body)
    assert base64.b64decode(PNG)
    one.begin("/message")
    one.pi.wait({"type": "agent_settled"})
    assert "Message text" in one.user_messages
    one.command("/compact-it")
    assert one.notice().startswith("Compaction ")
    assert [] == one.errors


def test_the_examples_of_the_interface(commanded: Extended) -> None:
    one = commanded
    one.begin("/dialogs")
    one.reply(one.asked("select"), value="B")
    one.reply(one.asked("confirm"), confirmed=True)
    one.reply(one.asked("input"), value="name")
    one.reply(one.asked("editor"), value="edited")
    assert ["B", True, "name", "edited", False] == json.loads(one.notice())
    one.command("/shown")
    assert "Failed: Theme switching not supported in RPC mode" == one.notice()
    assert "shown" == one.notice()
    assert [] == one.errors
    one.command("/bye")
    assert 0 == one.pi.wait_exit()


def test_the_examples_of_session_control(commanded: Extended) -> None:
    one = commanded
    one.say("go")
    first = one.pi.ask("get_state")["sessionFile"]
    one.command("/copy")
    one.command("/again")
    messages = one.pi.ask("get_messages")["messages"]
    assert ["Context from previous session..."] == [each["content"][0]["text"] for each in messages]
    one.begin("/switch")
    request = one.asked("select")
    assert first in request["options"]
    one.reply(request, value=first)
    one.pi.wait({"type": "response", "command": "prompt"})
    assert first == one.pi.ask("get_state")["sessionFile"]
    assert [] == one.errors


TOOLS = '''
    import dataclasses
    import json
    import tempfile
    from pathlib import Path

    from pinnace.extensions import (
        DEFAULT_MAX_BYTES, DEFAULT_MAX_LINES, ToolDefinition, ToolResult, Spawn, builtin, file_mutation, format_size,
        truncate_head,
    )

    def extension(pi):
        items = []

        @pi.on("session_start")
        async def restore(ctx, event):
            items.clear()
            for entry in ctx.session_manager.get_branch():
                if entry["type"] == "message" and entry["message"]["role"] == "toolResult":
                    if entry["message"]["toolName"] == "my_tool":
                        items[:] = (entry["message"].get("details") or {}).get("items", [])

        def prepare(args):
            if not isinstance(args, dict):
                return args
            if isinstance(args.get("oldAction"), str) and args.get("action") is None:
                rest = {key: value for key, value in args.items() if key != "oldAction"}
                return {**rest, "action": args["oldAction"]}
            return args

        async def my_tool(ctx, params):
            if ctx.aborted:
                return {"content": [{"type": "text", "text": "Cancelled"}]}
            await ctx.update({"content": [{"type": "text", "text": "Working..."}], "details": {"progress": 50}})
            result = await pi.exec("echo", [params["action"]])
            items.append(result.stdout.strip())
            return {"content": [{"type": "text", "text": "Done"}], "details": {"items": list(items)}}

        pi.register_tool(
            ToolDefinition(
                name="my_tool",
                label="My Tool",
                description="What this tool does",
                prompt_snippet="Summarize or transform text according to action",
                prompt_guidelines=("Use this tool when the user asks to summarize previously generated text.",),
                parameters={
                    "type": "object",
                    "properties": {
                        "action": {"type": "string", "enum": ["list", "add"]},
                        "text": {"type": "string"},
                    },
                    "required": ["action"],
                },
                prepare_arguments=prepare,
                execute=my_tool,
            )
        )

        @pi.tool
        async def fails(ctx, value: str) -> str:
            """Fail."""
            raise ValueError(f"Invalid input: {value}")

        @pi.tool
        async def replace(ctx, path: str, old_text: str, new_text: str):
            """Replace a text."""
            absolute = Path(ctx.cwd, path)
            async with file_mutation(absolute):
                current = absolute.read_text()
                absolute.write_text(current.replace(old_text, new_text))
            return {"content": [{"type": "text", "text": f"Updated {path}"}], "details": {}}

        @pi.tool
        async def long(ctx):
            """Print much."""
            output = "line\\n" * 3000
            truncation = truncate_head(output, max_lines=DEFAULT_MAX_LINES, max_bytes=DEFAULT_MAX_BYTES)
            result = truncation.content
            if truncation.truncated:
                result += f"\\n\\n[Output truncated: {truncation.output_lines} of {truncation.total_lines} lines"
                result += f" ({format_size(truncation.output_bytes)} of {format_size(truncation.total_bytes)}).]"
            return {"content": [{"type": "text", "text": result}]}

        local = builtin.read()

        async def read(ctx, params):
            class Remote:
                async def read_file(self, path):
                    return b"from far away"

                async def access(self, path):
                    return None

            if params["path"].startswith("far:"):
                return ToolResult("from far away")
            return await local.execute(ctx, params)

        pi.register_tool(dataclasses.replace(local, execute=read))

        def hook(spawn):
            return Spawn(f"echo $CI\\n{spawn.command}", spawn.cwd, {**spawn.env, "CI": "1"})

        pi.register_tool(builtin.bash(spawn_hook=hook))

        async def edit(ctx, params):
            return {
                "content": [{"type": "text", "text": f"Applying {len(params['edits'])} edit block(s)"}],
                "details": {},
            }

        def prepare_edit(args):
            given = dict(args)
            if not isinstance(given.get("oldText"), str) or not isinstance(given.get("newText"), str):
                return args
            block = {"oldText": given.pop("oldText"), "newText": given.pop("newText")}
            return {**given, "edits": [*(given.get("edits") or []), block]}

        block = {"type": "object", "properties": {"oldText": {"type": "string"}, "newText": {"type": "string"}}}
        pi.register_tool(
            ToolDefinition(
                name="edit",
                label="Edit",
                description="Edit a single file using exact text replacement",
                parameters={
                    "type": "object",
                    "properties": {"path": {"type": "string"}, "edits": {"type": "array", "items": block}},
                    "required": ["path", "edits"],
                },
                prepare_arguments=prepare_edit,
                execute=edit,
            )
        )

        @pi.command("reload-runtime", description="Reload extensions, skills, prompts, and themes")
        async def reload(ctx, args):
            await ctx.reload()
            return

        @pi.tool(name="reload_runtime", description="Reload extensions, skills, prompts, and themes")
        async def reload_runtime(ctx):
            pi.send_user_message("/reload-runtime", deliver_as="followUp")
            return {"content": [{"type": "text", "text": "Queued /reload-runtime as a follow-up command."}]}
'''


def test_the_examples_of_tools(extended: Start, written: MakeExtension) -> None:
    wanted: list[tuple[str, dict[str, object]]] = [
        ("my_tool", {"oldAction": "add"}),
        ("fails", {"value": "x"}),
        ("replace", {"path": "a.txt", "old_text": "b", "new_text": "c"}),
        ("long", {}),
        ("read", {"path": "far:away"}),
        ("read", {"path": "a.txt"}),
        ("bash", {"command": "echo ran"}),
        ("edit", {"path": "a.txt", "oldText": "a", "newText": "b"}),
    ]
    one = extended(written(TOOLS), [*(call(name, **arguments) for name, arguments in wanted), DONE])
    (one.work / "a.txt").write_text("abc")
    one.say("go")

    texts = [text for text, _ in one.ends]
    assert ["Done", "ValueError: Invalid input: x", "Updated a.txt"] == texts[:3]
    assert "[Output truncated: 2000 of 3000 lines" in texts[3] or "[Output truncated: 2000 of 3001 lines" in texts[3]
    assert ["from far away", "acc", "1\nran\n", "Applying 1 edit block(s)"] == texts[4:]
    assert [False, True, False, False, False, False, False, False] == [is_error for _, is_error in one.ends]
    assert "Summarize or transform text according to action" in one.prompt
    [update] = one.pi.found({"type": "tool_execution_update", "toolName": "my_tool"})
    assert {"progress": 50} == update["partialResult"]["details"]


def test_a_command_that_a_tool_queues_runs_when_the_agent_has_settled(extended: Start, written: MakeExtension) -> None:
    one = extended([written(TOOLS), written(_LOADED)], [call("reload_runtime"), {"text": "done"}, {"text": "more"}])
    assert "startup" == one.notice()
    one.say("go")

    assert "reload" == one.notice()
    assert [("Queued /reload-runtime as a follow-up command.", False)] == one.ends
    assert ["go"] == one.user_messages
    one.say("and now")
    assert [] == one.errors


_LOADED = """
    def extension(pi):
        pi.on("session_start")(lambda ctx, event: ctx.ui.notify(event.reason))
"""


def test_a_queued_command_does_not_run_after_an_abort_and_is_reported(extended: Start, written: MakeExtension) -> None:
    text = """
        def extension(pi):
            pi.command("later")(lambda ctx, args: ctx.ui.notify("ran"))

            @pi.tool
            async def queue(ctx) -> str:
                \"\"\"Queue a command.\"\"\"
                pi.send_user_message("/later now", deliver_as="follow_up", expand=True)
                return "queued"
    """
    one = extended(written(text), [call("queue"), {"text": ["begin", {"gate": "g"}, "never"]}, DONE])
    one.begin("go")
    one.pi.llm.wait_reached("g")
    one.pi.ask("abort")

    error = one.pi.wait({"type": "extension_error"}, since=0)
    assert ("send_user_message", "/later was queued and was not run: the run was aborted") == (
        error["event"],
        error["error"],
    )
    assert [] == one.frames("notify")


def test_a_command_goes_to_the_model_as_text_where_the_author_says_so(extended: Start, written: MakeExtension) -> None:
    text = """
        def extension(pi):
            pi.command("later")(lambda ctx, args: ctx.ui.notify("ran"))

            @pi.tool
            async def queue(ctx) -> str:
                \"\"\"Queue a text.\"\"\"
                pi.send_user_message("/later now", deliver_as="follow_up", expand=False)
                return "queued"
    """
    one = extended(written(text), [call("queue"), MORE])
    one.say("go")

    assert ["go", "/later now"] == one.user_messages
    assert [] == one.frames("notify")


def test_a_session_with_another_model_fires_model_select_restore(
    extended: Start, written: MakeExtension, tmp_path: Path
) -> None:
    text = """
        def extension(pi):
            @pi.on("model_select")
            async def model(ctx, event):
                ctx.ui.notify(f"{event.source}: {(event.previous_model or {}).get('id')} -> {event.model['id']}")
    """
    one = extended(written(text), [MORE], has_session=True)
    one.say("go")
    first = one.pi.ask("get_state")["sessionFile"]
    one.pi.ask("new_session")
    one.pi.ask("set_model", provider="fake", modelId="m2")
    assert "set: m1 -> m2" == one.notice()
    one.pi.ask("switch_session", sessionPath=first)

    assert "restore: m2 -> m1" == one.notice()
