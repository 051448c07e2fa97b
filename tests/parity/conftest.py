"""What the parity tests share: TextWorld, the games, and the count of what was compared.

A test adds the properties `states` and `differences` to its report; the sum closes the run, as in
`parity: 264 games played, 50,000 states compared, 0 differences`.
"""

from __future__ import annotations

import platform
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.parity.textworld_play import TextWorld, memoised_parsing, versions

_STARTED = time.perf_counter()


@pytest.fixture(scope="session")
def stock_textworld() -> TextWorld:
    """TextWorld as it is; skips where it is not installed or cannot run."""
    if sys.version_info >= (3, 13):
        pytest.skip("TextWorld's PDDL games do not run on Python 3.13 and later; use Python 3.11 or 3.12")
    try:
        return TextWorld()
    except ImportError as error:
        pytest.skip(f"the games are compared with TextWorld and alfworld, which are not installed ({error})")


@pytest.fixture
def textworld(stock_textworld: TextWorld) -> Iterator[TextWorld]:
    """TextWorld with its two parsers of short texts memoised, several times as fast."""
    with memoised_parsing():
        yield stock_textworld


@pytest.fixture(scope="session")
def all_official_games(official_games: Path) -> Iterator[Path]:
    """A folder with all 3,827 official games of the three splits (330 MB, removed at the end)."""
    archives = sorted((official_games / "archives").glob("*.tar.xz"))
    if len(archives) != 3:
        pytest.skip(f"{official_games / 'archives'} does not hold the three archives of the official splits")
    with tempfile.TemporaryDirectory(prefix="alfworld_parity_") as temporary:
        for archive in archives:
            with tarfile.open(archive) as tar:
                tar.extractall(temporary, filter="data")
        yield Path(temporary)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how much was compared."""
    reports = [r for outcome in ("passed", "failed") for r in terminalreporter.stats.get(outcome, [])]
    counted = [counts for r in reports if "states" in (counts := dict(r.user_properties))]
    if not counted:
        return
    total = {key: sum(counts[key] for counts in counted) for key in ("states", "differences", "cpu_s")}
    wall_s = time.perf_counter() - _STARTED
    compared_with = ", ".join(f"{package} {number}" for package, number in versions().items())
    terminalreporter.write_line(
        f"parity: {len(counted)} games played, {total['states']:,} states compared, "
        f"{total['differences']} differences; {compared_with}, Python {platform.python_version()}; "
        f"{wall_s:.0f} s wall, {total['cpu_s']:.0f} s CPU in the games"
    )
