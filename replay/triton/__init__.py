"""Triton kernels: their sources, how a trace says that they were launched, and how they are launched again.

- `constants`: what a call was launched with (XBLOCK, num_warps, num_stages, grid)
- `standalone`: the source of a user's kernel as one file that needs nothing but Triton
- `watching`: makes launches of users' kernels readable in PyTorch traces, as those of TorchInductor are
- `code`: the code that a plan carries, and what may run it
- `loading`: turns that code into a kernel, compiled with the recorded constants only
"""
