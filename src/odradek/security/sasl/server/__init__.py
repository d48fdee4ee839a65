"""The broker's side of SASL: one module for each mechanism."""
