"""Every official game: won by the walkthrough in its file and by the planner, and counted in `whereabouts.json`.

Needs the official archives, but no TextWorld.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.official_archives import archived_games
from trl_agentenvs.alfworld import whereabouts
from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.alfworld.game import Game
from trl_agentenvs.alfworld.planner import plan
from trl_agentenvs.alfworld.wording import NOTHING_HAPPENS

pytestmark = pytest.mark.parity

GAMES = {"train": 3553, "valid_seen": 140, "valid_unseen": 134}
"""Number of games in each split, as published."""


def fault(game: Game, commands: Sequence[str]) -> str | None:
    """Why commands do not win a game as they should; None if they do."""
    engine = Engine(game)
    if engine.won:
        return "won at the start"
    if not commands:
        return "no commands"
    for command in commands:
        if engine.step(command) == NOTHING_HAPPENS:
            return f"refuses {command!r}"
    return None if engine.won else "not won"


@pytest.mark.parametrize("split", GAMES)
def test_every_walkthrough_wins_and_every_plan_in_no_more_commands_on_the_whole(
    split: str, official_games: Path
) -> None:
    games, planned, written = 0, 0, 0
    faults: list[tuple[str | None, str]] = []
    for game in archived_games(official_games, split):
        plans = (game.walkthrough, plan(Engine(game)))
        faults += [(game.path, why) for commands in plans if (why := fault(game, commands))]
        games, written, planned = games + 1, written + len(plans[0]), planned + len(plans[1])
    assert faults == []
    assert games == GAMES[split]
    assert planned <= written


def test_the_shipped_counts_are_those_of_the_train_split(official_games: Path) -> None:
    counted = whereabouts.text_of(whereabouts.count(archived_games(official_games, "train")))
    assert counted == whereabouts.FILE.read_text(encoding="utf-8")
