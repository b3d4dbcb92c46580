"""What is where inside a sandbox: the policy and the disk. Nothing is run."""

import os
import pwd
import shutil
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from pinnace_agent.files.places_of_keys import HISTORIES, PLACES_OF_KEYS, keys_at_home
from pinnace_agent.sandbox import layout as layouts
from pinnace_agent.sandbox.bubblewrap import Layout
from pinnace_agent.sandbox.layout import SandboxPlaces, check_places, is_shown, layout_of
from pinnace_agent.sandbox.policy import SandboxPolicy
from pinnace_agent.sandbox.repositories import Unprotectable
from pinnace_agent.sandbox.sandbox import places_of
from pinnace_fuzz.harness.short_folders import make_short_folder

WRITING = SandboxPolicy("workspace-write")


class Disk:
    """A home folder with a project in it."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.project = self.home / "project"
        self.agent = self.home / ".pi" / "agent"
        for each in (self.project, self.agent / "skills", self.agent / "sessions"):
            each.mkdir(parents=True)
        self.places = SandboxPlaces(str(self.project), str(self.home), str(self.agent))

    def layout(self, policy: SandboxPolicy = WRITING, **more: object) -> Layout:
        places = more.pop("places", self.places)
        return layout_of(policy, places, program="bwrap", private="/nonexistent/p", disables_namespaces=True, **more)  # type: ignore[arg-type]

    def repository(self, folder: Path) -> Path:
        git = folder / ".git"
        for each in ("hooks", "objects", "info"):
            (git / each).mkdir(parents=True)
        for each in ("HEAD", "config"):
            (git / each).write_text("")
        (git / "hooks/some.sample").touch()
        return git


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    # The folders of the tests are below one that a sandbox replaces.
    monkeypatch.setattr(layouts, "_REPLACED", ("/run", "/dev", "/proc"))
    return Disk(tmp_path)


def test_secrets_that_exist_are_hidden(disk: Disk) -> None:
    (disk.home / ".ssh").mkdir()
    (disk.home / ".netrc").write_text("")
    (disk.home / ".config" / "gh").mkdir(parents=True)
    found = disk.layout()

    hidden = [each.path for each in found.hidden_folders]
    assert {str(disk.home / ".ssh"), str(disk.home / ".config" / "gh")} <= set(hidden)
    assert str(disk.home / ".netrc") in found.hidden_files
    assert str(disk.home / ".aws") not in hidden


def test_keys_of_the_account_are_hidden_where_home_is_another_folder(disk: Disk) -> None:
    account = disk.home.parent / "account"
    (account / ".ssh").mkdir(parents=True)
    (account / ".pi" / "agent" / "skills").mkdir(parents=True)
    places = disk.places._replace(account_home=str(account))
    hidden = {each.path: each.shown for each in disk.layout(places=places).hidden_folders}

    agent = account / ".pi" / "agent"
    assert hidden == {
        str(account / ".ssh"): (),
        str(agent): tuple(f"{agent}/{x}" for x in ("skills", "prompts", "extensions")),
    }
    real = places_of({**os.environ, "HOME": "/nonexistent"}, "/").account_home
    own = os.path.realpath(pwd.getpwuid(os.geteuid()).pw_dir)
    assert real == (own if os.path.isdir(own) and own != "/" else None)
    assert places_of({**os.environ, "HOME": own}, "/").account_home is None


def test_the_usual_agent_folder_is_hidden_where_this_one_is_another(disk: Disk) -> None:
    other = disk.home / "agents" / "one"
    other.mkdir(parents=True)
    found = disk.layout(places=disk.places._replace(agent_dir=str(other)))

    assert [str(disk.agent)] == [each.path for each in found.hidden_folders]
    assert found.agent_dir is not None
    assert [] == list(disk.layout(places=disk.places._replace(agent_dir=str(disk.agent / "sessions"))).hidden_folders)


def test_a_link_is_hidden_where_it_leads(disk: Disk) -> None:
    (disk.home / "keys").mkdir()
    (disk.home / ".ssh").symlink_to("keys")

    assert str(disk.home / "keys") in [each.path for each in disk.layout().hidden_folders]


def test_a_secret_can_be_shown_again_and_a_part_of_one(disk: Disk) -> None:
    (disk.home / ".ssh").mkdir()
    known = disk.home / ".ssh" / "known_hosts"
    known.write_text("")
    (disk.home / ".aws").mkdir()
    policy = SandboxPolicy("read-only", readable=(str(known), str(disk.home / ".aws")))
    found = {each.path: each.shown for each in disk.layout(policy).hidden_folders}

    assert (str(known),) == found[str(disk.home / ".ssh")]
    assert str(disk.home / ".aws") not in found


def test_a_path_to_hide_takes_precedence(disk: Disk) -> None:
    (disk.home / ".aws").mkdir()
    policy = SandboxPolicy("read-only", readable=(str(disk.home / ".aws"),), hide=(str(disk.home / ".aws"),))

    assert str(disk.home / ".aws") in [each.path for each in disk.layout(policy).hidden_folders]


def test_the_agent_folder_shows_resources_and_the_current_session_alone(disk: Disk) -> None:
    session = disk.agent / "sessions" / "s.jsonl"
    session.write_text("")
    found = disk.layout(session_file=str(session)).agent_dir

    assert found is not None
    assert (str(disk.agent / "skills"), str(session)) == found.shown
    auth = disk.layout(session_file=str(disk.agent / "auth.json")).agent_dir
    assert auth is not None
    assert (str(disk.agent / "skills"),) == auth.shown


def test_absent_folders_of_agents_are_protected(disk: Disk) -> None:
    (disk.project / ".pi/skills").mkdir(parents=True)
    (disk.project / ".git").mkdir()
    found = disk.layout()

    assert (str(disk.project / ".pi"),) == found.protected
    assert (str(disk.project / ".agents"), str(disk.project / ".git")) == found.absent
    assert (str(disk.project / ".agents"),) == disk.layout(replace(WRITING, new_repository=True)).absent[:1]


def test_the_repository_is_pinned_and_what_runs_code_is_protected(disk: Disk) -> None:
    git = disk.repository(disk.project)
    (git / "worktrees/w").mkdir(parents=True)
    for each in ("commondir", "gitdir", "index"):
        (git / "worktrees/w" / each).write_text("")
    (git / "info" / "attributes").write_text("")
    found = disk.layout()

    assert {git / each for each in (".", "info", "worktrees", "worktrees/w")} == set(map(Path, found.pinned))
    protected = ("config", "hooks", "worktrees/w/commondir", "worktrees/w/gitdir", "info/attributes")
    assert {str(git / each) for each in protected} <= set(found.protected)


def test_absent_hooks_and_configuration_are_protected(disk: Disk) -> None:
    git = disk.repository(disk.project)
    shutil.rmtree(git / "hooks")
    (git / "config").unlink()
    found = disk.layout()

    assert str(git / "hooks") in found.absent
    assert str(git / "config") in found.masked


def test_submodules_are_protected(disk: Disk) -> None:
    git = disk.repository(disk.project)
    module = git / "modules" / "deep" / "name"
    (module / "objects").mkdir(parents=True)
    for each in ("HEAD", "config"):
        (module / each).write_text("")
    (disk.project / ".gitmodules").write_text('[submodule "x"]\n\tpath = sub\n\tpath = ../other\n')
    (disk.project / "sub").mkdir()
    (disk.project / "sub" / ".git").write_text("gitdir: ../.git/modules/deep/name")
    found = disk.layout()

    assert {str(module / "config"), str(disk.project / "sub" / ".git")} <= set(found.protected)
    assert str(module / "hooks") in found.absent
    assert {f"{git}/commondir", f"{module}/commondir"} <= {each.path for each in found.forbidden}


def test_a_worktree_names_its_repository_in_a_file_that_is_protected(disk: Disk) -> None:
    (disk.project / ".git").write_text("gitdir: /elsewhere")

    assert str(disk.project / ".git") in disk.layout().protected


@pytest.mark.parametrize("name", [".pi", ".agents", ".git"])
def test_a_link_that_a_command_could_replace_is_an_error(disk: Disk, name: str) -> None:
    (disk.home / "elsewhere").mkdir()
    (disk.project / name).symlink_to(disk.home / "elsewhere")

    with pytest.raises(Unprotectable, match="is a link"):
        disk.layout()


@pytest.mark.parametrize("name", ["hooks", "config"])
def test_a_link_in_the_repository_is_an_error(disk: Disk, name: str) -> None:
    git = disk.repository(disk.project)
    (git / name).rename(disk.home / "moved")
    (git / name).symlink_to(disk.home / "moved")

    with pytest.raises(Unprotectable, match="is a link"):
        disk.layout()


def test_searches_write_nothing(disk: Disk) -> None:
    found = disk.layout(access="read-only")

    assert not found.is_writable
    assert () == found.absent


def test_further_writable_folders_are_protected_likewise(disk: Disk) -> None:
    more = disk.home / "more"
    git = disk.repository(more)
    found = disk.layout(SandboxPolicy("workspace-write", writable=(str(more),)))

    assert (str(more),) == found.writable
    assert str(git / "config") in found.protected
    assert () == disk.layout(SandboxPolicy("read-only", writable=(str(more),))).writable


def test_a_writable_git_folder_keeps_its_configuration(disk: Disk) -> None:
    git = disk.repository(disk.home / "main")
    found = disk.layout(SandboxPolicy("workspace-write", writable=(str(git),)))

    assert {str(git / "config"), str(git / "hooks")} <= set(found.protected)


def test_code_of_the_agent_in_the_working_folder_is_protected(disk: Disk) -> None:
    venv = disk.project / ".venv"
    venv.mkdir()

    assert str(venv) in disk.layout(places=disk.places._replace(code=(str(venv), "/usr"))).protected


def test_session_files_elsewhere_are_hidden_and_in_the_working_folder_protected(disk: Disk) -> None:
    outside, inside = disk.home / "sessions", disk.project / "sessions"
    outside.mkdir()
    inside.mkdir()
    hidden = disk.layout(places=disk.places._replace(session_dirs=(str(outside),)))
    protected = disk.layout(places=disk.places._replace(session_dirs=(str(inside),)))

    assert str(outside) in [each.path for each in hidden.hidden_folders]
    assert str(inside) in protected.protected


def test_sockets_of_services_are_masked(disk: Disk) -> None:
    folder = make_short_folder("services-")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{folder}/s")
        listening.listen()
        masked = disk.layout().masked
    shutil.rmtree(folder)

    assert f"{folder}/s" in masked


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (SandboxPolicy("workspace-write", writable=("/nonexistent",)), "neither a folder nor a file"),
        (SandboxPolicy("workspace-write", writable=("/",)), "is the root of the file system"),
        (SandboxPolicy("read-only", readable=("{agent}/auth.json",)), "agent folder"),
    ],
)
def test_settings_that_would_open_the_agent_folder_are_errors(disk: Disk, policy: SandboxPolicy, text: str) -> None:
    readable = tuple(each.format(agent=disk.agent) for each in policy.readable)

    with pytest.raises(Unprotectable, match=text):
        check_places(SandboxPolicy(policy.mode, writable=policy.writable, readable=readable), disk.places)


def test_the_environment_of_the_agent_itself_is_never_the_working_folder(disk: Disk) -> None:
    with pytest.raises(Unprotectable, match="pinnace itself"):
        check_places(SandboxPolicy("workspace-write"), disk.places._replace(code=(str(disk.project),)))


def test_what_the_file_tools_run_from_is_shown_where_a_sandbox_replaces_its_folder(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced = disk.home.parent / "replaced"
    environment, other = replaced / "venv", replaced / "other"
    for each in (environment, other):
        each.mkdir(parents=True)
    monkeypatch.setattr(layouts, "_REPLACED", (str(replaced),))
    places = disk.places._replace(runtime=("/usr", str(environment)))

    assert disk.layout(places=places).readable == (str(environment),)
    for mode in ("workspace-write", "read-only"):
        policy = SandboxPolicy(mode)
        assert is_shown(policy, places, f"{environment}/bin/python")
        assert is_shown(policy, places, "/usr/bin/python3")
        assert not is_shown(policy, places, f"{other}/rg")


@pytest.mark.parametrize("place", ["agent folder", "sandbox.hide"])
def test_a_sandbox_that_hides_what_the_file_tools_run_from_is_refused(disk: Disk, place: str) -> None:
    """Every file tool would fail; what is shown again of a hidden folder is no reason."""
    hidden = disk.agent if place == "agent folder" else disk.home / "hidden"
    (hidden / "venv").mkdir(parents=True)
    policy = SandboxPolicy("workspace-write", hide=() if place == "agent folder" else (str(hidden),))
    places = disk.places._replace(runtime=(str(hidden / "venv"),))

    with pytest.raises(Unprotectable, match=f"pinnace runs from {hidden}/venv, and {hidden} is hidden"):
        disk.layout(policy, places=places)
    disk.layout(policy, places=disk.places._replace(runtime=(str(disk.agent / "skills"),)))


PAGE = Path(__file__).resolve().parents[3] / "docs/sandbox.md"


def test_every_place_of_keys_is_hidden_and_its_program_is_on_the_page(disk: Disk) -> None:
    for path in (*keys_at_home(), *HISTORIES):
        (disk.home / path).parent.mkdir(parents=True, exist_ok=True)
        if not (disk.home / path).exists():
            (disk.home / path).write_text("secret")
    found = disk.layout()
    hidden = [*(each.path for each in found.hidden_folders), *found.hidden_files]

    assert [] == [each for each in (*keys_at_home(), *HISTORIES) if not is_in_any(str(disk.home / each), hidden)]
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert [] == [name for name in PLACES_OF_KEYS if name not in page]


def is_in_any(path: str, folders: list[str]) -> bool:
    return any(path == each or path.startswith(f"{each}/") for each in folders)


def test_places_that_variables_name_are_hidden(disk: Disk, tmp_path: Path) -> None:
    other = tmp_path / "other"
    names = ("aws", "kube1", "kube2", "config/gh", "data/keyrings", "cargo/credentials.toml")
    for each in names:
        (other / each).parent.mkdir(parents=True, exist_ok=True)
        (other / each).write_text("secret")
    env = {
        "HOME": str(disk.home),
        "AWS_SHARED_CREDENTIALS_FILE": f"{other}/aws",
        "KUBECONFIG": f"{other}/kube1:{other}/kube2",
        "XDG_CONFIG_HOME": f"{other}/config",
        "XDG_DATA_HOME": f"{other}/data/",
        "CARGO_HOME": f"{other}/cargo",
        "DOCKER_CONFIG": str(disk.project),  # or nothing could be done there
        "GNUPGHOME": str(disk.home.parent),
        "NETRC": "relative",
    }
    found = disk.layout(places=disk.places._replace(keys=places_of(env, str(disk.project)).keys))

    assert {str(other / each) for each in names} == {
        each for each in found.hidden_files if not each.startswith("/etc/")
    }
    assert [] == list(found.hidden_folders)


@pytest.mark.parametrize("kind", ["link", "file", "open"])
def test_a_folder_of_outputs_that_is_not_the_user_s_alone_is_not_shown(disk: Disk, tmp_path: Path, kind: str) -> None:
    """Another user may have made its name among the temporary files, as a link to a place of keys."""
    (disk.home / ".ssh").mkdir()
    outputs = tmp_path / "pinnace-0"
    match kind:
        case "link":
            outputs.symlink_to(disk.home / ".ssh")
        case "file":
            outputs.touch()
        case _:
            outputs.mkdir()
            outputs.chmod(0o777)
    places = disk.places._replace(outputs=(str(outputs),))

    assert () == disk.layout(places=places).outputs
    outputs.unlink() if kind != "open" else outputs.rmdir()
    outputs.mkdir(0o700)
    assert (str(outputs),) == disk.layout(places=places).outputs
