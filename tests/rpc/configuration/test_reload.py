"""`reload`: the user's files are read again, and the process and its session stay. Rules R-CFG-03 to R-CFG-05."""

import json
from pathlib import Path

from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

EXTENSION = """
def extension(pi):
    pi.command("{name}")(lambda ctx, args: None)
    pi.on("session_start")(lambda ctx, event: ctx.ui.notify(f"{name} {{event.reason}}"))
    pi.on("session_shutdown")(lambda ctx, event: ctx.ui.notify(f"{name} ends: {{event.reason}}"))
"""
AGAIN = """
    @pi.command("again")
    async def again(ctx, args):
        try:
            await ctx.reload()
        except RuntimeError as error:
            ctx.ui.notify(str(error))
"""
SLOW = """
import trio

async def extension(pi):
    await trio.sleep(0.05)
    pi.command("brought")(lambda ctx, args: ctx.ui.notify("brought"))
"""
HANGING = """
import trio

def extension(pi):
    @pi.on("session_start")
    async def begin(ctx, event):
        ctx.ui.notify("hangs")
        await trio.sleep_forever()
"""
LATER = {"error": {"status": 429, "body": {"error": {"message": "later"}}}}


def change(path: Path, **members: object) -> None:
    """Change members of a JSON file, which need not exist."""
    former = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**former, **members}))


def notices(pi: HomedAgent) -> list[str]:
    return [each["message"] for each in pi.found({"type": "extension_ui_request", "method": "notify"})]


def models(pi: HomedAgent) -> list[str]:
    return [each["id"] for each in pi.ask("get_available_models")["models"]]


def prompt_of(pi: HomedAgent) -> str:
    return str(json.loads(pi.llm.requests[-1].text)["messages"][0]["content"])


def test_what_the_files_say_now_is_current_and_the_session_stays(agent: AgentStarter) -> None:
    """Settings, models, context files, skills and templates are read again; what commands have chosen stays."""
    pi = agent([{"text": "hi"}, {"text": "hi"}, LATER, {"text": "at last"}], settings={"shellCommandPrefix": "A=1"})
    folder, cwd = pi.home.agent_dir, pi.home.work
    pi.say("go")
    pi.ask("set_steering_mode", mode="all")
    pi.ask("set_active_tools", names=["read"])
    before = pi.ask("get_state")
    assert "before the reload" not in prompt_of(pi)
    assert "" == pi.ask("bash", command="echo -n $B")["output"]

    catalog = json.loads((folder / "models.json").read_text())
    [provider] = catalog["providers"].values()
    provider["models"].append({**provider["models"][0], "id": "brought"})
    (folder / "models.json").write_text(json.dumps(catalog))
    change(
        folder / "settings.json",
        shellCommandPrefix="B=2",
        retry={"enabled": True, "baseDelayMs": 3},
        enabledModels=["fake/brought", "fake/m1"],
        steeringMode="one-at-a-time",
    )
    (cwd / "AGENTS.md").write_text("A word of after the reload.")
    (folder / "prompts").mkdir()
    (folder / "prompts" / "brought.md").write_text("the template")
    (folder / "skills" / "able").mkdir(parents=True)
    (folder / "skills" / "able" / "SKILL.md").write_text("---\nname: able\ndescription: is able\n---\nBe able.\n")
    assert {} == pi.ask("reload")

    assert "2" == pi.ask("bash", command="echo -n $B")["output"]
    assert "brought" in models(pi)
    assert {"brought", "skill:able"} <= {each["name"] for each in pi.ask("get_commands")["commands"]}
    assert before == pi.ask("get_state") | {"messageCount": before["messageCount"]}
    assert ["read"] == [each["name"] for each in pi.ask("get_tools")["tools"] if each["active"]]
    pi.say("/brought")
    assert "A word of after the reload." in prompt_of(pi)
    assert "the template" in pi.llm.requests[-1].text
    pi.say("again")
    assert 3 == pi.wait({"type": "auto_retry_start"}, since=0)["delayMs"]
    assert "brought" == pi.ask("cycle_model")["model"]["id"]


