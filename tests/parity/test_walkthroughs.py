"""Every official game is won in the engine by the walkthrough in its file.

Needs the official archives, but no TextWorld.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.parity.game_files import official_paths
from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.alfworld.game import Game
from trl_agentenvs.alfworld.wording import NOTHING_HAPPENS

pytestmark = pytest.mark.parity

GAMES = {"train": 3553, "valid_seen": 140, "valid_unseen": 134}
"""Number of games in each split, as published."""


def fault(path: Path) -> str | None:
    """Why the walkthrough of a game does not win it as it should; None if it does."""
    engine = Engine(Game.from_file(path))
    if engine.won:
        return "won at the start"
    if not engine.game.walkthrough:
        return "no walkthrough"
    for command in engine.game.walkthrough:
        if engine.step(command) == NOTHING_HAPPENS:
            return f"refuses {command!r}"
    return None if engine.won else "not won"


@pytest.mark.parametrize("split", GAMES)
def test_every_walkthrough_wins(split: str, all_official_games: Path) -> None:
    paths = official_paths(all_official_games, split)
    assert len(paths) == GAMES[split]
    faults = {f"{path.parent.parent.name}/{path.parent.name}": fault(path) for path in paths}
    assert {name: why for name, why in faults.items() if why is not None} == {}
