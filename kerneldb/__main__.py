"""`python -m kerneldb` is the program `kerneldb`."""

from __future__ import annotations

from kerneldb.cli import main

if __name__ == "__main__":
    main()
