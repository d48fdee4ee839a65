"""How clients prove who they are: TLS certificates and SASL.

Nothing here is imported by a broker whose listeners are all PLAINTEXT.
"""
