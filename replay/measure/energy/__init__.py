"""Energy of a device: meters, power between steps of their counters, and the energy per call of replayed kernels.

Standard library only, and pynvml, amdsmi or a file system where a meter needs one.
"""
