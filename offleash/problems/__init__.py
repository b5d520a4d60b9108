"""What is asked: problems, benchmarks, files of problems, generated problems and prompts."""
