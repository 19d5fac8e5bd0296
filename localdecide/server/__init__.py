"""The HTTP face: create_app(service, settings), guards, streams, sockets, logs."""
