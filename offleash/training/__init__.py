"""RL with verifiable rewards: recipe, rollouts, update, trainer, checkpoints; methods/ by family."""
