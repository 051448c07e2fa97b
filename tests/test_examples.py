"""Every example runs as it is, offline and without any library but the standard one."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trl_agentenvs import ALFWorldEnv, check_env
from trl_agentenvs.registry import load_factory

EXPECTED = {
    "own_env.py": ["The contract holds.", "reward 1.0, ended because: solved"],
    "alfworld_first_minute.py": ["act needs command; you gave no arguments", "solved: True"],
}


def test_every_example_is_tested(repo):
    assert {path.name for path in (repo / "examples").glob("*.py")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_example_runs_with_the_standard_library_alone(name, repo, tmp_path):
    # -S: no site-packages, so nothing but the checkout and the standard library can be imported.
    command = [sys.executable, "-S", str(repo / "examples" / name)]
    environment = os.environ | {"PYTHONPATH": str(repo)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    for words in EXPECTED[name]:
        assert words in done.stdout


def first_code(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]


def test_environment_of_the_documentation_plays(repo):
    names = {"__name__": "documentation"}
    exec(first_code(repo / "docs" / "environments.md"), names)
    env_class = names["GuessEnv"]
    assert env_class._rows("train", 3, 0) != env_class._rows("train", 3, 1)
    env = env_class.configured(strict=True)()
    assert env.reset(**env_class._rows("train", None, 0)[6]) == "Guess a number from 1 to 100."
    assert [env.guess(number="8"), env.guess(number=7)] == ["Lower.", "Right.\n\nThe episode is over: solved."]
    assert env.get_reward() == 0.98


def test_code_of_the_alfworld_page_runs(repo, capsys):
    exec(first_code(repo / "docs" / "alfworld.md"), {})
    assert "You arrive at fridge 1." in capsys.readouterr().out


def test_own_environment_is_about_thirty_lines(repo):
    tree = ast.parse((repo / "examples" / "own_env.py").read_text(encoding="utf-8"))
    (env,) = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    assert env.end_lineno is not None
    assert env.end_lineno - env.lineno < 36


def test_own_environment_keeps_the_contract(repo):
    env = load_factory(f"{repo / 'examples' / 'own_env.py'}:NumberEnv")
    assert check_env(env, env._rows("train", 4, seed=0)) == []


def test_alfworld_keeps_the_contract():
    for options in ({}, {"show_admissible": True, "max_steps": 5}):
        assert check_env(ALFWorldEnv.configured(**options), ALFWorldEnv._rows("valid_unseen", 4, 0)) == []
