"""The web service: any announced task over HTTP (extra `service`)."""
