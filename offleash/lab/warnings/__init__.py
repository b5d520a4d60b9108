"""Early warning: how early a signal announces the loss of support, measured in the lab."""
