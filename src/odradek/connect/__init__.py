"""Kafka Connect: data comes in and goes out by configuration.

A connector is plain Python without Spark. What is here so far are the parts that every connector
uses, and that depend on nothing but Python:

    records         what sources make and sinks get: values with their schemas
    data/           schemas of values, as Kafka Connect has them
    converters/     values to the bytes of a topic, and back
    transforms/     the single-message transforms and predicates of Kafka Connect
    settings        how plug-ins declare their settings, and what validation says of each
    plugins         which class a configuration means

The names that configurations use for classes are those of Apache Kafka. Nothing from the network
chooses code: a name is looked up in a table of what is installed.
"""
