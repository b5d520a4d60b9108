"""The paper's theory, run and tested in small worlds whose probabilities are known exactly."""
