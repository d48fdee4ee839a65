"""Change data capture from PostgreSQL: `io.debezium.connector.postgresql.PostgresConnector`."""
