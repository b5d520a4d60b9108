"""RL with verifiable rewards: recipe, rollouts, update, loop, checkpoints, metrics; methods/ by family."""
