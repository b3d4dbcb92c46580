"""A tool with state that follows the branch, at work in the real program."""

from tests.rpc.extensions.conftest import EXAMPLES, Extended, Start, call

from pinnace_campaigns.trials.one_shot import OneShotStarter
from pinnace_fuzz.script import Scripted

NAME = "todo.py"
DONE: Scripted = {"text": "done"}


def add(text: str) -> list[Scripted]:
    return [call("todo", action="add", text=text), DONE]


def shown(one: Extended) -> str:
    one.command("/todos")
    return one.notice()


def users(one: Extended) -> list[str]:
    """The entries of what the user has said."""
    return [each["entryId"] for each in one.pi.ask("get_fork_messages")["messages"]]


def test_the_model_keeps_a_list(extended: Start) -> None:
    script = [*add("write"), call("todo", action="add", text="test"), call("todo", action="toggle", id=1), DONE]
    one = extended(NAME, [*script, call("todo", action="list"), DONE, call("todo", action="clear"), DONE])
    one.say("one")
    one.say("two")
    assert "[x] #1 write\n[ ] #2 test" == shown(one)
    one.say("three")
    one.say("four")

    assert ("[x] #1 write\n[ ] #2 test", False) == one.ends[-2]
    assert "Nothing to do." == shown(one)
    assert "todo" in one.declared
    assert "Keep a list of things to do" in one.prompt
    assert "toggle each item when it is done" in one.prompt


def test_invalid_arguments_are_explained_to_the_model(extended: Start) -> None:
    one = extended(
        NAME, [call("todo", action="toggle", id=7), call("todo", action="add"), call("todo", action="x"), DONE]
    )
    one.say("go")

    first, second, third = one.ends
    assert ("there is no item #7", True) == first
    assert ("add needs a text", True) == second
    assert third[1]
    assert 'Validation failed for tool "todo"' in third[0]
    assert [] == one.errors


def test_arguments_are_coerced_before_they_are_checked(extended: Start) -> None:
    one = extended(NAME, [*add("write"), call("todo", action="toggle", id="1", text=None), DONE])
    one.say("one")
    one.say("two")

    assert ("[x] #1 write", False) == one.ends[-1]


def test_a_fork_brings_the_older_list_back(extended: Start) -> None:
    one = extended(NAME, [*add("write"), *add("test"), DONE], has_session=True)
    one.say("one")
    one.say("two")
    one.pi.ask("fork", entryId=users(one)[1])

    assert "[ ] #1 write" == shown(one)


def test_a_restart_keeps_the_list(extended: Start) -> None:
    one = extended(NAME, add("write"), has_session=True)
    one.say("one")
    one.pi.check_end()
    path = next(one.pi.home.sessions.rglob("*.jsonl"))
    again = extended(NAME, again=one.pi)
    again.pi.ask("switch_session", sessionPath=str(path))

    assert "[ ] #1 write" == shown(again)


def test_a_new_session_begins_with_nothing(extended: Start) -> None:
    one = extended(NAME, add("write"), has_session=True)
    one.say("one")
    one.pi.ask("new_session")

    assert "Nothing to do." == shown(one)


def test_a_reload_keeps_the_list(extended: Start) -> None:
    one = extended([NAME, "reload_command.py"], add("write"))
    one.say("one")
    one.command("/reload-runtime")

    assert "[ ] #1 write" == shown(one)


def test_going_back_in_the_tree_gives_the_older_list(extended: Start, written: object) -> None:
    assert callable(written)
    navigator = written(
        """
        def extension(pi):
            @pi.command("go")
            async def go(ctx, args):
                await ctx.navigate_tree(args)
        """
    )
    one = extended([NAME, navigator], [*add("write"), *add("test")])
    one.say("one")
    first_end = one.pi.ask("get_entries")["leafId"]
    one.say("two")
    assert "[ ] #1 write\n[ ] #2 test" == shown(one)
    one.command(f"/go {first_end}")

    assert "[ ] #1 write" == shown(one)


def test_it_works_without_a_client(print_agent: OneShotStarter) -> None:
    one_shot = print_agent(["-p", "go", "-e", str(EXAMPLES / NAME)], add("write"))

    assert (0, "done\n", "") == one_shot.end()
    assert "[ ] #1 write" in str(one_shot.llm.requests[-1].body["messages"][-1]["content"])
