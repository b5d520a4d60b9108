"""Models between two checkpoints: their weights interpolated, tensor by tensor."""
