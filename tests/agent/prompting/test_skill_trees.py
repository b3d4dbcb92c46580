"""Generated trees of skills: the result agrees with a slow and simple implementation of the rules."""

import os
import tempfile
from pathlib import Path, PurePosixPath

from hypothesis import given, settings
from hypothesis import strategies as st

from pinnace_agent.search.resource_files import skill_files, template_files

names = st.sampled_from("a b SKILL.md x.md .c node_modules y.txt".split())
places = st.lists(names, min_size=1, max_size=4).map("/".join)
# What each place is; a folder that a longer place needs goes before.
trees = st.dictionaries(places, st.sampled_from(["file", "folder"]), max_size=12)


def build(root: Path, tree: dict[str, str]) -> None:
    for place in sorted(tree):
        path = root / place
        if any((root / above).is_file() for above in PurePosixPath(place).parents if str(above) != "."):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if tree[place] == "folder":
            path.mkdir(exist_ok=True)
        elif not path.exists():
            path.write_text("x")


def simple(root: Path, *, takes_files: bool) -> set[str]:
    """Judge each file by its path alone."""
    files = [path.relative_to(root) for path in root.rglob("*") if path.is_file()]
    declared = {path.parent for path in files if path.name == "SKILL.md"}
    found: set[str] = set()
    for path in files:
        is_hidden = any(part.startswith(".") or part == "node_modules" for part in path.parts)
        is_below = any(above in declared for above in path.parent.parents)
        if is_hidden or is_below or path.suffix != ".md":
            continue
        is_root_file = takes_files and str(path.parent) == "." and path.parent not in declared
        if path.name == "SKILL.md" or is_root_file:
            found.add(str(path))
    return found


@given(trees, st.booleans())
@settings(max_examples=150, deadline=None)
def test_what_is_found_is_what_each_path_says(tree: dict[str, str], takes_files: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        build(root, tree)
        found = [os.path.relpath(each.path, root) for each in skill_files(folder, takes_files=takes_files)]
        assert len(found) == len(set(found))
        assert simple(root, takes_files=takes_files) == set(found)
        assert sorted(found, key=lambda path: path.split("/")) == found


@given(trees, st.dictionaries(places, places, max_size=5))
@settings(max_examples=100, deadline=None)
def test_with_links_anywhere_a_search_ends_and_finds_what_is_there(tree: dict[str, str], links: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        build(root, tree)
        before = simple(root, takes_files=True)
        for place, target in links.items():
            path = root / place
            if path.parent.is_dir() and not os.path.lexists(path):
                path.symlink_to(root / target)
        for found in (list(skill_files(folder, takes_files=True)), list(template_files(folder, is_recursive=True))):
            paths = [each.path for each in found]
            assert len(paths) == len(set(paths)) < 100
            assert all(os.path.isfile(path) for path in paths)
        if not links:
            assert before == {os.path.relpath(each.path, root) for each in skill_files(folder, takes_files=True)}
