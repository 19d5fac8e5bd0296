"""Weights of our own arithmetic on hidden rows, in NumPy float32."""
