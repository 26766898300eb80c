"""Tests of the submit config: a file in, a checked config or every mistake out."""
