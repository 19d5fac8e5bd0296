"""What lies on disk: blobs, manifests, names; and how models get there."""
