"""The policy of a sandbox: flags, the user's settings, a project's. R-SBX-02."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.config.sandbox_settings import (
    SANDBOX_ESCALATIONS,
    SANDBOX_MODES,
    SANDBOX_SWITCH,
    SandboxMode,
    SandboxSettings,
    SandboxSwitch,
)
from pinnace_agent.sandbox.policy import SandboxPolicy, folder_refusal, ignored_settings, is_as_strict, policy_of

PATHS: st.SearchStrategy[tuple[str, ...]] = st.sampled_from([(), ("/a",), ("/b", "/a"), ("~/c",), ("/a", "/b", "~/c")])
SETTINGS = st.builds(
    SandboxSettings,
    mode=st.none() | st.sampled_from(SANDBOX_MODES),
    network=st.none() | st.sampled_from(SANDBOX_SWITCH),
    writable=PATHS,
    readable=PATHS,
    hide=PATHS,
    unix_sockets=st.none() | st.booleans(),
    new_repository=st.none() | st.booleans(),
    environment=st.lists(st.sampled_from(["A", "B*"]), max_size=2).map(tuple),
    escalation=st.none() | st.sampled_from(SANDBOX_ESCALATIONS),
    mechanism=st.none() | st.just("bubblewrap"),
    is_enforced=st.none() | st.booleans(),
)
MODES: st.SearchStrategy[SandboxMode | None] = st.none() | st.sampled_from(SANDBOX_MODES)
SWITCHES: st.SearchStrategy[SandboxSwitch | None] = st.none() | st.sampled_from(SANDBOX_SWITCH)


@given(MODES, SWITCHES, SETTINGS, SETTINGS)
def test_a_project_never_loosens(
    mode: SandboxMode | None, network: SandboxSwitch | None, user: SandboxSettings, project: SandboxSettings
) -> None:
    alone = policy_of(mode, network, user)

    assert is_as_strict(policy_of(mode, network, user, project), alone)


@given(MODES, SWITCHES, SETTINGS, SETTINGS)
def test_flags_never_loosen_what_is_enforced(
    mode: SandboxMode | None, network: SandboxSwitch | None, user: SandboxSettings, project: SandboxSettings
) -> None:
    user = user._replace(is_enforced=True)
    fixed = policy_of(None, None, user)
    if fixed.is_enforced:
        assert is_as_strict(policy_of(mode, network, user, project), fixed)


@given(SETTINGS, SETTINGS)
def test_every_setting_that_is_reported_as_ignored_has_no_effect(
    user: SandboxSettings, project: SandboxSettings
) -> None:
    silent = project._replace(
        writable=(),
        readable=(),
        environment=(),
        mechanism=None,
        is_enforced=None,
        network="off" if project.network == "off" else None,
        unix_sockets=False if project.unix_sockets is False else None,
        new_repository=False if project.new_repository is False else None,
        escalation="never" if project.escalation == "never" else None,
    )

    assert () == ignored_settings(silent)
    assert policy_of(None, None, user, silent) == policy_of(None, None, user, project)


def test_a_flag_takes_precedence_over_the_settings() -> None:
    user = SandboxSettings(mode="read-only", network="on")

    assert SandboxPolicy("workspace-write", network=False) == policy_of("workspace-write", "off", user)
    assert not policy_of("off", None, user).is_active


def test_a_project_turns_a_sandbox_on() -> None:
    assert "read-only" == policy_of(None, None, SandboxSettings(), SandboxSettings(mode="read-only")).mode
    assert "read-only" == policy_of("off", None, SandboxSettings(), SandboxSettings(mode="read-only")).mode


LOOSER = {
    "mode": "workspace-write",
    "network": True,
    "writable": ("/w",),
    "readable": ("/r",),
    "hide": (),
    "unix_sockets": True,
    "new_repository": True,
    "environment": ("AWS_*",),
    "escalation": "ask",
}


@pytest.mark.parametrize("name", LOOSER)
def test_each_freedom_counts_in_the_comparison(name: str) -> None:
    strict = SandboxPolicy("read-only", hide=("/h",), escalation="never")
    loose = replace(strict, **{name: LOOSER[name]})  # type: ignore[arg-type]

    assert is_as_strict(strict, loose)
    assert not is_as_strict(loose, strict)


@pytest.mark.parametrize(
    ("folder", "place"),
    [
        ("/", "the root"),
        ("/home/user", "the home folder"),
        ("/home", "above the home folder"),
        ("/opt", "above the agent folder"),
        ("/opt/agent/sessions", "the agent folder"),
        ("/opt/agent", "the agent folder"),
        ("/home/user/.config", "run when they start"),
        ("/home/user/.config/nvim/lua", "run when they start"),
    ],
)
def test_such_folders_are_never_made_writable(folder: str, place: str) -> None:
    refusal = folder_refusal("workspace-write", folder, "/home/user", "/opt/agent")

    assert refusal is not None
    assert place in refusal
    assert folder_refusal("read-only", folder, "/home/user", "/opt/agent") is None


def test_a_project_in_the_home_folder_is_made_writable() -> None:
    assert folder_refusal("workspace-write", "/home/user/.config/tool", "/home/user", "/home/user/.pi/agent") is None
    assert folder_refusal("workspace-write", "/home/user/p", "/home/user", "/home/user/.pi/agent") is None
