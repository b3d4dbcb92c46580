"""Packages of npm, git and folders: installed, listed, updated and removed, by npm and git without a network."""

import pytest
from tests.rpc.packages.conftest import User, skill


def test_a_package_of_npm_is_installed_listed_and_removed(user: User) -> None:
    """Folders and settings are pi's; nothing else in the settings changes."""
    user.write_settings({"theme": "dark", "zeta": 1.0, "packages": ["./own"]})
    user.registry.publish("needed", "1.0.0", {})
    user.registry.publish("@scope/one", "1.2.3", skill("first"), dependencies={"needed": "1"})
    said = user.run("install", "npm:@scope/one")
    assert "Installed npm:@scope/one (1.2.3)" in said
    assert "1 skill in" in said
    assert {"theme": "dark", "zeta": 1.0, "packages": ["./own", "npm:@scope/one"]} == user.settings()
    assert '"zeta": 1.0' in (user.agent_dir / "settings.json").read_text()
    root = user.agent_dir / "npm"
    assert (root / "node_modules" / "needed" / "package.json").exists()
    assert "*\n!.gitignore\n" == (root / ".gitignore").read_text()
    assert ["first"] == user.skills()
    listed = user.run("list")
    assert f"  npm:@scope/one\n    {root / 'node_modules' / '@scope' / 'one'}\n" in listed
    assert "  ./own\n    not installed\n" in listed
    assert "Removed npm:@scope/one" in user.run("uninstall", "npm:@scope/one")
    assert ["./own"] == user.settings()["packages"]
    assert not (root / "node_modules" / "needed").exists()
    assert [] == user.skills()
    assert {"npm", "settings.json"} <= {each.name for each in user.agent_dir.iterdir()}
    assert not [each.name for each in user.agent_dir.iterdir() if "pinnace" in each.name or "lock" in each.name]


def test_a_package_of_the_command_line_is_installed_for_the_start_alone(user: User) -> None:
    """It is in no settings, and the next start finds it where it is."""
    user.registry.publish("one", "1.0.0", skill("first"))
    user.repository("a/b").commit(skill("second"), "v1")
    words = ("-e", "npm:one", "-e", "git:git.example/a/b@v1")
    assert ["first", "second"] == user.skills(*words)
    assert not (user.agent_dir / "settings.json").exists()
    asked = len(user.registry.asked)
    assert ["first", "second"] == user.skills(*words)
    assert asked == len(user.registry.asked)
    assert [] == user.skills()


def test_the_settings_of_a_project_need_its_trust(user: User) -> None:
    user.registry.publish("one", "1.0.0", skill("first"))
    user.write_settings({"packages": []}, is_local=True)
    assert "is not trusted" in user.run("install", "-l", "npm:one", code=1)
    user.run("install", "-l", "npm:one", "--approve")
    assert {"packages": ["npm:one"]} == user.settings(is_local=True)
    assert (user.project_dir / "npm" / "node_modules" / "one").is_dir()
    assert "npm:one" not in user.run("list")
    assert [] == user.skills()
    user.run("trust")
    assert "Project packages:\n  npm:one\n" in user.run("list")
    assert ["first"] == user.skills()
    user.run("remove", "--local", "npm:one")
    assert [] == user.settings(is_local=True)["packages"]


