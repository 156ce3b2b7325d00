"""The history of a program over its commits: where the time of a kernel changed for good, and what explains it.

Arithmetic only: `kerneldb.warehouse.history` reads the points and stores what is found.
"""
