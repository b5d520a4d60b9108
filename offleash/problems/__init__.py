"""Problems: benchmarks, problem files, generated problems, and the prompts that models get."""
