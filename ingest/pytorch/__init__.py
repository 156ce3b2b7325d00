"""PyTorch profiler traces (Kineto's Chrome JSON), torch 1.8 to 2.13 and later, of every vendor."""
