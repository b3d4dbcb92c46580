"""Each member of `ctx` and `pi` in the real program."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.rpc.conftest import COMMAND
from tests.rpc.extensions.conftest import Extended, MakeExtension, Start
from tests.rpc.sandbox.test_sandboxed_tools import mechanisms

from pinnace_campaigns.trials.one_shot import OneShotStarter

DONE: dict[str, object] = {"text": "done"}
MORE: dict[str, object] = {**DONE, "repeat": -1}

# A command that evaluates what stands behind it, with `ctx` and `pi`, and shows the value as JSON.
SEER = """
import inspect
import json


def extension(pi):
    @pi.command("see")
    async def see(ctx, args):
        value = eval(args, {"ctx": ctx, "pi": pi})
        if inspect.isawaitable(value):
            value = await value
        ctx.ui.notify(json.dumps(value, default=str))
"""
See = Callable[..., object]


def see(one: Extended, expression: str) -> object:
    """Evaluate an expression in an extension; what is no JSON comes as a text."""
    one.begin(f"/see {expression}")
    return json.loads(one.notice())


@pytest.fixture
def seer(extended: Start, written: MakeExtension) -> Callable[..., Extended]:
    path = written(SEER)
    return lambda *arguments, **options: extended(path, *arguments, **options)


def test_the_values_of_a_context_when_idle(seer: Callable[..., Extended]) -> None:
    one = seer([MORE])
    assert [True, "rpc", str(one.work), True, False, True] == see(
        one,
        "[ctx.has_ui, ctx.mode, str(ctx.cwd), ctx.is_idle(), ctx.has_pending_messages(), ctx.is_project_trusted()]",
    )
    assert ["m1", "off", []] == see(one, "[ctx.model['id'], ctx.thinking_level, list(ctx.scoped_models)]")
    assert [False, False] == see(one, "[ctx.aborted, ctx.cancel_scope is None]")
    assert "tools" in str(see(one, "ctx.get_system_prompt()")).lower()
    usage = see(one, "ctx.get_context_usage()._asdict()")
    assert isinstance(usage, dict)
    assert 128_000 == usage["context_window"]


def test_the_session_as_it_is_read(seer: Callable[..., Extended]) -> None:
    one = seer([MORE], has_session=True)
    one.say("hello")
    state = one.pi.ask("get_state")
    entries = one.pi.ask("get_entries")

    assert [state["sessionId"], state["sessionFile"], str(one.work)] == see(
        one, "[getattr(ctx.session_manager, f'get_{name}')() for name in ('session_id', 'session_file', 'cwd')]"
    )
    assert entries["leafId"] == see(one, "ctx.session_manager.get_leaf_id()")
    assert [each["id"] for each in entries["entries"]] == see(
        one, "[each['id'] for each in ctx.session_manager.get_entries()]"
    )
    assert ["user", "assistant"] == see(
        one, "[each['message']['role'] for each in ctx.session_manager.get_branch() if each['type'] == 'message']"
    )
    assert ["user", "assistant"] == see(
        one, "[each['role'] for each in ctx.session_manager.build_session_context()['messages']]"
    )
    assert "session" == see(one, "ctx.session_manager.get_header()['type']")
    assert 1 == see(one, "len(ctx.session_manager.get_tree())")


def test_the_models_that_there_are(seer: Callable[..., Extended]) -> None:
    one = seer()
    assert ["m1", "m2"] == see(
        one, "[each['id'] for each in ctx.model_registry.available() if each['provider'] == 'fake']"
    )
    assert "Fake Two" == see(one, "ctx.model_registry.find('fake', 'm2')['name']")
    assert ["sk-fake", {}] == see(one, "ctx.model_registry.api_key_and_headers(ctx.model)")


def test_the_names_of_the_commands(seer: Callable[..., Extended], written: MakeExtension) -> None:
    one = seer()
    assert ["read", "bash", "edit", "write"] == see(one, "pi.get_active_tools()")
    tools = see(one, "{each.name: each.source_info['source'] for each in pi.get_all_tools()}")
    assert isinstance(tools, dict)
    assert {"read", "grep", "bash"} <= tools.keys()
    assert {"builtin"} == set(tools.values())
    assert [["see", "extension"]] == see(one, "[[each.name, each.source] for each in pi.get_commands()]")
    flags = see(one, "{each.name: each.is_read_only for each in pi.get_all_tools()}")
    assert isinstance(flags, dict)
    assert {"read", "grep", "find", "ls"} == {name for name, is_read_only in flags.items() if is_read_only}


def test_the_model_and_the_level_are_changed(seer: Callable[..., Extended]) -> None:
    one = seer()
    assert see(one, "pi.set_model(ctx.model_registry.find('fake', 'm2'))") is True
    assert see(one, "pi.set_thinking_level('high')") is None
    state = one.pi.ask("get_state")

    assert ("m2", "high") == (state["model"]["id"], state["thinkingLevel"])
    assert ["m2", "high"] == see(one, "[ctx.model['id'], pi.get_thinking_level()]")


def test_the_name_labels_and_entries(seer: Callable[..., Extended]) -> None:
    one = seer([MORE])
    one.say("hello")
    see(one, "setattr(pi, 'session_name', 'the voyage')")
    entry = see(one, "pi.append_entry('mine', {'a': 1})")
    see(one, "pi.set_label(ctx.session_manager.get_leaf_id(), 'here')")
    found = {each["id"]: each for each in one.pi.ask("get_entries")["entries"]}

    assert "the voyage" == one.pi.ask("get_state")["sessionName"]
    assert ("custom", "mine", {"a": 1}) == tuple(found[entry][name] for name in ("type", "customType", "data"))
    assert "here" == see(one, f"ctx.session_manager.get_label({entry!r})")
    assert entry == one.pi.wait({"type": "entry_appended"}, since=0)["entry"]["id"]


def test_a_message_is_stored_and_starts_a_run_only_if_it_is_to(seer: Callable[..., Extended]) -> None:
    one = seer([MORE])
    see(one, "pi.send_message('note', 'aside')")
    assert [] == one.pi.llm.requests
    see(one, "pi.send_message('note', 'answer me', trigger_turn=True)")
    one.pi.wait({"type": "agent_settled"}, since=0)

    assert ["aside", "answer me"] == one.user_messages
    assert ["note", "note"] == [each["customType"] for each in one.pi.ask("get_messages")["messages"][:2]]


def test_something_is_said_as_the_user(seer: Callable[..., Extended]) -> None:
    one = seer([MORE])
    see(one, "pi.send_user_message('from the extension')")
    one.pi.wait({"type": "agent_settled"}, since=0)

    assert ["from the extension"] == one.user_messages


def test_messages_during_a_run_are_queued_or_rejected(seer: Callable[..., Extended]) -> None:
    one = seer([{"chunks": [{"text": "begun"}, {"gate": "g"}]}, MORE])
    one.begin("go")
    one.pi.llm.wait_reached("g")
    assert [False, False] == see(one, "[ctx.is_idle(), ctx.cancel_scope is None]")
    see(one, "pi.send_user_message('refused')")
    see(one, "pi.send_user_message('steering', deliver_as='steer')")
    see(one, "pi.send_user_message('following', deliver_as='follow_up')")
    assert True is see(one, "ctx.has_pending_messages()")
    one.pi.llm.release("g")
    one.pi.wait({"type": "agent_settled"})

    assert ["go", "steering", "following"] == one.user_messages
    assert ["send_user_message"] == [event for event, _ in one.errors]


def test_a_run_is_aborted(seer: Callable[..., Extended]) -> None:
    one = seer([{"chunks": [{"text": "begun"}, {"gate": "g"}]}])
    one.begin("go")
    one.pi.llm.wait_reached("g")
    one.begin("/see ctx.abort()")

    assert one.pi.wait({"type": "agent_settled"})["aborted"]


def test_a_compaction_is_started(seer: Callable[..., Extended]) -> None:
    one = seer([MORE], settings={"compaction": {"keepRecentTokens": 1}})
    one.say("one")
    one.say("two")
    see(one, "ctx.compact('be brief')")
    end = one.pi.wait({"type": "compaction_end"}, since=0)

    assert "done" in end["result"]["summary"]


def test_the_end_is_asked_for_and_comes_when_all_is_quiet(seer: Callable[..., Extended]) -> None:
    one = seer(is_checked=False)
    one.begin("/see ctx.shutdown()")

    assert 0 == one.pi.wait_exit()


def test_programs_are_run(seer: Callable[..., Extended]) -> None:
    one = seer(env={"GOOGLE_API_KEY": "sk-google", "OPENAI_API_KEY": "sk-openai"})
    assert ["hello\n", "", 0, False, False] == see(one, "pi.exec('echo', 'hello')")
    assert [f"{one.work}\n", "", 0, False, False] == see(one, "pi.exec('pwd')")
    assert ["", "", 1, False, False] == see(one, "pi.exec('printenv', 'GOOGLE_API_KEY', 'OPENAI_API_KEY')")
    result = see(one, "pi.exec('not-a-program')")
    assert isinstance(result, list)
    assert (1, True) == (result[2], "not-a-program" in result[1])


def test_settings_are_read(seer: Callable[..., Extended]) -> None:
    one = seer(settings={"compaction": {"keepRecentTokens": 7}})

    assert 7 == see(one, "pi.get_settings()['compaction']['keepRecentTokens']")


def test_a_provider_comes_and_goes(seer: Callable[..., Extended]) -> None:
    one = seer()
    model = "{'id': 'x1', 'name': 'X', 'reasoning': False, 'input': ['text'], 'contextWindow': 1000}"
    config = f"base_url='http://127.0.0.1:9/v1', api='openai-completions', api_key='k', models=[{model}]"
    see(one, f"pi.register_provider('extra', {config})")
    assert "x1" in [each["id"] for each in one.pi.ask("get_available_models")["models"]]
    see(one, "pi.unregister_provider('extra')")

    assert "x1" not in [each["id"] for each in one.pi.ask("get_available_models")["models"]]


def test_an_invalid_provider_is_reported(extended: Start, written: MakeExtension) -> None:
    path = written("def extension(pi):\n    pi.register_provider('odd', models=[{'id': 7}])\n")
    one = extended(path, [DONE])
    one.say("hello")

    assert ["register_provider"] == [event for event, _ in one.errors]


# Commands.


def test_a_command_waits_until_the_agent_is_idle(seer: Callable[..., Extended]) -> None:
    one = seer([{"chunks": [{"text": "begun"}, {"gate": "g"}]}])
    one.begin("go")
    one.pi.llm.wait_reached("g")
    waiting = one.begin("/see ctx.wait_for_idle()")
    one.pi.ask("get_state")
    assert [] == one.frames("notify")
    one.pi.llm.release("g")
    one.accepted(waiting)

    assert "null" == one.notice()
    assert one.pi.found({"type": "agent_settled"})


@pytest.mark.parametrize("method", ["new_session", "fork", "switch_session"])
def test_a_command_replaces_the_session_and_continues_there(
    extended: Start, written: MakeExtension, method: str
) -> None:
    text = f"""
        def extension(pi):
            @pi.command("replace")
            async def replace(ctx, args):
                async def there(new):
                    new.ui.notify(f"there: {{len(new.session_manager.get_entries())}}")
                    await new.send_user_message("hello there")
                result = await ctx.{method}(*([args] if args else []), with_session=there)
                try:
                    ctx.ui.notify(f"here: {{result.cancelled}}")
                except Exception as error:
                    print(type(error).__name__, flush=True)
    """
    one = extended(written(text), [MORE], has_session=True)
    one.say("one")
    state = one.pi.ask("get_state")
    arguments = {
        "new_session": "",
        "fork": one.pi.ask("get_fork_messages")["messages"][0]["entryId"],
        "switch_session": state["sessionFile"],
    }[method]
    one.command(f"/replace {arguments}")

    assert "there: " in one.notice()
    assert "hello there" == one.user_messages[-1]
    assert "StaleContextError" in one.pi.stderr_text
    assert (state["sessionId"] == one.pi.ask("get_state")["sessionId"]) is (method == "switch_session")


def test_a_new_session_can_be_filled_before_it_begins(extended: Start, written: MakeExtension) -> None:
    text = """
        def extension(pi):
            @pi.command("fresh")
            async def fresh(ctx, args):
                def setup(session):
                    session.set_name("filled")
                    session.append_custom("mine", {"a": 1})
                    blocks = [{"type": "text", "text": "before"}]
                    session.append_message({"role": "user", "content": blocks, "timestamp": 1})
                await ctx.new_session(setup=setup)
    """
    one = extended(written(text), [MORE])
    one.command("/fresh")
    one.say("hello")

    assert ["before", "hello"] == one.user_messages
    assert "filled" == one.pi.ask("get_state")["sessionName"]


def test_a_command_goes_elsewhere_in_the_session(seer: Callable[..., Extended]) -> None:
    one = seer([MORE])
    one.say("one")
    leaf = one.pi.ask("get_entries")["leafId"]
    one.say("two")
    see(one, f"ctx.navigate_tree({leaf!r}, label='back here')")
    one.say("three")

    assert ["one", "three"] == one.user_messages
    assert "back here" == see(one, f"ctx.session_manager.get_label({leaf!r})")


def test_the_parts_of_the_system_prompt_are_in_the_event(seer: Callable[..., Extended]) -> None:
    assert isinstance(see(seer(), "dict(ctx.get_system_prompt_options())"), dict)


def test_commands_are_listed_and_refused_where_they_can_not_be(extended: Start, written: MakeExtension) -> None:
    command = 'pi.command("twice", description="One of {0}")(lambda ctx, args: ctx.ui.notify("{0}" + args))'
    text = f"def extension(pi):\n    {command}\n"
    paths = [written(text.replace("{0}", name), f"{name}.py") for name in "ab"]
    one = extended(paths, [{"chunks": [{"text": "begun"}, {"gate": "g"}]}])
    commands = {each["name"]: each for each in one.pi.ask("get_commands")["commands"]}
    assert ["twice:1", "twice:2"] == list(commands)
    assert ("extension", "One of a", str(paths[0])) == (
        commands["twice:1"]["source"],
        commands["twice:1"]["description"],
        commands["twice:1"]["sourceInfo"]["path"],
    )
    one.begin("go")
    one.pi.llm.wait_reached("g")
    one.command("/twice:2  as it is ")
    assert "b as it is " == one.notice()
    for command in ("steer", "follow_up"):
        assert not one.pi.request({"type": command, "message": "/twice:1"})["success"]
    one.pi.llm.release("g")
    one.pi.wait({"type": "agent_settled"})

    assert ["go"] == one.user_messages


def test_in_print_mode_a_context_has_no_user(print_agent: OneShotStarter, written: MakeExtension) -> None:
    text = 'def extension(pi):\n    pi.command("who")(lambda ctx, args: print(ctx.mode, ctx.has_ui, flush=True))\n'
    path = Path(written(text))
    for words, mode in ((["-p", "/who"], "print"), (["--mode", "json", "/who"], "json")):
        printed = print_agent([*words, "-e", str(path)]).end()
        assert 0 == printed.code
        assert f"{mode} False" in printed.err


def test_an_agent_that_an_extension_starts_has_no_more_rights(seer: Callable[..., Extended]) -> None:
    """Those of now, and trust for the session's own folder alone."""
    limits = ("--max-turns", "3", "--max-cost", "1.5")
    one = seer([], "--offline", "--tool-approval", "ask", *limits)
    one.pi.ask("set_tool_approval", mode="read-only")
    program = [*COMMAND[1:], "--mode", "rpc", "--tool-approval", "read-only"]

    assert [*program, "--approve", "--offline", *limits] == see(one, "ctx.agent_command()[1:]")
    assert [*program, "--no-approve", "--offline", *limits] == see(one, "ctx.agent_command('/')[1:]")


@mechanisms
def test_a_sandbox_keeps_the_agents_that_an_extension_starts_in_its_folder(
    seer: Callable[..., Extended], mechanism: str
) -> None:
    one = seer([], "--sandbox", "workspace-write", settings={"sandbox": {"mechanism": mechanism}})
    (one.work / "inside").mkdir()
    (one.work / "link").symlink_to("/")

    words = see(one, "ctx.agent_command('inside')")
    assert isinstance(words, list)
    assert ["--sandbox", "workspace-write", "--sandbox-network", "off"] == words[words.index("--sandbox") :][:4]
    for folder in ("..", "/", "link", "inside/../.."):
        one.begin(f"/see ctx.agent_command({folder!r})")
        one.pi.wait({"type": "extension_error"})
        assert "cwd: with a sandbox an agent works within" in one.errors[-1][1]
