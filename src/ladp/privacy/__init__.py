"""What one release costs, what its own paper claims for it, and what can be certified."""
