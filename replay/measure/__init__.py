"""How long replayed calls take: cache states, statistics, CUDA-graph loops."""
