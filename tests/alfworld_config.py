"""A config as alfworld's `base_config.yaml` has it: what its text environment reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

MAX_STEPS = 40


def config_of(data: str | Path, max_steps: int = MAX_STEPS, **changed: Any) -> dict[str, Any]:
    """A config.

    Args:
        data: Folder that holds train, valid_seen and valid_unseen.
        max_steps: Commands after which a game is done.
        **changed: Other values, each by section and setting joined by __.
    """
    limits = {"training": {"max_nb_steps_per_episode": max_steps}}
    config: dict[str, Any] = {
        "dataset": {
            "data_path": f"{data}/train",
            "eval_id_data_path": f"{data}/valid_seen",
            "eval_ood_data_path": f"{data}/valid_unseen",
            "num_train_games": -1,
            "num_eval_games": -1,
        },
        "env": {
            "goal_desc_human_anns_prob": 0.0,
            "domain_randomization": False,
            "task_types": [1, 2, 3, 4, 5, 6],
            "expert_type": "handcoded",
        },
        "general": {"training_method": "dqn"},
        "rl": limits,
        "dagger": limits,
    }
    for key, value in changed.items():
        section, _, name = key.partition("__")
        config[section] = {**config[section], name: value}
    return config
