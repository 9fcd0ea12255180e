"""The stacked engine's parts: a model as a program over all clients at once, and Triton kernels for its steps."""
