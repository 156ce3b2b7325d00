"""Recording: runs a model (or a script), measures it whole without a profiler, then traces it, into one folder.

`kerneldb record` does it on machines with a database; `python -m kerneldb.replay.recording` needs PyTorch, transformers
and, for energy, the library of a meter only. The folder (`bundle`) is complete after each step, so a recording that was
killed goes on where it stopped, and `kerneldb ingest FOLDER` reads it on any machine.
"""

from __future__ import annotations
