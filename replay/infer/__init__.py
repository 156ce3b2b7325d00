"""Proposes operator calls for launches without one: from names, grids, durations, and the order in which they ran.

`infer` needs no GPU and no PyTorch. Its candidates are tried by the route `inferred`, which runs them, looks which
kernels come out and how long they take, and goes on from there: on recent GPUs the launch of a matrix product does not
tell its size.

    calls       operator calls as PyTorch's profiler writes them
    grids       what a launch says about its size
    units       launches that one call made; steps of a model
    scene       the dims of the model and of one step: config, rows, elements, bytes
    recorded    the dims of the model from calls that were recorded in the same run
    view        what the rules of a family see: a call to be found, what stands before and after
    pool        shapes that tensors of a model have
    outlines    matrix products from the launch and the duration alone
    experts     those of a mixture of experts
    timing      durations that a roofline expects
    products, pointwise, copies, rowwise, joining, attention, lookups     proposals by family
    propose     all of it together
"""

from __future__ import annotations

from kerneldb.replay.infer.propose import infer

__all__ = ["infer"]
