"""Nested stratified subsets: prefixes of one order, each with its share of every task type."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import pytest

from trl_agentenvs.alfworld import data
from trl_agentenvs.alfworld.subsets import share, stratified_order

OFFICIAL_TRAIN = {
    "look_at_obj_in_light": 308,
    "pick_and_place_simple": 790,
    "pick_clean_then_place_in_recep": 650,
    "pick_cool_then_place_in_recep": 533,
    "pick_heat_then_place_in_recep": 459,
    "pick_two_obj_and_place": 813,
}
PUBLISHED_SIZES = (33, 340, 3405)


def official(root: str = "") -> list[str]:
    """Paths like those of the official train split."""
    return [
        f"{root}/json_2.1.1/train/{kind}-Mug-None-Desk-{number % 30}/trial_{number:04}/game.tw-pddl"
        for kind, size in OFFICIAL_TRAIN.items()
        for number in range(size)
    ]


def counts(games: list[str]) -> Counter[str | None]:
    return Counter(map(data.task_type_of, games))


def test_an_order_holds_every_game_once() -> None:
    games = official()
    order = stratified_order(games, 5)
    assert sorted(order) == sorted(games)


@pytest.mark.parametrize("sizes", [OFFICIAL_TRAIN, dict.fromkeys(OFFICIAL_TRAIN, 3), {"pick_two_obj_and_place": 7}])
def test_every_prefix_holds_each_type_in_proportion(sizes: dict[str, int]) -> None:
    games = [f"generated:{kind}:{seed}" for kind, size in sizes.items() for seed in range(size)]
    so_far: Counter[str] = Counter()
    for length, game in enumerate(stratified_order(games, 1), 1):
        so_far[game.split(":")[1]] += 1
        for kind, size in sizes.items():
            assert abs(so_far[kind] - Fraction(length * size, len(games))) < 1


def test_the_published_sizes_are_nested_and_each_holds_all_types() -> None:
    games = official()
    order = stratified_order(games)
    subsets = [set(order[:size]) for size in (*PUBLISHED_SIZES, len(games))]
    assert all(small < large for small, large in itertools.pairwise(subsets))
    assert counts(order[:33]) == {kind: size // 100 for kind, size in OFFICIAL_TRAIN.items()}


def test_one_percent_of_the_official_games_is_33_and_all_of_them_3553() -> None:
    games = official()
    assert share(games, Fraction("0.01")) == 33
    assert share(games, Fraction(1)) == len(games) == 3553


def test_a_share_is_exact_where_floats_are_not() -> None:
    games = [f"generated:pick_and_place_simple:{seed}" for seed in range(100)]
    assert int(0.29 * 100) == 28
    assert share(games, Fraction("0.29")) == 29


def test_larger_fractions_hold_smaller_ones() -> None:
    games = official()
    sizes = [share(games, Fraction(percent, 100)) for percent in range(1, 101)]
    assert sizes == sorted(sizes)


def test_a_seed_fixes_the_order_and_another_gives_another() -> None:
    games = official()
    assert stratified_order(games, 3) == stratified_order(games, 3)
    assert set(stratified_order(games, 3)[:33]) != set(stratified_order(games, 4)[:33])


def test_the_order_does_not_depend_on_where_the_games_lie() -> None:
    here, there = (stratified_order(official(root), 2) for root in ("/a", "/z/pick_and_place_simple-x/deep"))
    assert [game.removeprefix("/a") for game in here] == [
        game.removeprefix("/z/pick_and_place_simple-x/deep") for game in there
    ]


def test_the_order_does_not_depend_on_how_the_games_are_listed() -> None:
    games = official()
    assert stratified_order(reversed(games)) == stratified_order(games)


def test_the_games_that_are_given_stay_as_they_are() -> None:
    games = official()
    stratified_order(games)
    assert games == official()


def test_no_games_have_an_empty_order() -> None:
    assert stratified_order([]) == []
    assert share([], Fraction(1)) == 0
