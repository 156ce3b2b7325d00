"""Replays one plan on many devices of one host: a worker each, and a group of workers for collectives."""
