from __future__ import annotations

import logging
import multiprocessing
import os
import random
import threading
import time
from pathlib import Path

import pytest

from trl_agentenvs.alfworld import cache_file as cache_file_module
from trl_agentenvs.alfworld.cache_file import CacheFile


def test_entries_of_another_version_of_the_reader_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "cache"
    old, new = CacheFile(path, "1"), CacheFile(path, "2")
    old.put("a", "old")
    assert new.get("a") is None
    new.put("b", "new")
    assert new.get("b") == "new"
    assert old.get("a") is None
    assert old.get("b") is None


def test_a_cache_that_fails_again_and_again_is_left_alone_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "folder").mkdir()
    cache = CacheFile(tmp_path / "folder", "1")  # a folder cannot be a database
    for _ in range(20):
        cache.put("a", "b")
        assert cache.get("a") is None
    assert [record.levelno for record in caplog.records if record.levelno >= logging.WARNING] == [logging.WARNING]


def test_a_cache_that_has_grown_too_large_is_started_afresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_file_module, "MAX_CACHE_BYTES", 100_000)
    cache = CacheFile(tmp_path / "cache", "1")
    for number in range(60):
        cache.put(str(number), os.urandom(4000).hex())
        assert not cache.path.exists() or cache.path.stat().st_size <= 100_000
    assert cache.get("0") is None


@pytest.mark.parametrize("content", ["", "text", "\u00e9 \U0001f600", "x" * 10**6])
def test_text_comes_back_as_it_was(tmp_path: Path, content: str) -> None:
    cache = CacheFile(tmp_path / "cache", "1")
    cache.put("key", content)
    assert CacheFile(tmp_path / "cache", "1").get("key") == content


def _put_many(path: str, process: int) -> None:
    cache = CacheFile(Path(path), "1")
    for number in range(40):
        cache.put(f"{process} {number}", f"text {process} {number}")
        cache.put("same", "text")
        if cache.get("same") not in (None, "text"):
            os._exit(9)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_processes_share_the_cache(tmp_path: Path) -> None:
    path = tmp_path / "cache"
    CacheFile(path, "1").put("before", "the fork")
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_put_many, args=(str(path), number)) for number in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0, 0]
    cache = CacheFile(path, "1")
    assert cache.get("before") == "the fork"
    kept = [cache.get(f"{process} {number}") for process in range(4) for number in range(40)]
    assert sum(text is not None for text in kept) > 0
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_a_thread_uses_the_cache_does_not_hang_the_child(tmp_path: Path) -> None:
    cache = CacheFile(tmp_path / "cache", "1")
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            cache.put("thread", "text")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(20):
            process = multiprocessing.get_context("fork").Process(target=cache.put, args=("child", "text"))
            process.start()
            process.join(timeout=20)
            assert process.exitcode == 0
    finally:
        stop.set()
        thread.join()


def _put_without_end(path: str) -> None:
    cache = CacheFile(Path(path), "1")
    while True:
        cache.put("key", "text" * 50_000)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_killed_while_it_writes_leaves_a_cache_that_works(tmp_path: Path) -> None:
    path = tmp_path / "cache"
    for delay_s in (0.01, 0.03, 0.05):
        process = multiprocessing.get_context("fork").Process(target=_put_without_end, args=(str(path),))
        process.start()
        while not path.exists():
            time.sleep(0.001)
        time.sleep(delay_s)
        process.kill()
        process.join()
        cache = CacheFile(path, "1")
        assert cache.get("key") in (None, "text" * 50_000)
        cache.put("other", "text")
        assert cache.get("other") == "text"


def test_faults_between_successes_do_not_end_the_use_of_a_cache(tmp_path: Path) -> None:
    cache = CacheFile(tmp_path / "cache.sqlite", "1")
    cache.put("key", "text")
    for _ in range(5):
        cache._note(OSError("locked"))
        assert cache.get("key") == "text"


def test_an_entry_is_found_again_after_any_damage_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    cache = CacheFile(path, "1")
    keys = [f"key {number}" for number in range(40)]
    for key in keys:
        cache.put(key, key * 40)
    whole = path.read_bytes()
    rng = random.Random("damage")
    for _ in range(300):
        damaged = bytearray(whole)
        start = rng.choice([rng.randrange(120), rng.randrange(3600, 4096), rng.randrange(len(whole))])
        length = rng.choice([1, 4, 200])
        damaged[start : start + length] = rng.randbytes(length)
        path.write_bytes(damaged[: rng.choice([len(whole), rng.randrange(len(whole))])])
        cache = CacheFile(path, "1")
        for key in rng.sample(keys, 4):
            assert cache.get(key) in (None, key * 40)
            cache.put(key, key * 40)
            assert cache.get(key) == key * 40 or cache._faults
            cache._faults = 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
def test_a_pipe_in_the_place_of_the_file_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    os.mkfifo(path)
    found: list[str | None] = []

    def use() -> None:
        cache = CacheFile(path, "1")
        cache.put("key", "text")
        found.append(cache.get("key"))

    thread = threading.Thread(target=use, daemon=True)
    thread.start()
    thread.join(20)
    assert found == [None]
    assert path.is_fifo()


def test_a_name_that_is_too_long_is_done_without(tmp_path: Path) -> None:
    cache = CacheFile(tmp_path / ("x" * 5000) / "cache.sqlite", "1")
    cache.put("key", "text")
    assert cache.get("key") is None
