"""Triton kernels: their sources, how a trace says that they were launched, and how they are launched again.

- `code`: the code that a plan carries, whether it may run, and what a call was launched with (XBLOCK, num_warps, grid)
- `loading`: turns that code into a kernel, compiled with the recorded constants only; or compiles lost kernels again
"""
