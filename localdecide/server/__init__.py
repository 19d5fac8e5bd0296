"""The HTTP face: guards, routes, sockets. Everything it knows of models comes through `service`."""
