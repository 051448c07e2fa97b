"""Settings every test shares: no network, quiet libraries, and trainers that do not see each other's process group."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["TRL_AGENTENVS_CACHE"] = "off"  # the user's cache of parsed games is not ours

REPO = Path(__file__).resolve().parent.parent
PROCESS_GROUP = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


@pytest.fixture(scope="session")
def repo() -> Path:
    """The checkout."""
    return REPO


@pytest.fixture(scope="session")
def official_games() -> Path:
    """Folder with official games in the ALFWORLD_DATA layout; skips where there are none."""
    folder = Path(os.environ.get("ALFWORLD_GAMES", REPO.parent / "shared" / "alfworld_games"))
    if not (folder / "json_2.1.1").is_dir():
        pytest.skip(f"no official ALFWorld games: {folder / 'json_2.1.1'} does not exist (set ALFWORLD_GAMES)")
    return folder


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trainer with a colocated engine writes its process group into the environment; ALFWORLD_DATA is the user's."""
    for name in (*PROCESS_GROUP, "ALFWORLD_DATA"):
        monkeypatch.delenv(name, raising=False)
