"""What the public functions return: result.py says what every result can do, the other files hold the results."""
