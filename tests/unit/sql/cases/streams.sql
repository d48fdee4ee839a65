-- Selecting, keys, types, times, formats.
CREATE TYPE address AS STRUCT<street STRING, `no` INT>;
CREATE STREAM s (id INT KEY, x STRING, a address, l ARRAY<INT>, m MAP<STRING, INT>, d DATE, ts TIMESTAMP)
  WITH (kafka_topic='s', value_format='JSON', partitions=1);
CREATE STREAM shaped AS
  SELECT id AS k, UCASE(x) AS u, a->street AS street, a->`no` + 1 AS n, l[1] AS f, m['a'] AS ma,
         TRANSFORM(l, e => e * 2) AS doubled, FORMAT_DATE(d, 'yyyy/MM/dd') AS day,
         CASE WHEN ARRAY_LENGTH(l) > 1 THEN 'many' ELSE 'few' END AS many, AS_VALUE(id) AS id2
  FROM s WHERE x LIKE 'a%' OR x IS NULL;
CREATE STREAM rekeyed WITH (key_format='JSON') AS SELECT x, id, l FROM s PARTITION BY x;
CREATE STREAM unkeyed AS SELECT id, x FROM s PARTITION BY null;
CREATE STREAM exploded AS SELECT id, EXPLODE(l) AS e, x FROM s;
CREATE STREAM flat WITH (value_format='DELIMITED', value_delimiter='TAB') AS SELECT id, x, ts FROM s;
CREATE STREAM fields AS SELECT id, a->* FROM s;
CREATE STREAM timed WITH (timestamp='ts') AS SELECT id, ts FROM s;
CREATE STREAM target (id INT KEY, x STRING) WITH (kafka_topic='target', value_format='JSON', partitions=1);
INSERT INTO target SELECT id, x FROM s WHERE id = 1;
INSERT INTO target SELECT id, 'again' AS x FROM s WHERE id = 1;
DEFINE wanted = '2';
CREATE STREAM chosen AS SELECT * FROM s WHERE id = ${wanted};
CREATE STREAM divided AS SELECT id, 10 / (id - 1) AS q FROM s;

INSERT INTO s (id, x, a, l, m, d, ts) VALUES (
  1, 'abc', STRUCT(street := 'Main', `no` := 4), ARRAY[1, 2], MAP('a' := 5), '2024-02-29',
  '2024-02-29T12:00:00.5');
INSERT INTO s (id, x, l) VALUES (2, 'xyz', ARRAY[3]);

ASSERT VALUES shaped (k, u, street, n, f, ma, doubled, day, many, id2)
  VALUES (1, 'ABC', 'Main', 5, 1, 5, ARRAY[2, 4], '2024/02/29', 'many', 1);
ASSERT VALUES rekeyed (x, id, l) VALUES ('abc', 1, ARRAY[1, 2]);
ASSERT STREAM unkeyed (id INT, x STRING) WITH (key_format='NONE');
ASSERT VALUES unkeyed (id, x) VALUES (1, 'abc');
ASSERT VALUES exploded (id, e, x) VALUES (1, 1, 'abc');
ASSERT VALUES exploded (id, e, x) VALUES (1, 2, 'abc');
ASSERT VALUES exploded (id, e, x) VALUES (2, 3, 'xyz');
ASSERT VALUES flat (id, x, ts) VALUES (1, 'abc', '2024-02-29T12:00:00.500');
ASSERT STREAM fields (id INT KEY, street STRING, `no` INT);
ASSERT VALUES timed (id, rowtime) VALUES (1, 1709208000500);
ASSERT VALUES target (id, x) VALUES (1, 'abc');
ASSERT VALUES target (id, x) VALUES (1, 'again');
ASSERT VALUES chosen (id, x) VALUES (2, 'xyz');
ASSERT VALUES divided (id, q) VALUES (1, null); -- a division by zero is null, and is noted
ASSERT VALUES divided (id, q) VALUES (2, 10);

-- Units of time are names of columns, too.
CREATE STREAM days (day INT, hours STRING) WITH (kafka_topic='days', value_format='JSON');
CREATE STREAM later AS
  SELECT day, UCASE(hours) AS h, ABS(day) AS a, DATEADD(DAYS, day, CAST('2024-02-28' AS DATE)) AS d
  FROM days WHERE day > 1;
INSERT INTO days VALUES (2, 'x');
ASSERT VALUES later (day, h, a, d) VALUES (2, 'X', 2, '2024-03-01');

-- Columns that are added.
ALTER STREAM days ADD COLUMN note STRING, ADD place INT;
CREATE STREAM noted AS SELECT day, note, place FROM days;
INSERT INTO days (day, note, place) VALUES (1, 'n', 4);
ASSERT VALUES noted (day, note, place) VALUES (2, null, null);
ASSERT VALUES noted (day, note, place) VALUES (1, 'n', 4);
