"""localdecide: typed decisions with a probability for every answer, on your own machine."""

__version__ = "0.1.0"
