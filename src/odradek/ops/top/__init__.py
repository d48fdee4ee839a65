"""What `odradek top` shows: the figures of a whole cluster, taken again and again.

    figures      what is shown, as plain values
    sampling     asks the brokers with Kafka's own requests, so that it works with any Kafka
    management   reads the management ports of brokers, where they can be reached, for what the
                 protocol does not tell: bytes that consumers fetch, requests, processor, memory
    rates        two samples give the figures a second
    ages         how old the first unread record of a group is, from how end offsets have grown
    events       what has changed between two samples, in words
    monitor      puts these together

Nothing here prints, and nothing here knows a terminal: `odradek.cli.top` draws the page.
"""