def test_a_reload_brings_replaces_and_drops_extensions(agent: AgentStarter) -> None:
    """A process without extensions gets some, one is replaced, one that fails is reported, and all go."""
    pi = agent([{"text": "hi"}])
    folder = pi.home.agent_dir / "extensions"
    one, two = folder / "one.py", folder / "two.py"

    def commands() -> list[str]:
        return [each["name"] for each in pi.ask("get_commands")["commands"]]

    pi.say("go")
    folder.mkdir()
    one.write_text(EXTENSION.format(name="first"))
    pi.ask("reload")
    assert ["first"] == commands()
    assert ["first reload"] == notices(pi)

    one.write_text(EXTENSION.format(name="second"))
    two.write_text("def extension(pi:\n")
    pi.ask("reload")
    assert ["second"] == commands()
    assert ["first reload", "first ends: reload", "second reload"] == notices(pi)
    assert [str(two), "<runtime>"] == [each["extensionPath"] for each in pi.found({"type": "extension_error"})]

    one.unlink()
    two.unlink()
    pi.ask("reload")
    assert [] == commands()
    assert "second ends: reload" == notices(pi)[-1]
    assert 2 == pi.ask("get_state")["messageCount"]


def test_a_mistake_in_a_file_changes_nothing_and_is_named(agent: AgentStarter, tmp_path: Path) -> None:
    """The error names the file, the field and what was expected; the extensions go on, and a mended file is used."""
    extension = tmp_path / "old.py"
    extension.write_text(EXTENSION.format(name="old") + AGAIN)
    pi = agent([{"text": "hi"}], "-e", str(extension))
    folder = pi.home.agent_dir
    settings, auth, catalog = (folder / name for name in ("settings.json", "auth.json", "models.json"))
    former = {path: path.read_text() for path in (settings, catalog)}
    before = pi.ask("get_state")

    for path, text, named in (
        (
            settings,
            '{"retry": {"maxRetries": "many"}, "shellCommandPrefix": "B=2"}',
            "retry.maxRetries: must be a whole number",
        ),
        (settings, '{"limits": {"maxTurn": 3}}', "limits.maxTurn: "),
        (settings, "{", "settings.json: "),
        (catalog, '{"providers": {"fake": {"models": [{"id": 3}]}}}', "providers.fake."),
        (auth, "[]", "auth.json: "),
    ):
        path.write_text(text)
        refused = pi.request({"type": "reload"})
        assert (False, "invalid_configuration") == (refused["success"], refused.get("errorCode")), refused
        assert refused["error"].startswith(f"{path}: "), refused
        assert named in refused["error"], refused
        pi.ask("prompt", message="/again")  # as an extension learns of it
        assert notices(pi)[-1] == f"reload: {refused['error']}"
        path.write_text(former.get(path, "{}"))
    assert "" == pi.ask("bash", command="echo -n $B")["output"]
    assert ["old startup"] == [each for each in notices(pi) if each.startswith("old")]
    assert before == pi.ask("get_state") | {"messageCount": before["messageCount"]}

    pi.ask("reload")
    assert ["old startup", "old ends: reload", "old reload"] == [each for each in notices(pi) if each.startswith("old")]


def test_what_a_reload_brings_is_used_by_what_waits_behind_it(agent: AgentStarter) -> None:
    """A prompt that is sent in one write with the reload calls a command that the reload brings."""
    pi = agent([{"text": "hi"}])
    pi.ask("get_state")  # it has begun without extensions
    folder = pi.home.agent_dir / "extensions"
    folder.mkdir()
    (folder / "one.py").write_text(SLOW)
    prompt = {"id": "p", "type": "prompt", "message": "/brought"}
    pi.send_many([{"id": "r", "type": "reload"}, prompt, {"id": "s", "type": "get_state"}])

    assert pi.wait_response("r")["success"]
    assert "handled" == pi.wait_response("p")["data"]["disposition"]
    assert "brought" == notices(pi)[-1]


def test_an_abort_ends_handlers_that_hold_a_reload_up(agent: AgentStarter) -> None:
    pi = agent([{"text": "hi"}])
    pi.ask("get_state")  # it has begun without extensions
    folder = pi.home.agent_dir / "extensions"
    folder.mkdir()
    (folder / "one.py").write_text(HANGING)
    pi.send({"id": "r", "type": "reload"})
    pi.wait({"type": "extension_ui_request", "method": "notify"})
    pi.send({"id": "a", "type": "abort"})

    assert pi.wait_response("r")["success"]
    assert pi.wait_response("a")["success"]
    [error] = pi.found({"type": "extension_error"})
    assert "still running at an abort" in error["error"]
