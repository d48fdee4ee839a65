"""Version 2 of the REST API, with the media types `application/vnd.kafka.v2+json`."""
