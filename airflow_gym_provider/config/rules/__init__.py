"""Rules that look at more than one field of a submit config."""
