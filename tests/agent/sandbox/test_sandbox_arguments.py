"""The argument list of bubblewrap, word for word: its order is the policy."""

import pytest

from pinnace_agent.sandbox.bubblewrap import GRACE, HiddenFolder, Layout, command_arguments, setup_arguments

LAYOUT = Layout(
    program="/usr/bin/bwrap",
    folder="/w",
    private="/private",
    is_writable=True,
    writable=("/also",),
    readable=("/tmp/env",),
    outputs=("/tmp/out",),
    hidden_folders=(HiddenFolder("/h/.ssh", ("/h/.ssh/known_hosts",)),),
    hidden_files=("/h/.netrc",),
    agent_dir=HiddenFolder("/h/.pi/agent", ("/h/.pi/agent/skills",)),
    pinned=("/w/.git",),
    protected=("/w/.git/config",),
    absent=("/w/.pi",),
    masked=("/h/sock",),
)
EXPECTED = """/usr/bin/bwrap --die-with-parent
--unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try
--cap-drop ALL --disable-userns --unshare-net
--ro-bind / / --dev /dev --proc /proc --ro-bind /proc/sys /proc/sys
--tmpfs /run --bind /private /tmp --bind /private /var/tmp
--ro-bind-try /tmp/out /tmp/out --ro-bind /tmp/env /tmp/env --bind /w /w --bind /also /also
--bind /w/.git /w/.git --perms 0500 --tmpfs /w/.pi --remount-ro /w/.pi
--ro-bind /w/.git/config /w/.git/config
--perms 0500 --tmpfs /h/.ssh --ro-bind-try /h/.ssh/known_hosts /h/.ssh/known_hosts --remount-ro /h/.ssh
--ro-bind /dev/null /h/.netrc
--perms 0500 --tmpfs /h/.pi/agent --ro-bind-try /h/.pi/agent/skills /h/.pi/agent/skills --remount-ro /h/.pi/agent
--ro-bind /dev/null /h/sock""".split()


def test_the_list_is_complete_and_in_order() -> None:
    assert EXPECTED == setup_arguments(LAYOUT)


def test_read_only_binds_nothing_writable_but_the_private_folder() -> None:
    arguments = setup_arguments(Layout("bwrap", "/w", "/private"))

    assert ["/private", "/private"] == [arguments[i + 1] for i, each in enumerate(arguments) if each == "--bind"]


def test_the_network_is_shared_only_on_request() -> None:
    arguments = setup_arguments(Layout("bwrap", "/w", "/p", has_network=True, resolver="/run/r/resolv.conf"))

    assert "--unshare-net" not in arguments
    assert arguments.index("/run/r/resolv.conf") > arguments.index("/run")


def test_an_older_bubblewrap_gets_no_option_that_it_lacks() -> None:
    assert "--disable-userns" not in setup_arguments(LAYOUT._replace(disables_namespaces=False))


def test_the_command_follows_the_options_and_can_be_none() -> None:
    found = command_arguments(["bwrap"], ["--bind", "x"], cwd="/w", gate="/g", filter_fd=5, status_fd=6)

    options = "--ro-bind /g /dev/gate --chdir /w --seccomp 5 --json-status-fd 6 --".split()
    assert ["bwrap", *options, "/bin/sh", "-c", GRACE, "sh", "--bind", "x"] == found


def test_more_arguments_than_bubblewrap_accepts_are_refused() -> None:
    with pytest.raises(ValueError, match="9000"):
        command_arguments(["x"] * 9001, ["true"], cwd="/", gate="/g", filter_fd=5, status_fd=6)
