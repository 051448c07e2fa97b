"""Text for a terminal: tables, and words from outside that no terminal takes for a command."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["MISSING", "printable", "table"]

MISSING = "-"
CELL_CHARS = 60


def printable(text: str, max_chars: int | None = None) -> str:
    """`text` on one line that no terminal takes for a command: control characters are shown as escapes.

    Args:
        text: Any text, lone surrogates included.
        max_chars: Longer results are cut, with "..." at their end.
    """
    shown = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in (text if max_chars is None else text[: max_chars + 1])
    )
    return shown if max_chars is None or len(shown) <= max_chars else f"{shown[: max_chars - 3]}..."


def table(head: Sequence[str], rows: Iterable[Sequence[str]], align: str) -> str:
    """Rows as aligned columns under a head.

    Args:
        head: Names of the columns.
        rows: Cells, as many in each row as in the head; they are made printable and cut to `CELL_CHARS`.
        align: A letter for each column: "l" stands to the left, "r" to the right.
    """
    cells = [list(head), *([printable(cell, CELL_CHARS) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = []
    for row in cells:
        padded = [
            cell.ljust(width) if side == "l" else cell.rjust(width)
            for cell, width, side in zip(row, widths, align, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])
