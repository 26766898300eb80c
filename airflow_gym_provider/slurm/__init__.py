"""Slurm's language: commands out, text in. Pure: nothing here opens a connection or starts a program."""
