"""Larger engines that run the same service."""
