"""The engine and TextWorld, side by side, through the same games and the same commands: no difference.

What is covered: 30 official games, 120 more drawn from all splits and task types, 60 generated ones, and a share of
them in the older wording: each played to a win by its walkthrough, then through some errands (`errands.py`), then
through 200 and more commands, right and wrong ones (`commands.py`). The 30 official games also against TextWorld with
nothing memoised. The other way round: games of the generator, written to a folder, are won in TextWorld. Everything
here needs TextWorld and the official games; what is absent is skipped with the reason.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.parity.commands import LONG, Commands
from tests.parity.errands import errands
from tests.parity.game_files import drawn_paths, generated, in_old_wording, official_paths, read
from tests.parity.textworld_play import TextWorld, play
from trl_agentenvs.alfworld.data import SPLITS
from trl_agentenvs.alfworld.expert import Expert
from trl_agentenvs.alfworld.game import Game
from trl_agentenvs.alfworld.generate import TASK_TYPES

pytestmark = pytest.mark.parity

RANDOM_COMMANDS, COMMANDS_IN_STOCK = 210, 10
PLAIN_OF_EACH = {"train": 2, "valid_seen": 1, "valid_unseen": 2}
DRAWN_OF_EACH = {"train": 8, "valid_seen": 6, "valid_unseen": 6}
GENERATED_SEEDS = (7, 42, 1003, 1019, 1777, 2011, 2750, 10_000, 43_210, 99_999)
"""Bundled and further seeds of each split: of the scenes of train, of held-out ones, of rooms of their own."""
PLAIN = [f"plain:{split}:{kind}:{i}" for split in SPLITS for kind in TASK_TYPES for i in range(PLAIN_OF_EACH[split])]
DRAWN = [f"drawn:{split}:{kind}:{i}" for split in SPLITS for kind in TASK_TYPES for i in range(DRAWN_OF_EACH[split])]
GENERATED = [f"generated:{kind}:{seed}" for kind in TASK_TYPES for seed in GENERATED_SEEDS]
OLD = [f"old-plain:{split}:{kind}:0" for split in ("train", "valid_unseen") for kind in TASK_TYPES]
OLD += [f"old-generated:{kind}:{seed}" for kind in TASK_TYPES for seed in (42, 99_999)]
MOST_STEPS = 50  # of the expert


@pytest.fixture
def game(request: pytest.FixtureRequest) -> Path | dict[str, Any]:
    """The game of a name such as `drawn:train:look_at_obj_in_light:3`: a file, or the content of one."""
    folder: Path = request.getfixturevalue("official_games")
    source, *rest = request.param.removeprefix("old-").split(":")
    if source == "generated":
        kind, seed = rest
        content = generated(kind, int(seed), read(official_paths(folder)[0]))
        return in_old_wording(content) if request.param.startswith("old-") else content
    split, kind, index = rest
    if source == "plain":
        path = official_paths(folder, split, kind)[int(index)]
        return in_old_wording(read(path)) if request.param.startswith("old-") else path
    plain = [path.parent.name for path in official_paths(folder)]
    everything: Path = request.getfixturevalue("all_official_games")
    return drawn_paths(everything, split, kind, DRAWN_OF_EACH[split], plain)[int(index)]


Compare = Callable[[TextWorld, "Path | dict[str, Any]", str, int], None]


@pytest.fixture
def assert_no_difference(record_property: Callable[[str, object], None]) -> Compare:
    """Plays a game on both sides: its walkthrough, which must win, errands, and other commands; no turn may differ."""

    def compare(world: TextWorld, game: Path | dict[str, Any], name: str, commands: int) -> None:
        started = time.process_time()
        content = read(game) if isinstance(game, Path) else game
        walkthrough, rng = content["walkthrough"], random.Random(f"parity:{name}")
        script = [*walkthrough, *errands(Game.from_dict(content), rng)]
        player = Commands(rng, script, extra=LONG if name.startswith("plain") else ())
        turns = 0
        different: list[str] = []
        won_by: int | None = None
        for turn in play(world, game, player, len(script) + commands):
            if turn.theirs.won and won_by is None:
                won_by = turns
            turns += 1
            different += [difference] if (difference := turn.difference()) else []
        record_property("states", turns)
        record_property("differences", len(different))
        record_property("cpu_s", time.process_time() - started)
        assert different == [], "\n".join(different[:5])
        assert won_by == len(walkthrough)

    return compare


@pytest.mark.parametrize("game", [*PLAIN, *DRAWN, *GENERATED, *OLD], indirect=True)
def test_no_difference(
    textworld: TextWorld, game: Path | dict[str, Any], assert_no_difference: Compare, request: pytest.FixtureRequest
) -> None:
    assert_no_difference(textworld, game, request.node.callspec.params["game"], RANDOM_COMMANDS)


@pytest.mark.parametrize("game", PLAIN, indirect=True)
def test_no_difference_from_textworld_as_it_is(
    stock_textworld: TextWorld,
    game: Path | dict[str, Any],
    assert_no_difference: Compare,
    request: pytest.FixtureRequest,
) -> None:
    name = request.node.callspec.params["game"].replace("plain", "stock")
    assert_no_difference(stock_textworld, game, name, COMMANDS_IN_STOCK)


@pytest.fixture(params=TASK_TYPES)
def written(request: pytest.FixtureRequest, official_games: Path, tmp_path: Path) -> Path:
    """A generated game as a file in the official layout."""
    folder = tmp_path / "json_2.1.1" / "train" / f"{request.param}-Thing-None-Place-1" / "trial_1"
    folder.mkdir(parents=True)
    path = folder / "game.tw-pddl"
    path.write_text(json.dumps(generated(request.param, 5, read(official_paths(official_games)[0]))), encoding="utf-8")
    return path


def test_textworld_wins_a_generated_game_by_its_walkthrough(stock_textworld: TextWorld, written: Path) -> None:
    state = stock_textworld.start(written)
    assert not state.won
    for command in read(written)["walkthrough"]:
        assert command in state.possible
        state = stock_textworld.step(command)
    assert (state.won, state.score) == (True, 1)


def test_the_expert_wins_a_generated_game_in_textworld(stock_textworld: TextWorld, written: Path) -> None:
    state = stock_textworld.start(written)
    expert = Expert(state.text, random.Random("parity"))
    said = state.text
    for _ in range(MOST_STEPS):
        state = stock_textworld.step(expert.act(said))
        said = state.text
        if state.won:
            return
    raise AssertionError(f"not won within {MOST_STEPS} commands")
