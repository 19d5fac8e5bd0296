"""The child process: one loaded model, a family and an engine behind a pipe."""
