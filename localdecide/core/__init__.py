"""Pure decisions: questions, answers, names, errors. Standard library only, no I/O."""
