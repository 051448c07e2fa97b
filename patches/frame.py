"""What every patch is made of: find the target, replace it, mark it, put it back.

Promises: a target that moved is named, never skipped; the mark lies on the target itself, so a patch is recognised even
when this package was imported under two names; undoing restores the very object that was there, and refuses while
somebody else's replacement lies on top.

A patch is one module of this package with the five names of `Patch`. To add one: write the module, test it, and add its
name to `PATCHES` and to a profile in `__init__.py`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = [
    "MARK",
    "Patch",
    "PatchTargetMoved",
    "Replacement",
    "SteppedAside",
    "Undo",
    "find",
    "is_installed",
    "marked_options",
    "replace",
    "replace_function",
    "undo_together",
]

MARK = "__trl_agentenvs_patches__"  # on a replacement: {patch name: options} of every patch in its chain

Undo = Callable[[], None]

_ABSENT: Any = object()


class Patch(Protocol):
    """The names a patch module has. Its docstring states upstream issue, versions, and when to delete it."""

    GIVES: str  # what the user gets, in half a sentence
    UPSTREAM: str  # the issue it answers, such as "trl#5389"

    def active(self) -> Mapping[str, Any] | None:
        """Return the options it is active with, or None. Imports nothing."""

    def superseded(self) -> str | None:
        """Return why it is not needed here (upstream has the feature, the library is not installed), or None.

        Raises:
            PatchTargetMoved: The library is there, but not as the patch knows it.
        """

    def apply(self, **options: Any) -> Undo:
        """Apply it; a second time is no change. Return a callable that puts back exactly what was there.

        Raises:
            SteppedAside: `superseded` says why.
            PatchTargetMoved: The library is there, but not as the patch knows it.
        """


class SteppedAside(Exception):  # noqa: N818 - not an error: the patch is not needed
    """The patch is not needed here; the message says why."""


class PatchTargetMoved(RuntimeError):  # noqa: N818 - says what happened, as a user reads it
    """What the patch replaces is not where it was.

    Attributes:
        patch: Name of the patch.
        symbol: The symbol it looked for, as "module:qualified.name".
    """

    def __init__(self, patch: str, symbol: str, found: str = "nothing there") -> None:
        """Name the patch, the symbol it looked for, and what it found instead."""
        self.patch, self.symbol = patch, symbol
        super().__init__(
            f"patch {patch} looked for {symbol} and found {found}; expected a supported release (see constraints.txt); "
            f"leave the patch out with apply(without=[{patch!r}]) or install such a release"
        )


def is_installed(module: str) -> bool:
    """Whether a module can be imported; of a dotted name the parents are, otherwise nothing is."""
    return module in sys.modules or importlib.util.find_spec(module) is not None


def find(patch: str, symbol: str) -> tuple[Any, str]:
    """Import a symbol's module and return the object that holds the symbol, and the symbol's own name.

    Args:
        patch: Name of the patch that asks.
        symbol: "module:name" or "module:Class.name".

    Raises:
        SteppedAside: The package is not installed.
        PatchTargetMoved: The package is installed and has no such module or name.
    """
    module_name, _, path = symbol.partition(":")
    package = module_name.partition(".")[0]
    if not is_installed(package):
        raise SteppedAside(f"{package} is not installed")
    try:
        owner: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # one of its own dependencies is missing: that is the user's error to see
        raise PatchTargetMoved(patch, symbol, f"no module {error.name}") from error
    *classes, name = path.split(".")
    for part in [*classes, name]:
        if not hasattr(owner, part):
            raise PatchTargetMoved(patch, symbol)
        if part is not name:
            owner = getattr(owner, part)
    return owner, name


def marked_options(patch: str, symbol: str) -> Mapping[str, Any] | None:
    """Return the options a patch marked its target with, or None where it is not applied. Imports nothing."""
    module_name, _, path = symbol.partition(":")
    target: Any = sys.modules.get(module_name)
    for part in path.split("."):
        target = getattr(target, part, None)
    options: Mapping[str, Any] | None = getattr(target, MARK, {}).get(patch)
    return options


@dataclass(frozen=True)
class Replacement:
    """One attribute of an object, or one item of a mapping, that holds `new` instead of `old`."""

    patch: str
    owner: Any
    name: str
    new: Any
    old: Any

    def require_on_top(self) -> None:
        """Raise RuntimeError unless the replacement is what is in place now."""
        now = _read(self.owner, self.name)
        if now is not self.new:
            others = [name for name in getattr(now, MARK, {}) if name != self.patch]
            by = f"by {' and '.join(others)}" if others else "by somebody else or undone already"
            raise RuntimeError(
                f"cannot undo {self.patch}: {_show(self.owner)}.{self.name} was replaced {by} since; "
                "undo in reverse order of applying"
            )

    def restore(self) -> None:
        """Put `old` back."""
        _write(self.owner, self.name, self.old)


def replace(patch: str, owner: Any, name: str, new: Any) -> Replacement:
    """Put `new` in the place of an attribute of `owner`, or of an item where `owner` is a mapping."""
    replacement = Replacement(patch, owner, name, new, _read(owner, name))
    _write(owner, name, new)
    return replacement


def replace_function(
    patch: str, symbol: str, make: Callable[[Any], Callable[..., Any]], options: Mapping[str, Any] | None = None
) -> Replacement:
    """Replace a function or method by `make(original)`, which keeps its name, signature and docstring, and mark it.

    Args:
        patch: Name of the patch, left in the mark.
        symbol: The function, as "module:name" or "module:Class.name".
        make: Builds the wrapper around the original.
        options: The patch's options, left in the mark.

    Raises:
        SteppedAside: The package is not installed.
        PatchTargetMoved: It has no such function.
    """
    owner, name = find(patch, symbol)
    original = getattr(owner, name)
    wrapper = functools.wraps(original)(make(original))
    setattr(wrapper, MARK, {**getattr(original, MARK, {}), patch: dict(options or {})})
    return replace(patch, owner, name, wrapper)


def undo_together(*replacements: Replacement) -> Undo:
    """Return an undo for several replacements that undoes all of them or, where one is covered, none."""

    def undo() -> None:
        for replacement in replacements:
            replacement.require_on_top()
        for replacement in reversed(replacements):
            replacement.restore()

    return undo


def _read(owner: Any, name: str) -> Any:
    """What `owner` itself holds under `name`, not what it inherits."""
    return (owner if isinstance(owner, MutableMapping) else vars(owner)).get(name, _ABSENT)


def _write(owner: Any, name: str, value: Any) -> None:
    if isinstance(owner, MutableMapping):
        if value is _ABSENT:
            del owner[name]
        else:
            owner[name] = value
    elif value is _ABSENT:
        delattr(owner, name)
    else:
        setattr(owner, name, value)


def _show(owner: Any) -> str:
    return getattr(owner, "__name__", type(owner).__name__)
