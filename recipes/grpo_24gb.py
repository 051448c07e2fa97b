"""GRPO with stock TRL on one 24 GB GPU, in any environment of trl_agentenvs.

    accelerate launch recipes/grpo_24gb.py --env alfworld --model Qwen/Qwen3.5-4B
    accelerate launch -m trl_agentenvs.recipes.grpo_24gb --env alfworld --model Qwen/Qwen3.5-4B

    python recipes/grpo_24gb.py --preset cpu-demo          # no GPU: a tiny model, minutes; `make demo` runs it
    python recipes/grpo_24gb.py --dry-run > run.yaml       # the full configuration; edit it, then --config run.yaml
    python recipes/grpo_24gb.py --env my_module:MyEnv ...  # an environment of your own, see examples/own_env.py

Every field of TRL's GRPOConfig and ModelConfig is an option, and a key of the YAML file: preset < YAML < command line.
Mistakes that can be seen before a model is loaded are told in one sentence each, with exit status 2.

README.md beside this file says how long a run takes and what a successful one shows.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from trl_agentenvs.cli import INTERRUPTED, WRONG_INPUT
from trl_agentenvs.training.arguments import UsageError, resolve
from trl_agentenvs.training.launch import build_trainer, run
from trl_agentenvs.training.preflight import PreflightError, preflight
from trl_agentenvs.training.progress import quiet_libraries, say


def main(argv: Sequence[str] | None = None) -> int:
    """Run the recipe and return the exit status: 0, 2 when the run cannot start, 130 when it was interrupted."""
    started = time.monotonic()
    quiet_libraries()
    try:
        resolved = resolve(sys.argv[1:] if argv is None else argv)
        checked = preflight(resolved, dry_run=resolved.values["dry_run"])
        for note in (*resolved.notes, *(f"warning: {text}" for text in checked.warnings)):
            say(note, aside=True)

        if resolved.values["dry_run"]:
            say(resolved.to_yaml())
            for text in checked.stops:
                say(f"a run would stop here: {text}", aside=True)
            return 0

        if checked.budget is not None:
            say(f"budget: {checked.budget}")
        trainer = build_trainer(checked)
        numbers = run(trainer, checked, started=started)
    except (UsageError, PreflightError) as error:
        say(str(error), aside=True)
        return WRONG_INPUT
    return INTERRUPTED if numbers["interrupted"] else 0


if __name__ == "__main__":
    sys.exit(main())
