"""The order of the games is numpy's."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from trl_agentenvs.alfworld.rounds import MAX_SEED, shuffled_rounds

# numpy.random.RandomState(1234).shuffle(list(range(10))), called once and then once more on the result
TWO_ROUNDS = "72910845635182067943"
SEEDS = (0, 1, 1234, 20000, MAX_SEED)


@pytest.mark.parametrize("n", [1, 2, 3, 64, 65, 134, 3553])
@pytest.mark.parametrize("seed", SEEDS)
def test_order_is_that_of_numpy_over_several_rounds(n: int, seed: int) -> None:
    numpy = pytest.importorskip("numpy")
    games = [str(number) for number in range(n)]
    rng, order, expected = numpy.random.RandomState(seed), list(games), []
    for _ in range(3):
        rng.shuffle(order)
        expected += order
    assert list(islice(shuffled_rounds(games, seed), 3 * n)) == expected


def test_order_needs_no_numpy() -> None:
    games = [str(number) for number in range(10)]
    assert "".join(islice(shuffled_rounds(games, 1234), 20)) == TWO_ROUNDS


def test_seed_may_be_a_number_of_numpy() -> None:
    numpy = pytest.importorskip("numpy")
    games = [str(number) for number in range(64)]
    assert list(islice(shuffled_rounds(games, numpy.int64(MAX_SEED)), 64)) == list(
        islice(shuffled_rounds(games, MAX_SEED), 64)
    )


@pytest.mark.parametrize("seed", [1.5, "7", None])
def test_seed_that_is_no_whole_number_is_refused(seed: Any) -> None:
    with pytest.raises(TypeError, match=f"got seed={seed!r}; expected a whole number"):
        shuffled_rounds(["a"], seed)


def test_two_orders_do_not_share_their_random_source() -> None:
    first, second = shuffled_rounds("abcdefgh", 7), shuffled_rounds("abcdefgh", 7)
    assert [next(first) for _ in range(40)] == [next(second) for _ in range(40)]


@pytest.mark.parametrize("seed", [-1, MAX_SEED + 1])
def test_seed_out_of_range_is_refused_at_once(seed: int) -> None:
    with pytest.raises(ValueError, match=f"got seed={seed}; expected 0 to 4294967295"):
        shuffled_rounds(["a"], seed)


def test_no_games_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="got no games"):
        shuffled_rounds([], 0)
