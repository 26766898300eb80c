"""What the stand-ins for `vllm` and `gym` are made of.

They let a job script run from its first line to its last on a machine without GPUs, containers or models. They speak
the real tools' language (arguments, endpoints, files, exit codes), and nothing of what they compute means anything.
They use the standard library only, and nothing newer than Python 3.9, since they run with whatever Python a node has.
"""

VERSION = "0.7.0+standin"
