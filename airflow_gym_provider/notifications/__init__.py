"""Telling people what became of an evaluation, by whatever notifier they have."""
