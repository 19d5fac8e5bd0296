"""Wire contracts: request and answer shapes, errors, the meaning of confidence. One file a dialect."""
