"""Who goes first: one small file per composition, and a table of presets over them."""
