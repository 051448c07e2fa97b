"""`check_env`: good environments have no findings, and the check itself leaves nothing behind."""

from __future__ import annotations

import functools
import logging
import random
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.checked import ROWS, Good, Plain, rules
from trl_agentenvs import check, check_env


class AsyncTools(Good):
    async def guess(self, number: int) -> str:
        """Guess the number.

        Args:
            number: The guess.
        """
        return "wrong"


class Deep(Good):
    """Fails only where the right guess leads."""

    def reset(self, number: int) -> str:
        super().reset(number=number + 1000)
        return f"{number + 1000}"

    def guess(self, number: int) -> str:
        """Guess the number.

        Args:
            number: The guess.
        """
        return f"{random.SystemRandom().random()}" if number == self._number else super().guess(number)


@pytest.mark.parametrize("env", [Good, Plain, Good.configured(strict=True), functools.partial(Plain)])
def test_good_environment_has_no_findings(env):
    assert check_env(env, ROWS) == []


@pytest.fixture(autouse=True)
def _no_child(request, monkeypatch):
    """Start no child process: it takes longer than all other rules together."""
    if "good_environment" not in request.node.name:
        monkeypatch.setattr(check, "check_other_process", lambda subject: ())


def test_fast_environment_is_checked_in_under_three_seconds():
    check_env(Good, ROWS)  # loads the libraries
    started = time.process_time()  # not wall time: other processes may keep the machine busy
    check_env(Good, ROWS)
    assert time.process_time() - started < 3


def test_async_tools_are_awaited():
    assert check_env(AsyncTools, ROWS) == []


def test_policy_reaches_what_derived_calls_do_not():
    def policy(seen: list[str]) -> tuple[str, dict[str, Any]] | None:
        return ("guess", {"number": int(seen[0])}) if len(seen) == 1 else None

    assert rules(Deep) == []
    assert rules(Deep, policy=policy) == ["deterministic"]


def test_policy_that_calls_an_unknown_tool_is_told_which_there_are():
    with pytest.raises(ValueError, match="policy called 'jump'; expected one of guess"):
        check_env(Good, ROWS, policy=lambda seen: ("jump", {}))


def test_policy_that_never_stops_is_stopped():
    assert rules(Good, policy=lambda seen: ("guess", {"number": 0})) == []


def test_every_rule_is_broken_by_an_environment_of_some_test():
    tests = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_check_*.py"))
    assert [rule for rule in check.RULES if f'"{rule}"' not in tests] == []


def test_no_rows_are_an_error_of_the_user():
    with pytest.raises(ValueError, match="got no rows"):
        check_env(Good, [])


def test_check_leaves_no_thread_and_no_temporary_file_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    running = threading.active_count()
    check_env(AsyncTools, ROWS)
    deadline = time.monotonic() + 5
    while threading.active_count() > running and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == running
    assert list(tmp_path.iterdir()) == []


def test_check_leaves_the_users_trace_alone(tmp_path):
    assert check_env(Good.configured(trace_path=str(tmp_path / "rollouts.jsonl")), ROWS) == []
    assert list(tmp_path.iterdir()) == []


class Undocumented(Plain):
    def helper(self) -> str:
        return "I am a tool now."


@pytest.mark.parametrize("library", ["datasets", "transformers"])
def test_check_without_a_library_says_what_it_left_out(library, monkeypatch, caplog):
    for name in [name for name in sys.modules if name == library or name.startswith(f"{library}.")]:
        monkeypatch.delitem(sys.modules, name)
    for name in {library, "datasets"}:  # datasets itself looks for transformers
        monkeypatch.setitem(sys.modules, name, None)
    with caplog.at_level(logging.WARNING):
        assert check_env(Good, ROWS) == []
        assert "tool-schema" in rules(Undocumented)
    assert f"{library} is not installed" in caplog.text
