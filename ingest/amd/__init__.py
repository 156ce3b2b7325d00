"""What the readers of AMD's profilers share: agents, registers, launching calls, roctx ranges, rows of launches."""
