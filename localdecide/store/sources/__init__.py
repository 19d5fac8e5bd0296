"""Where models come from. Each file is one kind of place; `choose` finds the right one for a reference."""
