"""A run: plan what is to be done, leave out what is done, do the rest, append, summarise."""
