"""Kinds of decision models, one file each: prompt, options, readout, temperatures. Pure: stdlib and numpy."""
