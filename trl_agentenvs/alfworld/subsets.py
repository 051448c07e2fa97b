"""Subsets of games that are nested and hold each task type in proportion: the prefixes of one order of all games.

`stratified_order` shuffles the games of each type and spreads them evenly over the order (the allocation of Webster and
Sainte-Lague, whose seats never move when the house grows): whatever the length of a prefix, each type has its share of
it, give or take one game, and a shorter prefix is part of every longer one. The same games and seed give the same
order, however they are listed and wherever their files lie. What is not covered: anything to balance but the task type.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction

from trl_agentenvs.alfworld import data

__all__ = ["share", "stratified_order"]


def stratified_order(games: Iterable[str], seed: int = 0) -> list[str]:
    """Put games into an order of which every prefix holds the task types in proportion.

    Args:
        games: Game ids.
        seed: Seed of the order within each type.
    """
    of_type: dict[str, list[str]] = {}
    for game in games:
        of_type.setdefault(str(data.task_type_of(game)), []).append(game)
    common = math.lcm(*map(len, of_type.values()))
    placed: list[tuple[int, str, str]] = []
    for task_type, members in of_type.items():
        members.sort()
        random.Random(f"alfworld subset:{seed}:{task_type}").shuffle(members)
        gap = common // len(members)
        # The n games of a type stand at (1/2)/n, (3/2)/n, ... of the way; in whole numbers, so that ties are exact.
        placed += [((2 * index + 1) * gap, task_type, game) for index, game in enumerate(members)]
    return [game for _, _, game in sorted(placed, key=lambda place: place[:2])]


def share(games: Iterable[str], fraction: Fraction) -> int:
    """How many games a fraction of each task type is, rounded down in each: 33 for 1 % of the official train split.

    Args:
        games: Game ids.
        fraction: From 0 to 1.
    """
    sizes = Counter(map(data.task_type_of, games))
    return sum(math.floor(fraction * size) for size in sizes.values())
