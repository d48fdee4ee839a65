"""`odradek lag`: whether consumer groups and Spark queries keep up."""
