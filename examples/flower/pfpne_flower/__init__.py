"""A federation of pfpne as a Flower app; docs/live.md says how to run it."""
