"""The official games as archives, one for each split: read one by one, without unpacking 330 MB."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from trl_agentenvs.alfworld.game import Game


def archived_games(folder: Path, split: str) -> Iterator[Game]:
    """The games of a split; skips where there is no archive of it.

    Args:
        folder: Folder with official games.
        split: "train", "valid_seen" or "valid_unseen".
    """
    archive = folder / "archives" / f"{split}.tar.xz"
    if not archive.is_file():
        pytest.skip(f"no archive of the official split: {archive} does not exist")
    with tarfile.open(archive) as files:
        for member in files:
            content = files.extractfile(member)
            if content is not None:
                yield Game.from_dict(json.load(content), path=member.name)
