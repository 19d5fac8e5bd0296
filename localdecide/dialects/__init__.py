"""Wire shapes to the core and back: one file a dialect. No arithmetic but each contract's confidence."""
