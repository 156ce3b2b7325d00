"""Runs recorded kernels again on the GPU and measures their time and energy. Knows no database."""
