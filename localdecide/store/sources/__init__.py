"""Where models come from, one file a place, one small protocol."""
