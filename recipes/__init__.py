"""Scripts that people launch: flat and thin, their logic lives in `trl_agentenvs.training`."""
