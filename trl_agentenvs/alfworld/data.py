"""Which games there are, and loading one by its id.

A game id is `generated:TYPE:SEED`, or the path of a `game.tw-pddl` file. The seed tells the split:

| split | bundled seeds of each type | games | further seeds ("endless") | rooms |
| --- | --- | --- | --- | --- |
| train | 0 to 99 | 600 | 10000 to 69999 | 24 scenes of each room kind; a room of its own for each further game |
| valid_seen | 1000 to 1019 | 120 | 1020 to 1999 | the same scenes, other games |
| valid_unseen | 2000 to 2019 | 120 | 70000 to 99999 | 6 scenes of each kind; a room of its own for each further game |

No room of valid_unseen holds the same receptacles as one of the others. Further seeds make games, too: those from
2020 to 2999 in the scenes of valid_unseen, others below 10000 in those of train, from 100000 on each in a room of train
of its own. Generated games are made on demand; no file is shipped. Official games are read from the folder that the
environment variable ALFWORLD_DATA names, in the official layout `json_2.1.1/SPLIT/TASK/TRIAL/game.tw-pddl`; no
`traj_data.json` is needed. Files that were parsed once are not parsed again (`trl_agentenvs.alfworld.game_cache`).

What is not covered: whether an official game is whole; a broken file is refused when it is loaded (`load`), not when it
is listed. Which of the official files are listed is told in `trl_agentenvs.alfworld.official`.
"""

from __future__ import annotations

import numbers
import os
import random
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from trl_agentenvs.alfworld import rooms
from trl_agentenvs.alfworld.game import Game
from trl_agentenvs.alfworld.game_cache import load_game
from trl_agentenvs.alfworld.generate import FIRST_FREE_SEED, TASK_TYPES, UNSEEN_FREE_SEEDS, generate, scene_of
from trl_agentenvs.alfworld.official import DATA_VARIABLE, SPLITS, local_path, official_ids, official_task_type

__all__ = ["CACHED_GAMES", "SOURCES", "SPLITS", "TASK_TYPES", "every_game", "game_ids", "load", "task_type_of"]

SOURCES = ("auto", "official", "generated", "endless")
"""Where games come from: official files, the bundled generated games, or further generated ones beyond those; "auto" is
official if ALFWORLD_DATA is set, else generated."""

CACHED_GAMES = 256
"""How many parsed games a process keeps, the least recently used first to go (about 0.1 MB each)."""

_PREFIX = "generated:"
_BUNDLED_SEEDS: Mapping[str, range] = {
    "train": range(100), "valid_seen": range(1000, 1020), "valid_unseen": range(2000, 2020)}  # fmt: skip
_FURTHER_SEEDS: Mapping[str, range] = {
    "train": range(FIRST_FREE_SEED, UNSEEN_FREE_SEEDS.start),
    "valid_seen": range(1020, 2000),
    "valid_unseen": UNSEEN_FREE_SEEDS,
}


