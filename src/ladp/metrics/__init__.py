"""What a run shows beside its accuracy."""
