-- `*` with PARTITION BY: the new keys first, then the other values, and the old key at the end.
CREATE STREAM movies (id INT KEY, title STRING, genre STRING)
  WITH (kafka_topic='movies', value_format='DELIMITED', partitions=1);
CREATE STREAM by_title AS SELECT * FROM movies PARTITION BY SPLIT(title, '::')[1];
CREATE STREAM by_alias AS SELECT *, UCASE(title) AS k FROM movies PARTITION BY UCASE(title);
CREATE STREAM by_genre AS SELECT * FROM movies PARTITION BY genre;
CREATE STREAM by_nothing AS SELECT * FROM movies PARTITION BY null;
CREATE STREAM by_two WITH (key_format='JSON') AS
  SELECT * FROM movies PARTITION BY genre, id % 10, LEN(title);

INSERT INTO movies VALUES (294, 'Die Hard::1988', 'action');

ASSERT STREAM by_title (ksql_col_0 STRING KEY, title STRING, genre STRING, id INT);
ASSERT VALUES by_title VALUES ('Die Hard', 'Die Hard::1988', 'action', 294);
ASSERT VALUES by_alias (k, title, genre, id)
  VALUES ('DIE HARD::1988', 'Die Hard::1988', 'action', 294);
ASSERT VALUES by_genre VALUES ('action', 'Die Hard::1988', 294);
ASSERT VALUES by_nothing VALUES ('Die Hard::1988', 'action', 294);
ASSERT VALUES by_two VALUES ('action', 4, 14, 'Die Hard::1988', 294);