def load(game_id: str | os.PathLike[str]) -> Game:
    """The game of an id; parsed games are cached.

    Args:
        game_id: `generated:TYPE:SEED`, or the path of a game file. One that begins with `json_2.1.1/` is looked for
            below ALFWORLD_DATA, too: so demonstrations name official games.

    Raises:
        FileNotFoundError: There is no file at that path.
        GameFileError: The file is no playable ALFWorld game.
        ValueError: The id starts with "generated:" but is none.
    """
    name = _name(game_id)
    if name.startswith(_PREFIX):
        return _generated(*_type_and_seed(name))
    name = local_path(name)
    try:
        stat = os.stat(name)
    except (OSError, ValueError):
        return load_game(name)  # raises with the reason
    return _official(name, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


@lru_cache(maxsize=CACHED_GAMES)
def _generated(task_type: str, seed: int) -> Game:
    return generate(task_type, seed)


@lru_cache(maxsize=CACHED_GAMES)
def _official(path: str, size_bytes: int, changed_ns: int, status_changed_ns: int) -> Game:
    return load_game(path)


def task_type_of(game_id: str | os.PathLike[str]) -> str | None:
    """The task type that an id names, without loading the game.

    Args:
        game_id: `generated:TYPE:SEED`, or the path of a game file.

    Returns:
        One of `TASK_TYPES`; None if the file does not lie in a folder named like the official ones.

    Raises:
        ValueError: The id starts with "generated:" but is none.
    """
    name = _name(game_id)
    return _type_and_seed(name)[0] if name.startswith(_PREFIX) else official_task_type(name)


def game_ids(
    split: str,
    source: str = "auto",
    n: int | None = None,
    seed: int = 0,
    task_types: Iterable[str] | None = None,
    max_receptacles: int | None = None,
) -> list[str]:
    """The ids of a split.

    Args:
        split: One of `SPLITS`.
        source: One of `SOURCES`.
        n: How many; drawn without replacement, the same for the same seed. None: all, in a fixed order; "endless" needs
            a number.
        seed: Seed of that draw.
        task_types: Only games of these types. None: all six.
        max_receptacles: Only games in rooms with at most so many receptacles. None: any room.

    Returns:
        Game ids for `load`.

    Raises:
        ValueError: An unknown split, source or task type, a number that is none, or fewer than `n` games fit.
        FileNotFoundError: There are no official games where ALFWORLD_DATA points.
        OSError: A folder of them cannot be read.
    """
    _check_split(split)
    kinds = _checked_types(task_types)
    for name, value in (("n", n), ("max_receptacles", max_receptacles)):
        _check_count(name, value)
    if source not in SOURCES:
        raise ValueError(f"got the source {source!r}; expected one of {', '.join(SOURCES)}")
    if source == "auto":
        source = "official" if os.environ.get(DATA_VARIABLE) else "generated"
    if source == "endless" and n is None:
        raise ValueError("got the source 'endless' without n; expected how many games to draw")
    if source == "official":
        ids = official_ids(split, kinds, max_receptacles)
    else:
        seeds = _BUNDLED_SEEDS if source == "generated" else _FURTHER_SEEDS
        ids = _generated_ids(seeds[split], kinds, max_receptacles)
    hint = "ask for fewer limits" if source == "endless" else "or use source='endless'"
    return _drawn(ids, split, n, seed, f"{source} {split} games fit; lower n, {hint}")


def every_game(split: str, source: str = "auto") -> list[str]:
    """All games of a split; those of "endless", too, of which there are up to 360,000.

    Args:
        split: One of `SPLITS`.
        source: One of `SOURCES`.

    Raises:
        ValueError: An unknown split or source.
        FileNotFoundError: There are no official games where ALFWORLD_DATA points.
        OSError: A folder of them cannot be read.
    """
    if source == "endless":
        _check_split(split)
        return _generated_ids(_FURTHER_SEEDS[split], TASK_TYPES, None)
    return game_ids(split, source=source)


def _name(game_id: object) -> str:
    """A game id as text."""
    name = os.fspath(game_id) if isinstance(game_id, str | os.PathLike) else ""
    if not isinstance(name, str) or not name:
        raise ValueError(f"got the game id {game_id!r}; expected 'generated:TYPE:SEED' or the path of a game file")
    return name


def _check_split(split: str) -> None:
    if split not in SPLITS:
        raise ValueError(f"got the split {split!r}; expected one of {', '.join(SPLITS)}")


def _check_count(name: str, value: object) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, numbers.Integral)):
        raise ValueError(f"got {name}={value!r}; expected an integer")


def _checked_types(task_types: object) -> tuple[str, ...]:
    """The types asked for, in the official order."""
    if task_types is None:
        return TASK_TYPES
    asked = tuple(task_types) if isinstance(task_types, Iterable) and not isinstance(task_types, str) else (task_types,)
    unknown = [kind for kind in asked if kind not in TASK_TYPES]
    if unknown:
        raise ValueError(f"got the task type {unknown[0]!r}; expected one of {', '.join(TASK_TYPES)}")
    if not asked:
        raise ValueError("got no task type; expected at least one, or None for all six")
    return tuple(kind for kind in TASK_TYPES if kind in asked)


def _drawn(ids: Sequence[str], split: str, n: int | None, seed: int, complaint: str) -> list[str]:
    if n is None:
        return list(ids)
    if n < 0 or n > len(ids):
        raise ValueError(f"got n={n}; only {len(ids)} {complaint}" if n > 0 else f"got n={n}; expected 0 or more")
    return random.Random(f"alfworld draw:{split}:{seed}").sample(ids, n)


def _generated_ids(seeds: range, kinds: Sequence[str], max_receptacles: int | None) -> list[str]:
    return [
        f"{_PREFIX}{kind}:{seed}"
        for kind in kinds
        for seed in seeds
        if max_receptacles is None or rooms.size_of(scene_of(kind, seed)) <= max_receptacles
    ]


def _type_and_seed(game_id: str) -> tuple[str, int]:
    kind, _, seed = game_id.removeprefix(_PREFIX).partition(":")
    if kind not in TASK_TYPES or not (seed.isascii() and seed.isdigit()):
        raise ValueError(
            f"got the game id {game_id!r}; expected generated:TYPE:SEED with TYPE one of "
            f"{', '.join(TASK_TYPES)} and SEED a non-negative integer"
        )
    return kind, int(seed)
