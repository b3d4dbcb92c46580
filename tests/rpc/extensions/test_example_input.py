"""What the user says, changed before the model hears it, in the real program."""

from tests.rpc.extensions.conftest import EXAMPLES, MakeExtension, Start

from pinnace_campaigns.trials.one_shot import OneShotStarter

NAME = "input_transform.py"
TEXT = {"text": "ok"}


def test_a_prefix_is_rewritten(extended: Start) -> None:
    one = extended(NAME, [TEXT])
    one.say("?quick what is a pinnace")

    assert ["Answer in one sentence: what is a pinnace"] == one.user_messages


def test_images_are_kept_when_the_text_is_rewritten(extended: Start) -> None:
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
    one = extended(NAME, [TEXT])
    one.accepted(one.begin("?quick what is this", images=[{"type": "image", "data": pixel, "mimeType": "image/png"}]))
    one.pi.wait({"type": "agent_settled"})

    blocks = one.pi.llm.requests[-1].body["messages"][-1]["content"]
    assert ["text", "image_url"] == [block["type"] for block in blocks]


def test_a_handled_message_starts_no_run_and_stores_nothing(extended: Start) -> None:
    one = extended(NAME, [TEXT])
    one.command("ping")

    assert "pong" == one.notice()
    assert [] == one.pi.llm.requests
    assert [] == one.pi.ask("get_messages")["messages"]


def test_data_on_the_bus_reaches_other_extensions(extended: Start, written: MakeExtension) -> None:
    speaker = written(
        """
        def extension(pi):
            @pi.command("speak")
            def speak(ctx, args):
                pi.send_user_message(args)
        """
    )
    one = extended([NAME, speaker], [TEXT])
    one.begin("/speak ?quick hello")
    one.pi.wait({"type": "agent_settled"})

    assert ["?quick hello"] == one.user_messages


def test_skills_and_templates_are_seen_as_they_were_typed(extended: Start, written: MakeExtension) -> None:
    watcher = written(
        """
        def extension(pi):
            @pi.on("input")
            def seen(ctx, event):
                ctx.ui.notify(f"{event.source}: {event.text}")
        """
    )
    one = extended(watcher, [TEXT])
    (one.pi.home.agent_dir / "prompts").mkdir()
    (one.pi.home.agent_dir / "prompts" / "ask.md").write_text("Expanded: $1")
    again = extended(watcher, again=one.pi)
    again.say("/ask me")

    assert "rpc: /ask me" == again.notice()
    assert ["Expanded: me"] == again.user_messages


def test_a_handler_that_fails_changes_nothing(extended: Start, written: MakeExtension) -> None:
    broken = written(
        """
        def extension(pi):
            @pi.on("input")
            def broken(ctx, event):
                raise ValueError("broken")
        """
    )
    one = extended([broken, NAME], [TEXT])
    one.say("?quick hello")

    assert ["Answer in one sentence: hello"] == one.user_messages
    assert [("input", "ValueError: broken (written_1.py, line 5)")] == one.errors


def test_queued_messages_are_transformed_too(extended: Start) -> None:
    one = extended(NAME, [{"chunks": [{"text": "begun"}, {"gate": "g"}]}, TEXT])
    one.begin("hello")
    one.pi.llm.wait_reached("g")
    one.pi.ask("steer", message="?quick and this")
    one.pi.llm.release("g")
    one.pi.wait({"type": "agent_settled"})

    assert ["hello", "Answer in one sentence: and this"] == one.user_messages


def test_it_works_without_a_client(print_agent: OneShotStarter) -> None:
    one_shot = print_agent(["-p", "?quick hello", "-e", str(EXAMPLES / NAME)], [TEXT])

    assert (0, "ok\n", "") == one_shot.end()
    assert "Answer in one sentence: hello" in str(one_shot.asked)
