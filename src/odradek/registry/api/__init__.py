"""The HTTP endpoints of the registry.

bodies      the bodies of requests and answers
surface     media types, parameters, and what the endpoints share
subjects    /subjects
schemas     /schemas, /compatibility, /contexts, /v1/metadata
settings    /config, /mode
"""
