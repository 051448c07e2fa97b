"""What would stop or spoil a run, told before anything heavy is loaded: one clear sentence each, all at once.

Looked at, in this order: the settings among themselves, the machine, the environment and its rows, the model's files
and its chat template, and whether prompt, tool schemas and episode fit together. No weights are loaded, vLLM is not
imported.

What is not covered: whether the model fits into the GPU's memory, and mistakes that only show when the model runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .arguments import ModelArguments, Resolved, RunArguments
from .budget import Budget, measure_budget
from .hinted_rows import fit_hints
from .modelfiles import ModelFiles, open_model_files
from .playability import Playable, open_environment
from .settings import Obstacle, check_machine, check_settings, has_accelerator

if TYPE_CHECKING:
    from trl import GRPOConfig

__all__ = ["Preflight", "PreflightError", "preflight"]


class PreflightError(ValueError):
    """The run cannot start; `findings` are all the reasons, the message has one a line."""

    def __init__(self, findings: list[str]) -> None:
        super().__init__("\n".join(findings))
        self.findings = findings


@dataclass
class Preflight:
    """What was looked at on the way, so that nothing is loaded twice.

    Attributes:
        resolved: The configuration, completed with what only the environment knows.
        findings: All that was found, in the order in which it was looked for.
        playable: The environment and its rows, or None when there is no such environment.
        model: Config and tokenizer (or processor) of the model, or None when there are none yet.
        budget: Tokens of prompt, schemas and episode, or None when they could not be counted.
        built: The objects for TRL, or None when the run cannot start.
    """

    resolved: Resolved
    findings: list[Obstacle] = field(default_factory=list)
    playable: Playable | None = None
    model: ModelFiles | None = None
    budget: Budget | None = None
    built: tuple[RunArguments, GRPOConfig, ModelArguments] | None = None

    @property
    def stops(self) -> list[str]:
        """Why the run cannot start."""
        return [finding.text for finding in self.findings if finding.stops]

    @property
    def warnings(self) -> list[str]:
        """What may spoil the run."""
        return [finding.text for finding in self.findings if not finding.stops]

    def raise_for_stops(self) -> None:
        """Raise `PreflightError` with everything that stops the run, if there is any."""
        if self.stops:
            raise PreflightError(self.stops)


def preflight(resolved: Resolved, *, dry_run: bool = False) -> Preflight:
    """Look at everything that can be looked at without loading a model.

    Args:
        resolved: The configuration; `max_tool_calling_iterations` and `output_dir` are filled in where nobody set them.
        dry_run: Nothing is looked up on the hub, and a missing GPU does not keep TRL from checking its own fields.
    """
    checked = Preflight(resolved)
    values = resolved.values
    env = values["env"].rpartition(":")[2].lower()
    resolved.fill("output_dir", f"runs/{env}-{values['preset']}-seed{values['seed']}", "environment, preset and seed")
    checked.findings += check_settings(values)
    checked.findings += check_machine(values)

    checked.playable, sentences = open_environment(resolved)
    checked.findings += [Obstacle(text) for text in sentences]
    if checked.playable is not None:
        checked.findings += _fit_turns(resolved, checked.playable)
        checked.findings += fit_hints(resolved, checked.playable.train_rows)

    if values["model_name_or_path"] or not values["demo_model"]:
        checked.model, sentences = open_model_files(values, local_only=dry_run)
        checked.findings += [Obstacle(text) for text in sentences]
        # Tokens can be counted with a template that TRL could not train with, but there is no use in it.
        if checked.model is not None and not sentences and checked.playable is not None:
            checked.budget, sentences = measure_budget(values, checked.model, checked.playable)
            fatal = checked.budget is None or checked.budget.left < checked.budget.turn
            checked.findings += [Obstacle(text, stops=fatal) for text in sentences]

    if dry_run or not checked.stops:
        overrides = {"use_cpu": True} if dry_run and not has_accelerator() else {}
        try:
            checked.built = resolved.build(**overrides)
        except (ValueError, TypeError, ImportError) as error:
            checked.findings.append(Obstacle(f"TRL refuses this configuration: {' '.join(str(error).split())}"))
    return checked


def _fit_turns(resolved: Resolved, playable: Playable) -> Iterator[Obstacle]:
    """Take the trainer's turn limit from the environment's, unless somebody set it."""
    turns = playable.max_turns
    if turns is None:
        return
    # One iteration runs the calls of a turn and generates the next turn, so that after the last call there is still
    # room for a closing message.
    resolved.fill("max_tool_calling_iterations", turns, f"{playable.name}.max_turns")
    iterations = resolved.values["max_tool_calling_iterations"]
    if iterations is not None and iterations < turns:
        yield Obstacle(
            f"got max_tool_calling_iterations {iterations}, but an episode may take {turns} calls; it is cut there",
            stops=False,
        )
