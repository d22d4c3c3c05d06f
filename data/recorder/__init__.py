"""Records the bundled sessions: scripts of turns whose every tool call is really executed."""
