"""Bytes from elsewhere into blobs: resumable, checked, shared between processes."""
