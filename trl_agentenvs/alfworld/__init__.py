"""ALFWorld text games: a pure-Python engine, a generator of new games, an expert player, and the environment."""
