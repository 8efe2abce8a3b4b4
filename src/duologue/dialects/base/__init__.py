"""What the dialects of all versions have in common."""
