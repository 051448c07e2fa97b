"""Every example runs as it is, offline and without any library but the standard one."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import pytest

from trl_agentenvs import ALFWorldEnv, check_env
from trl_agentenvs.check_command import load_factory

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
