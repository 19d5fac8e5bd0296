"""The terminal: one file a command; everything it knows it asks the daemon over HTTP."""
