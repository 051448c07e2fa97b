"""What stands between an environment and a trainer: logging, presets, checks before a run, a warm start."""
