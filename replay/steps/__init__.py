"""Recorded steps as a whole: which tensors their calls share, and what a worker needs to run them again."""
