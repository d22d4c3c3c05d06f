"""One module per scenario family; each has `TITLE`, `PROJECT` (folder name) and `play(r)`."""
