"""What a recording of demonstrations tells: how far it is, and at its end a table and every kind of loss.

What is not covered: the names of all lost games, which are in the file beside the rows.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trl_agentenvs.alfworld import data
from trl_agentenvs.alfworld.env import ALFWorldEnv
from trl_agentenvs.terminal import MISSING, printable, table

__all__ = ["Recording", "progress", "render"]

SHOWN_GAMES = 10
SECONDS_A_LINE = 10.0
BYTES_A_MEGABYTE = 1e6


@dataclass
class Recording:
    """What was recorded.

    Attributes:
        steps: Commands of each demonstration, by task type.
        lost: Name of each game that gave none -> why.
        crashes: Name of each game that was won in one play of this run and raised an exception in another -> which.
    """

    steps: dict[str | None, list[int]] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    crashes: dict[str, str] = field(default_factory=dict)

    @property
    def demos(self) -> int:
        """How many demonstrations there are."""
        return sum(map(len, self.steps.values()))

    def note(self, task_type: str | None, steps: int) -> None:
        """Count a demonstration."""
        self.steps.setdefault(task_type, []).append(steps)


def render(recording: Recording, out: Path, wanted: int | None, wall_s: float) -> str:
    """What was recorded, for the terminal.

    Args:
        recording: What was recorded.
        out: Where it is.
        wanted: How many demonstrations were asked for; None: as many as there are.
        wall_s: Seconds it took.
    """
    lost = Counter(data.task_type_of(name) for name in recording.lost)
    kinds = [kind for kind in (*data.TASK_TYPES, None) if recording.steps.get(kind) or lost[kind]]
    rows = [_figures(kind or MISSING, recording.steps.get(kind, []), lost[kind]) for kind in kinds]
    every = [steps for kind in kinds for steps in recording.steps.get(kind, [])]
    rows.append(_figures("all", every, lost.total()))
    lines = [table(["task type", "games", "demos", "lost", "mean steps"], rows, "lrrrr")]
    for title, listed in (
        ("gave no demonstration", recording.lost),
        ("raised an exception in a play that was not kept", recording.crashes),
    ):
        if listed:
            lines += ["", f"Games that {title}: {len(listed)}"]
            lines += [
                printable(f"  {ALFWorldEnv._row_id({'game': name})}: {reason}")
                for name, reason in list(listed.items())[:SHOWN_GAMES]
            ]
            if len(listed) > SHOWN_GAMES:
                lines.append(f"  and {len(listed) - SHOWN_GAMES} more")
    short = f" of {wanted} asked for" if recording.demos < (wanted or 0) else ""
    size = out.stat().st_size / BYTES_A_MEGABYTE
    lines += ["", printable(f"Demonstrations: {recording.demos}{short} in {out} ({size:.1f} MB), {wall_s:.1f} s")]
    return "\n".join(lines)


def _figures(kind: str, steps: Sequence[int], lost: int) -> list[str]:
    mean = f"{sum(steps) / len(steps):.1f}" if steps else MISSING
    return [kind, str(len(steps) + lost), str(len(steps)), str(lost), mean]


@contextlib.contextmanager
def progress(total: int) -> Iterator[Callable[[Recording], None]]:
    """Show on stderr how far it is: as a bar in a terminal, else as a line now and then."""
    if sys.stderr.isatty():
        from tqdm.auto import tqdm  # type: ignore[import-untyped]

        with tqdm(desc="demonstrations", total=total, dynamic_ncols=True, leave=False) as bar:

            def move(recording: Recording) -> None:
                bar.set_postfix_str(f"{len(recording.lost)} lost", refresh=False)
                bar.update(recording.demos - bar.n)

            yield move
        return
    told = time.monotonic()

    def tell(recording: Recording) -> None:
        nonlocal told
        if time.monotonic() - told >= SECONDS_A_LINE:
            told = time.monotonic()
            print(f"demonstrations: {recording.demos} of {total}, lost games: {len(recording.lost)}", file=sys.stderr)

    yield tell
