"""The version that every run folder names."""

VERSION = "0.1.0"
