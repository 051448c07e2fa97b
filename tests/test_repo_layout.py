"""The checkout keeps its shape: what lies at the top, how large and how named a file may be, what is pinned."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PYPROJECT["project"]["optional-dependencies"]
MAX_LINES = 400

FOLDERS = {".ci", "docs", "examples", "patches", "recipes", "tests", "trl_agentenvs"}
FILES = {
    ".gitattributes",
    ".gitignore",
    ".pre-commit-config.yaml",
    "CHANGELOG.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "constraints-oldest.txt",
    "constraints-textworld.txt",
    "constraints.txt",
    "pyproject.toml",
}
# Names that say "miscellaneous" instead of an idea.
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "handler"}
# Absolute paths that exist on one machine only. The one-letter classes keep this file from finding itself.
MACHINE_PATH = re.compile(r"/[w]ork/(?:main|shared)|/[h]ome/[a-z]|/[U]sers/[A-Za-z]|\.[p]yenv/")


def tracked() -> list[Path]:
    """Every file that git knows, relative to the root; skips where there is no checkout (an unpacked sdist)."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [Path(name) for name in listed.split("\0") if name and (ROOT / name).exists()]


def pins(name: str) -> dict[str, Version]:
    """The versions that a constraints file pins, by normalised name."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    pinned = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {normal(r.name): Version(str(r.specifier).removeprefix("==")) for r in pinned}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def package_folders() -> set[Path]:
    """Every folder below the installed roots that holds Python files."""
    roots = ("trl_agentenvs", "patches", "recipes")
    return {path.parent for path in tracked() if path.parts[0] in roots and path.suffix == ".py"}


def test_top_level_is_what_the_architecture_names() -> None:
    files = tracked()
    assert {path.parts[0] for path in files if len(path.parts) > 1} == FOLDERS
    assert {path.name for path in files if len(path.parts) == 1} == FILES


def test_no_source_file_is_longer_than_one_idea() -> None:
    long = {
        str(path): lines
        for path in tracked()
        if path.suffix == ".py" and (lines := (ROOT / path).read_text(encoding="utf-8").count("\n")) > MAX_LINES
    }
    assert long == {}


def test_no_file_has_a_vague_name() -> None:
    assert [str(path) for path in tracked() if path.suffix == ".py" and path.stem.lower() in VAGUE] == []


def test_no_file_names_a_path_of_one_machine() -> None:
    found = {}
    for path in tracked():
        hits = MACHINE_PATH.findall((ROOT / path).read_text(encoding="utf-8", errors="replace"))
        if hits:
            found[str(path)] = hits
    assert found == {}


def test_every_package_folder_is_listed_for_installation() -> None:
    mapped = {folder: name for name, folder in PYPROJECT["tool"]["setuptools"]["package-dir"].items()}
    in_checkout = {mapped.get(path.as_posix(), path.as_posix().replace("/", ".")) for path in package_folders()}
    assert in_checkout == set(PYPROJECT["tool"]["setuptools"]["packages"])


def test_every_package_folder_has_an_init() -> None:
    assert [str(path) for path in package_folders() if not (ROOT / path / "__init__.py").exists()] == []


def test_no_recipe_or_example_shadows_a_library() -> None:
    # `accelerate launch recipes/x.py` and `python examples/x.py` put that folder first on the import path.
    taken = sys.stdlib_module_names | set(importlib.metadata.packages_distributions()) | {"evaluate", "vllm"}
    scripts = [path for path in tracked() if path.parts[0] in {"recipes", "examples"} and path.suffix == ".py"]
    assert [str(path) for path in scripts if path.stem in taken - {"__init__"}] == []


def test_continuous_integration_can_start() -> None:
    assert (ROOT / ".ci" / "run").stat().st_mode & stat.S_IXUSR


def test_pre_commit_needs_no_network() -> None:
    text = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert re.findall(r"^\s*- repo: (.*)$", text, re.MULTILINE) == ["local"]


@pytest.mark.parametrize(
    ("extra", "file"),
    [("train", "constraints.txt"), ("dev", "constraints.txt"), ("textworld", "constraints-textworld.txt")],
)
def test_tested_set_pins_every_requirement(extra: str, file: str) -> None:
    pinned = pins(file)
    wanted = [Requirement(line) for line in EXTRAS[extra]]
    assert [r.name for r in wanted if normal(r.name) not in pinned] == []
    assert [str(r) for r in wanted if pinned[normal(r.name)] not in r.specifier] == []


def test_oldest_set_is_the_lower_bound_of_every_requirement() -> None:
    pinned = pins("constraints-oldest.txt")
    bounds = {r.name: r.specifier for r in map(Requirement, EXTRAS["train"])}
    assert set(map(normal, bounds)) <= set(pinned)
    lower = {name: Version(str(spec).removeprefix(">=")) for name, spec in bounds.items() if str(spec)}
    assert lower["trl"] == Version("1.10.0")
    assert {name: pinned[normal(name)] for name in lower} == lower
