"""Schema validation: a topic accepts only records that fit the schemas registered for it.

    rules           what a topic wants checked, from its settings
    registered_ids  which schema ids are registered under which subject: asks the registry, and
                    remembers its answers
    asked_registry  the schema registry that the broker's settings name
    content         decodes keys and values with their schemas, in a process of its own
    dead_letters    writes diverted records to the dead-letter topic
    validation      checks a batch: what Produce calls

A broker imports this only if it has `confluent.schema.registry.url`.
"""
