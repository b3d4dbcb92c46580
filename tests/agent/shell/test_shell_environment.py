"""What commands see of the environment."""

from pinnace_agent.config.credentials.known_keys import key_variables_of
from pinnace_agent.engine.run_job import NO_MODEL
from pinnace_agent.redaction.policy import Secret
from pinnace_agent.session.conversation import Session
from pinnace_agent.shell.environment import shell_environment, tool_environment


def test_commands_see_that_an_agent_runs_them() -> None:
    env = shell_environment({"PATH": "/bin"})

    assert {"PATH": "/bin", "AI_AGENT": "pi", "PI_CODING_AGENT": "true"} == env


def test_what_is_hidden_is_left_out() -> None:
    assert "OPENAI_API_KEY" not in shell_environment({"OPENAI_API_KEY": "sk"}, {"OPENAI_API_KEY"})


def test_the_variables_of_every_provider_are_hidden() -> None:
    hidden = key_variables_of((), ())

    names = (
        "OPENAI_API_KEY ANTHROPIC_API_KEY ANTHROPIC_OAUTH_TOKEN GEMINI_API_KEY HF_TOKEN COPILOT_GITHUB_TOKEN "
        "GOOGLE_API_KEY GOOGLE_GENERATIVE_AI_API_KEY CLAUDE_CODE_OAUTH_TOKEN"
    )
    assert set(names.split()) <= hidden


def test_what_files_name_in_the_place_of_a_key_is_hidden_too() -> None:
    keys = map(Secret, ["$MINE", "a-${OTHER}-$$NO", "BARE_NAME", "sk-literal", "!echo $COMMAND"])
    hidden = key_variables_of(keys, [Secret("Bearer $HEADER")]) - key_variables_of((), ())

    assert {"MINE", "OTHER", "BARE_NAME", "HEADER"} == hidden


def test_what_every_program_needs_is_never_hidden() -> None:
    assert not {"HOME", "USER", "PATH"} & key_variables_of([Secret("$HOME")], [Secret("$USER"), Secret("${PATH}")])


def test_a_command_of_the_model_sees_its_session_and_none_of_an_agent_around_it() -> None:
    session = Session("/work")
    session.model, session.thinking_level = {**NO_MODEL, "provider": "p", "id": "m"}, "high"
    stale = {"PI_SESSION_FILE": "stale", "PI_SESSION_ID": "stale", "OTHER": "kept"}

    env = tool_environment(stale, session)
    assert {
        "OTHER": "kept",
        "PI_SESSION_ID": session.id,
        "PI_REASONING_LEVEL": "high",
        "PI_PROVIDER": "p",
        "PI_MODEL": "m",
    } == env
