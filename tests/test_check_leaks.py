"""Rules of `check_env` about what is left behind: for each an environment that breaks this rule and no other."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from typing import Any

import pytest

from tests.checked import ROWS, Good, assert_breaks_only
from trl_agentenvs import check, check_env
from trl_agentenvs.check import leaks
from trl_agentenvs.check.surroundings import Surroundings

KEPT: list[Any] = []
STOP = threading.Event()
PIPE_END, PIPE_START = os.pipe()


class LeaksFiles(Good):
    def reset(self, number: int) -> str:
        KEPT.append(open(os.devnull))  # noqa: SIM115
        return super().reset(number=number)


class LeaksThreads(Good):
    def reset(self, number: int) -> str:
        threading.Thread(target=STOP.wait, daemon=True).start()
        return super().reset(number=number)


class LeaksTempFolders(Good):
    def reset(self, number: int) -> str:
        tempfile.mkdtemp()
        return super().reset(number=number)


class ChangesFolder(Good):
    def reset(self, number: int) -> str:
        os.chdir(tempfile.gettempdir())
        return super().reset(number=number)


class DeletesFolder(Good):
    def reset(self, number: int) -> str:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
        return super().reset(number=number)


class TakesOutput(Good):
    def reset(self, number: int) -> str:
        sys.stdout = sys.stderr = None  # type: ignore[assignment]
        return super().reset(number=number)


class ChangesVariable(Good):
    def reset(self, number: int) -> str:
        os.environ["NUMBER_OF_TESTS"] = str(number)
        return super().reset(number=number)


class SeedsGlobalRandom(Good):
    def reset(self, number: int) -> str:
        random.seed(number)
        return super().reset(number=number)


class SeedsNumPy(Good):
    def reset(self, number: int) -> str:
        import numpy

        numpy.random.seed(number)
        return super().reset(number=number)


class DrawsFromTorch(Good):
    def reset(self, number: int) -> str:
        import torch

        torch.rand(1)
        return super().reset(number=number)


class ChangesPath(Good):
    def reset(self, number: int) -> str:
        sys.path.append("")
        return super().reset(number=number)


class ChangesArguments(Good):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        sys.argv.append("--x")


class SetsSignal(Good):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        with contextlib.suppress(ValueError):  # not in the main thread
            signal.signal(signal.SIGUSR1, lambda *_: None)


class LeaksProcesses(Good):
    def reset(self, number: int) -> str:
        self._episodes = getattr(self, "_episodes", 0) + 1
        if self._episodes > 5 and self._episodes % 8 == 0:  # a process costs more time than the rest of the check
            KEPT.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=PIPE_END))
        return super().reset(number=number)


BROKEN = {
    LeaksFiles: "leaks",
    LeaksThreads: "leaks",
    LeaksTempFolders: "leaks",
    ChangesFolder: "global-state",
    DeletesFolder: "global-state",
    TakesOutput: "global-state",
    ChangesVariable: "global-state",
    SeedsGlobalRandom: "global-state",
    ChangesArguments: "global-state",
    ChangesPath: "global-state",
    SetsSignal: "global-state",
}


@pytest.fixture(autouse=True)
def _clean_up(monkeypatch):
    """Release what the environments keep; start no child process, which takes longer than all other rules together."""
    monkeypatch.setattr(check, "check_other_process", lambda subject: ())
    yield
    STOP.set()
    STOP.clear()
    for kept in KEPT:
        if isinstance(kept, subprocess.Popen):
            kept.kill()
            kept.wait()
        else:
            kept.close()
    KEPT.clear()


@pytest.mark.parametrize(("env", "rule"), BROKEN.items(), ids=lambda value: getattr(value, "__name__", value))
def test_broken_environment_breaks_exactly_one_rule(env, rule):
    assert_breaks_only(env, rule)


def test_process_that_each_episode_leaves_is_found(monkeypatch):
    monkeypatch.setattr(leaks, "WARM_UP_RESETS", 5)
    assert [finding.rule for finding in check_env(LeaksProcesses, ROWS)] == ["leaks"]


def test_environment_too_slow_to_look_for_leaks_is_told(monkeypatch, caplog):
    monkeypatch.setattr(leaks, "LEAK_WALL_S", 0.0)
    assert check_env(LeaksFiles, ROWS) == []
    assert "not checked: leaks; 1 resets took more than 0 s" in caplog.text


def _global_state() -> tuple[Any, ...]:
    process = os.getcwd(), dict(os.environ), random.getstate(), signal.getsignal(signal.SIGUSR1)
    return *process, [*sys.argv], [*sys.path], sys.stdout, sys.stderr


@pytest.mark.parametrize("env", [env for env, rule in BROKEN.items() if rule == "global-state"])
def test_check_puts_global_state_back(env):
    before = _global_state()
    check_env(env, ROWS)
    assert _global_state() == before


def test_global_state_of_numpy_is_watched_and_put_back():
    numpy = pytest.importorskip("numpy")
    before = numpy.random.get_state()[1].tolist()
    assert_breaks_only(SeedsNumPy, "global-state")
    assert numpy.random.get_state()[1].tolist() == before


def test_global_state_of_torch_is_watched_and_put_back():
    torch = pytest.importorskip("torch")
    before = torch.get_rng_state().tolist()
    assert_breaks_only(DrawsFromTorch, "global-state")
    assert torch.get_rng_state().tolist() == before


def test_generator_that_is_loaded_meanwhile_is_no_fault(monkeypatch):
    pytest.importorskip("numpy.random")
    with monkeypatch.context() as context:
        context.delitem(sys.modules, "numpy.random")
        surroundings = Surroundings()
    assert list(surroundings.check()) == []
