"""What the public API may cost, counted."""