def test_what_is_not_installed_is_reported_with_the_command_and_nothing_is_run(user: User) -> None:
    """Of a wrong entry the other ones are loaded; no request reaches the registry."""
    user.registry.publish("one", "1.0.0", skill("first"))
    user.run("install", "npm:one")
    user.registry.asked.clear()
    wrong = ["npm:missing@2", "git:git.example/no/thing", "npm:../escaped", "npm:one@^2", {"source": "npm:two"}, "gone"]
    user.write_settings({"packages": [*wrong[:3], "npm:one", *wrong[4:]]})
    assert ["first"] == user.skills()
    warnings = "\n".join(user.warnings())
    assert "package npm:missing@2 is not installed: pinnace install npm:missing@2" in warnings
    assert "package git:git.example/no/thing is not installed: pinnace install git:git.example/no/thing" in warnings
    assert "'../escaped' is no name of an npm package; expected npm:NAME" in warnings
    assert "package npm:two is not installed" in warnings
    assert f"package gone there is no {user.agent_dir / 'gone'}" in warnings
    assert "package npm:two is not installed" in user.run("doctor", code=1)
    user.write_settings({"packages": ["npm:one@^2"]})
    assert [] == user.skills()
    assert "so it is not loaded: pinnace install 'npm:one@^2'" in "\n".join(user.warnings())
    assert [] == user.registry.asked


def test_an_update_keeps_pinned_versions_and_installs_what_is_missing(user: User) -> None:
    for name in ("newest", "pinned", "ranged"):
        user.registry.publish(name, "1.0.0", skill(f"{name}-1"))
    for source in ("npm:newest", "npm:pinned@1.0.0", "npm:ranged@^1.0"):
        user.run("install", source)
    for name in ("newest", "pinned"):
        user.registry.publish(name, "2.0.0", skill(f"{name}-2"))
    user.registry.publish("ranged", "1.1.0", skill("ranged-2"))
    user.registry.publish("ranged", "2.0.0", skill("ranged-3"))
    user.registry.publish("added", "1.0.0", skill("added-1"))
    user.write_settings({"packages": [*user.settings()["packages"], "npm:added@1.0.0"]})
    said = user.run("update")
    assert "Updated npm:newest 1.0.0 -> 2.0.0" in said
    assert "Updated npm:ranged@^1.0 1.0.0 -> 1.1.0" in said
    assert "Updated npm:added@1.0.0 (none) -> 1.0.0" in said
    assert "Updated npm:pinned" not in said
    assert {"newest-2", "pinned-1", "ranged-2", "added-1"} == set(user.skills())
    assert "npm:newest is already up to date" in user.run("update", "npm:newest")
    # Another version in the place of the pinned one, without losing a filter.
    user.write_settings({"packages": [{"source": "npm:pinned@1.0.0", "prompts": []}]})
    user.run("install", "npm:pinned@2.0.0")
    assert [{"source": "npm:pinned@2.0.0", "prompts": []}] == user.settings()["packages"]
    assert ["pinned-2"] == user.skills()


def test_a_repository_follows_its_branch_and_a_ref_stays(user: User) -> None:
    user.registry.publish("needed", "1.0.0", {})
    manifest = '{"name": "b", "dependencies": {"needed": "1"}}'
    repository = user.repository("a/b")
    repository.commit({**skill("first"), "package.json": manifest}, "v1")
    fixed = user.repository("a/fixed")
    fixed.commit(skill("fixed-1"), "v1")
    user.run("install", "git:git.example/a/b")
    user.run("install", "https://git.example/a/fixed@v1")
    folder = user.agent_dir / "git" / "git.example" / "a"
    assert (folder / "b" / "node_modules" / "needed").is_dir()
    assert ["first", "fixed-1"] == user.skills()
    assert "Packages are already up to date" in user.run("update")
    after = repository.commit(skill("second"))
    fixed.commit(skill("fixed-2"))
    said = user.run("update", "--extensions")
    assert f"-> {after[:7]}" in said
    assert "fixed@v1" not in said.replace("Updating https://git.example/a/fixed@v1 ...", "")
    assert (folder / "b" / "node_modules" / "needed").is_dir()
    assert ["first", "second", "fixed-1"] == user.skills()
    user.run("install", "git:git.example/a/fixed@main")
    assert ["git:git.example/a/b", "git:git.example/a/fixed@main"] == user.settings()["packages"]
    assert "fixed-2" in user.skills()
    user.run("remove", "git:git.example/a/b")
    user.run("remove", "https://git.example/a/fixed")
    assert not folder.exists()
    assert [] == user.settings()["packages"]


