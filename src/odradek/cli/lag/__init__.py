"""`odradek lag` and `odradek top`: whether consumers keep up, and what the cluster is doing."""
