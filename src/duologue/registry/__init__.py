"""Find, install, pin, verify and probe published agents."""