def test_a_folder_is_named_relative_to_the_settings(user: User) -> None:
    for path, text in skill("own").items():
        file = user.work / "tools" / path
        file.parent.mkdir(parents=True)
        file.write_text(text)
    user.run("install", "./tools")
    assert {"packages": ["../../../work/tools"]} == user.settings()
    assert ["own"] == user.skills()
    user.run("install", str(user.work / "tools"), "--local")
    assert {"packages": ["../tools"]} == user.settings(is_local=True)
    user.run("remove", "tools")
    assert {"packages": []} == user.settings()


def test_programs_of_a_package_run_only_where_the_user_asks(user: User) -> None:
    script = {"install": "echo ran > ran.txt"}
    user.registry.publish("built", "1.0.0", {"index.js": "0;"}, scripts=script)
    ran = user.agent_dir / "npm" / "node_modules" / "built" / "ran.txt"
    user.run("install", "npm:built")
    assert not ran.exists()
    user.run("remove", "npm:built")
    user.run("install", "npm:built", "--allow-scripts")
    assert ran.exists()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("npm:../escaped", "expected npm:NAME"),
        ("npm:--global", "expected npm:NAME"),
        ("npm:one@--force", "expected one such as 1.2.3"),
        ("npm:one@file:/etc", "expected one such as 1.2.3"),
        ("npm:", "expected npm:NAME"),
        ("git:git.example/a/b@--upload-pack=touch", "no name of a branch"),
        ("git:git.example/a/../../b", "expected git:HOST/PATH"),
        ("git:git.example/a/%2e%2e/b", "expected git:HOST/PATH"),
        ("git:-oProxyCommand=x/a/b", "expected git:HOST/PATH"),
        ("ssh://-oProxyCommand=x/a/b", "expected git:HOST/PATH"),
        ("git:ext::sh -c touch", "expected git:HOST/PATH"),
        ("git:file:///a/b", "https, http, ssh or git"),
        ("git:only", "expected git:HOST/PATH"),
        ("github:a/b", "expected git:HOST/PATH"),
        ("a\x1b[1m", "expected npm:NAME"),
    ],
)
def test_a_source_that_leads_elsewhere_is_refused(user: User, source: str, expected: str) -> None:
    """Before npm or git is asked: nothing is written."""
    assert expected in user.run("install", source, code=2)
    assert [] == user.registry.asked
    assert [] == list(user.agent_dir.iterdir())


def test_what_can_not_be_installed_changes_nothing(user: User) -> None:
    """Whatever fails: the registry, the repository, the file of settings."""
    user.registry.publish("one", "1.0.0", skill("first"))
    user.run("install", "npm:one")
    before = {path: path.read_bytes() for path in sorted(user.agent_dir.rglob("*")) if path.is_file()}
    assert "404" in user.run("install", "npm:nothing", code=1)
    assert "exited with" in user.run("install", "git:git.example/no/thing", code=1)
    assert "did you mean npm:one?" in user.run("remove", "one", code=1)
    assert "no package npm:two in settings (there are: npm:one)" in user.run("update", "npm:two", code=1)
    assert "there is no such folder" in user.run("install", "./nothing", code=1)
    assert before == {path: path.read_bytes() for path in sorted(user.agent_dir.rglob("*")) if path.is_file()}
    (user.agent_dir / "settings.json").write_text("{")
    assert "is not valid JSON" in user.run("install", "npm:one", code=1)
    assert "{" == (user.agent_dir / "settings.json").read_text()


@pytest.mark.parametrize("words", [("update", "--self"), ("update", "pi"), ("update", "--models"), ("config",)])
def test_what_only_pi_has_is_refused_with_an_alternative(user: User, words: tuple[str, ...]) -> None:
    assert "not supported" in user.run(*words, code=2)
