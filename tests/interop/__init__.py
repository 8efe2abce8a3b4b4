"""Both sides against the official SDKs, over real pipes between real processes."""
