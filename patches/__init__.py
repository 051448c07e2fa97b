"""Fixes of TRL and of what it stands on, applied at run time and taken back when asked.

    from trl_agentenvs import patches
    patches.apply("24gb")                # for the life of the process: before the trainer is built
    with patches.applied("24gb"): ...    # for a while

Promises: nothing of TRL is imported before `apply`; a patch that upstream made needless steps aside and says so; one
whose target moved raises `PatchTargetMoved` with the symbol it looked for; applying twice changes nothing; what is
undone is restored exactly. Each patch's own module says which upstream issue it answers and when to delete it.

Limits: patches hold for the process, not for one trainer; a subclass of GRPOTrainer that overrides a patched method
without calling it gets the unpatched behaviour there.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from .frame import Patch, PatchTargetMoved, SteppedAside, Undo

__all__ = ["PATCHES", "PROFILES", "PatchTargetMoved", "applied", "apply", "status"]

logger = logging.getLogger("trl_agentenvs.patches")

# In the order in which they are applied.
PATCHES: tuple[str, ...] = ("keep_whitespace", "recover_calls", "episode_end")

# Profile -> the patches it stands for, each with its options.
PROFILES: dict[str, dict[str, dict[str, Any]]] = {
    "24gb": {"keep_whitespace": {}, "recover_calls": {}, "episode_end": {}},
}


def apply(
    profile: str = "24gb",
    *,
    only: Iterable[str] | None = None,
    without: Iterable[str] = (),
    **options: Mapping[str, Any],
) -> list[str]:
    """Apply a profile's patches for the life of the process.

    Args:
        profile: Which patches; see `PROFILES`.
        only: Apply these patches alone, in the profile or not.
        without: Leave these out.
        **options: Patch name -> its options, over those of the profile: `recover_calls={"max_in_a_row": 5}`.

    Returns:
        The chosen patches that are active now, whether applied by this call or before. One that stepped aside is not
        among them; `status` says why.

    Raises:
        ValueError: There is no such profile or patch.
        PatchTargetMoved: A target is not where it was; none of the patches of this call stays applied.
        RuntimeError: A patch is active already with other options than those given.
    """
    return _apply(profile, only, without, options)[0]


@contextlib.contextmanager
def applied(
    profile: str = "24gb",
    *,
    only: Iterable[str] | None = None,
    without: Iterable[str] = (),
    **options: Mapping[str, Any],
) -> Iterator[list[str]]:
    """Apply patches as `apply` does, and undo in reverse order, on leaving, those that were not active before.

    Contexts nest. Raises RuntimeError on leaving where another replacement was put on top in between.
    """
    active, undos = _apply(profile, only, without, options)
    try:
        yield active
    finally:
        _undo(undos)


def status() -> dict[str, str]:
    """Say of each patch "active", "not applied", "stepped aside: REASON" or "target moved: REASON".

    It asks the patched libraries themselves and imports those that are installed: seconds, in a fresh process.
    """
    return {name: _state(_load(name)) for name in PATCHES}


def _state(patch: Patch) -> str:
    if patch.active() is not None:
        return "active"
    try:
        reason = patch.superseded()
    except PatchTargetMoved as error:
        return f"target moved: {error}"
    return "not applied" if reason is None else f"stepped aside: {reason}"


def _apply(
    profile: str, only: Iterable[str] | None, without: Iterable[str], options: Mapping[str, Mapping[str, Any]]
) -> tuple[list[str], list[Undo]]:
    """Apply the chosen patches; return the active ones and the undo of each one newly applied."""
    active: list[str] = []
    undos: list[Undo] = []
    try:
        for name, chosen in _choose(profile, only, without, options).items():
            patch = _load(name)
            before = patch.active()
            if before is not None:
                if name in options and dict(before) != chosen:
                    raise RuntimeError(
                        f"patch {name} got options {chosen}; it is active with {dict(before)}; undo it first"
                    )
                active.append(name)
                continue
            try:
                undos.append(patch.apply(**chosen))
            except SteppedAside as reason:
                logger.info("%s stepped aside: %s", name, reason)
                continue
            active.append(name)
            logger.info("%s is active: %s (%s)", name, patch.GIVES, patch.UPSTREAM)
    except BaseException:
        _undo(undos)
        raise
    return active, undos


def _choose(
    profile: str, only: Iterable[str] | None, without: Iterable[str], options: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """The chosen patches in the order of applying, each with its options."""
    if profile not in PROFILES:
        raise ValueError(f"got profile {profile!r}; expected one of {', '.join(PROFILES)}")
    if isinstance(only, str) or isinstance(without, str):
        raise ValueError(f"got only={only!r}, without={without!r}; expected lists of patch names")
    wanted = list(PROFILES[profile]) if only is None else list(only)
    unwanted = list(without)
    for name in (*wanted, *unwanted, *options):
        if name not in PATCHES:
            raise ValueError(f"got patch {name!r}; expected some of {', '.join(PATCHES)}")
    chosen = [name for name in PATCHES if name in wanted and name not in unwanted]
    idle = [name for name in options if name not in chosen]
    if idle:
        raise ValueError(f"got options of {', '.join(idle)}; expected options of patches applied here: {chosen}")
    return {name: {**PROFILES[profile].get(name, {}), **options.get(name, {})} for name in chosen}


def _load(name: str) -> Patch:
    return cast(Patch, importlib.import_module(f"{__name__}.{name}"))


def _undo(undos: list[Undo]) -> None:
    with contextlib.ExitStack() as stack:
        for undo in undos:
            stack.callback(undo)
