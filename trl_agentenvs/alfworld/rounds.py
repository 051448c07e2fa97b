"""The order in which alfworld plays its games for a seed.

What is covered: the order of TextWorld's batch environment, which shuffles with numpy's `RandomState(seed)`: all games
once, then all again in another order, without end. numpy promises never to change what that generator gives, so the
order is computed here without numpy. What is not covered: other seeds than whole numbers, and any other draw of numpy.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Iterator, Sequence

__all__ = ["MAX_SEED", "shuffled_rounds"]

_WORD_BITS = 32
MAX_SEED = (1 << _WORD_BITS) - 1
"""The largest seed."""

_STATE_WORDS = 624  # size, multiplier and shift of the Mersenne Twister's seeding (MT19937)
_MULTIPLIER = 1812433253
_SHIFT = 30
_STATE_VERSION = 3  # of what random.Random.setstate takes


def shuffled_rounds(games: Sequence[str], seed: int) -> Iterator[str]:
    """All games in shuffled order, shuffled anew for each further round, without end.

    Args:
        games: At least one.
        seed: 0 to `MAX_SEED`.

    Raises:
        TypeError: The seed is no whole number.
        ValueError: The seed is out of range, or there are no games.
    """
    try:
        seed = operator.index(seed)  # numpy's integers would overflow below
    except TypeError:
        raise TypeError(f"got seed={seed!r}; expected a whole number from 0 to {MAX_SEED}") from None
    if not games:
        raise ValueError("got no games; expected at least one")
    if not 0 <= seed <= MAX_SEED:
        raise ValueError(f"got seed={seed}; expected 0 to {MAX_SEED}")
    return _rounds(list(games), _numpy_generator(seed))


def _rounds(order: list[str], rng: random.Random) -> Iterator[str]:
    while True:
        for last in range(len(order) - 1, 0, -1):
            other = _up_to(last, rng)
            order[last], order[other] = order[other], order[last]
        yield from order


def _numpy_generator(seed: int) -> random.Random:
    """Python's generator in the state into which numpy puts the same generator for this seed."""
    words = [seed]
    for position in range(1, _STATE_WORDS):
        mixed = words[-1] ^ (words[-1] >> _SHIFT)
        words.append((_MULTIPLIER * mixed + position) & MAX_SEED)
    rng = random.Random(f"alfworld order:{seed}")
    rng.setstate((_STATE_VERSION, (*words, _STATE_WORDS), None))
    return rng


def _up_to(limit: int, rng: random.Random) -> int:
    """A number from 0 to `limit`, as numpy draws it: the low bits of a word, drawn again while they say more."""
    mask = (1 << limit.bit_length()) - 1
    while True:
        number = rng.getrandbits(_WORD_BITS) & mask
        if number <= limit:
            return number
