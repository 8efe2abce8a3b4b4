"""The client's side on the wire of version 2."""
