"""Rules about threads: asynchronous trainers call one instance from many threads, and many instances at a time.

Threads are daemons with a time limit, so a deadlock becomes a finding instead of a check that hangs. A race that needs
rare timing can stay unseen.
"""

from __future__ import annotations

import contextlib
import queue
import random
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from .subject import Finding, Subject, show, show_difference

__all__ = ["check_threads"]

THREAD_WAIT_S = 30.0
ROUNDS = 5
SWITCH_INTERVAL_S = 1e-5

_ADVICE = (
    "Asynchronous trainers run tools in a thread pool. Open thread-bound handles (sqlite3, event loops) inside the call"
    " or share them safely, set no signals, and guard process-wide state with a lock."
)


class _Worker:
    """A thread that runs what it is given, one job at a time."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="check_env-worker", daemon=True).start()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except BaseException as error:  # handed to whoever waits for the job
                self._done.put(error)
            else:
                self._done.put(None)

    def submit(self, job: Callable[[], Any]) -> None:
        self._jobs.put(job)

    def wait(self) -> None:
        """Wait for the last job.

        Raises:
            TimeoutError: It did not end within `THREAD_WAIT_S`.
        """
        try:
            error = self._done.get(timeout=THREAD_WAIT_S)
        except queue.Empty:
            raise TimeoutError(f"a call did not return within {THREAD_WAIT_S:g} s") from None
        if error is not None:
            raise error

    def dismiss(self) -> None:
        self._jobs.put(None)


def check_threads(subject: Subject) -> Iterator[Finding]:
    """Use one instance from two threads by turns, then two instances in two threads at the same time."""
    workers = (_Worker(), _Worker())
    try:
        for player in range(len(subject.players)):
            found = [*_check_turns(subject, player, workers), *_check_at_once(subject, player, workers)]
            yield from found
            if found:
                return
    except TimeoutError as error:
        yield Finding("threads", f"with two threads, {show(error)}: the environment is deadlocked. {_ADVICE}")
    finally:
        for worker in workers:
            worker.dismiss()


def _check_turns(subject: Subject, player: int, workers: tuple[_Worker, _Worker]) -> Iterator[Finding]:
    transcript: list[str] = []
    episode = subject.steps(subject.make(), subject.rows[0], subject.players[player], transcript)
    expected = subject.reference(0, player)
    draw = random.Random("trl_agentenvs.check.threads")  # strict turns could give each tool a thread of its own
    for _ in expected:
        worker = draw.choice(workers)
        worker.submit(lambda: next(episode, None))
        worker.wait()
    if difference := show_difference(expected, transcript):
        yield Finding("threads", f"one instance used from two threads played differently: {difference}. {_ADVICE}")


def _check_at_once(subject: Subject, player: int, workers: tuple[_Worker, _Worker]) -> Iterator[Finding]:
    expected = subject.reference(0, player)
    barrier = threading.Barrier(len(workers), timeout=THREAD_WAIT_S / 2)
    transcripts: list[list[str]] = []

    def play(transcript: list[str]) -> None:
        for _ in subject.steps(subject.make(), subject.rows[0], subject.players[player], transcript):
            with contextlib.suppress(threading.BrokenBarrierError):  # the other episode ended early
                barrier.wait()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        for _ in range(ROUNDS):
            for worker in workers:
                transcripts.append([])
                worker.submit(lambda transcript=transcripts[-1]: play(transcript))  # type: ignore[misc]
            for worker in workers:
                worker.wait()
    finally:
        sys.setswitchinterval(interval)
    for transcript in transcripts:
        if difference := show_difference(expected, transcript):
            yield Finding(
                "threads", f"two instances in two threads did not play as each alone: {difference}. {_ADVICE}"
            )
            return
