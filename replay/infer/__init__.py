"""Proposes operator calls for launches without one: from names, grids, durations, and the order in which they ran.

`infer` needs no GPU and no PyTorch. Its candidates are tried by the route `inferred`, which runs them, looks which
kernels come out and how long they take, and goes on from there: on recent GPUs the launch of a matrix product does not
tell its size.

    calls       operator calls as PyTorch's profiler writes them
    grids       what a launch says about its size
    units       launches that one call made; steps of a model
    dims        the dims of the model and of each step: from a config, the launches, or calls recorded in the same run
    view        what the rules of a family see: the call to be found and its neighbours, shapes that fit (the shape
                pool), durations that a roofline expects
    products    matrix products, also of experts and in attention
    size_candidates     sizes of matrix products from the launch and the duration alone
    pointwise, rowwise, data_movement     elementwise operators; softmax, norms, reductions; copies, cat, lookups
    propose     all of it together
    search      the attempts at one call: which candidate to run next, and which one to accept
"""

from __future__ import annotations

from kerneldb.replay.infer.propose import infer

__all__ = ["infer"]
