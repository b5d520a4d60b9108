"""What changes a model's support: methods of RLVR, a short trainer, recipes."""
