CREATE TABLE numbers (
  id int NOT NULL AUTO_INCREMENT PRIMARY KEY,
  flag tinyint(1),
  truth boolean NOT NULL DEFAULT true,
  tiny tinyint,
  tiny_u tinyint unsigned,
  small smallint,
  small_u smallint unsigned DEFAULT 7,
  medium mediumint,
  medium_u mediumint unsigned,
  whole int NOT NULL DEFAULT -5,
  whole_u int unsigned,
  big bigint,
  big_u bigint unsigned,
  zeros int(5) unsigned zerofill,
  f float,
  f_scaled float(7,3),
  d double,
  d_scaled double(10,2),
  price decimal(10,2) NOT NULL DEFAULT 1.10,
  round_price decimal(6,0),
  wide decimal(40,10),
  b1 bit(1),
  b1_default bit(1) NOT NULL DEFAULT b'1',
  b9 bit(9),
  b64 bit(64),
  y year
);
INSERT INTO numbers VALUES (1, 1, false, -128, 255, -32768, 65535, -8388608, 16777215, -2147483648, 4294967295, -9223372036854775808, 18446744073709551615, 42, 1.5, 1234.568, 0.1, 12345678.91, 99999999.99, -123456, -123456789012345678901234567890.0123456789, b'1', b'0', b'101010101', b'1000000000000000000000000000000000000000000000000000000000000001', 2026);
INSERT INTO numbers (id) VALUES (2);
CREATE TABLE texts (
  code char(4) CHARACTER SET latin1 NOT NULL,
  part varchar(10) NOT NULL DEFAULT 'x',
  name varchar(300),
  old varchar(20) CHARACTER SET latin1,
  greek varchar(20) CHARACTER SET greek,
  wide varchar(20) CHARACTER SET utf16,
  tiny tinytext,
  body text,
  big mediumtext,
  huge longtext CHARACTER SET ucs2,
  doc json,
  bin4 binary(4),
  varbin varbinary(400),
  small_blob tinyblob,
  some_blob blob,
  color enum('red','gr"een','b,lue') DEFAULT 'red',
  sizes set('s','m','l') NOT NULL DEFAULT 's,l',
  ident uuid,
  PRIMARY KEY (code, part)
);
INSERT INTO texts VALUES ('é', 'a', 'naïve 😀 "quoted"', 'olé', 'αβγ', 'wide ü', 'tiny', 'body\nline', 'big', 'hüge', '{"a": [1, 2.50, null], "ü": "x"}', x'0102', x'00ff10', x'01', x'feed', 'b,lue', 's,l', '123e4567-e89b-12d3-a456-426614174000');
INSERT INTO texts (code, part) VALUES ('b', 'b');
CREATE TABLE times (
  id bigint NOT NULL PRIMARY KEY,
  day date,
  day_default date NOT NULL DEFAULT '2020-02-29',
  t time,
  t3 time(3),
  t6 time(6),
  dt datetime,
  dt2 datetime(2),
  dt3 datetime(3),
  dt6 datetime(6) DEFAULT '2001-02-03 04:05:06.789012',
  ts timestamp NULL,
  ts3 timestamp(3) NULL,
  ts6 timestamp(6) NULL,
  ts_now timestamp NOT NULL DEFAULT '2020-01-01 00:00:00'
);
INSERT INTO times VALUES (1, '2026-01-02', '1969-12-31', '23:59:59', '-838:59:58.999', '00:00:00.000001', '2026-01-02 03:04:05', '1969-12-31 23:59:59.99', '2026-01-02 03:04:05.678', '9999-12-31 23:59:59.999999', '2026-01-02 03:04:05', '2026-01-02 03:04:05.120', '2026-01-02 03:04:05.678901', '2025-05-05 05:05:05');
INSERT INTO times VALUES (2, NULL, DEFAULT, NULL, NULL, NULL, NULL, NULL, NULL, DEFAULT, NULL, NULL, NULL, DEFAULT);
SET SESSION sql_mode = '';
INSERT INTO times (id, day, dt, dt6, ts, day_default) VALUES (3, '0000-00-00', '0000-00-00 00:00:00', '0000-00-00 00:00:00', '0000-00-00 00:00:00', '0000-00-00');
SET SESSION sql_mode = DEFAULT;
CREATE TABLE defaults (
  id bigint unsigned NOT NULL PRIMARY KEY,
  made timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  made_dt datetime NOT NULL DEFAULT CURRENT_TIMESTAMP,
  made_dt6 datetime(6) DEFAULT CURRENT_TIMESTAMP(6),
  changed timestamp NULL DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP,
  quoted varchar(20) NOT NULL DEFAULT 'it''s',
  empty varchar(20) NOT NULL DEFAULT '',
  slash varchar(20) DEFAULT 'a\\\\b',
  bin binary(3) DEFAULT 'abc',
  bits bit(4) DEFAULT b'0101',
  num decimal(8,3) DEFAULT 1.5,
  dbl double NOT NULL DEFAULT 2.5,
  fl float DEFAULT 0.25,
  yr year DEFAULT 1999,
  tm time DEFAULT '01:02:03',
  col enum('a','b') NOT NULL DEFAULT 'b',
  func int DEFAULT (1 + 1),
  bu bigint unsigned DEFAULT 18446744073709551615,
  gen int GENERATED ALWAYS AS (yr + 1) STORED,
  virt int GENERATED ALWAYS AS (yr + 2) VIRTUAL
);
INSERT INTO defaults (id, made, made_dt, made_dt6) VALUES (1, '2020-01-01', '2020-01-01', '2020-01-01');
CREATE TABLE by_unique (a int NOT NULL, b varchar(5), UNIQUE KEY (a));
INSERT INTO by_unique VALUES (1, 'x');
CREATE TABLE by_enum (e enum('z','y') NOT NULL, n int, PRIMARY KEY (e));
INSERT INTO by_enum VALUES ('z', 1), ('y', 2);
CREATE TABLE shapes (id int PRIMARY KEY, p point, g geometry, l linestring);
INSERT INTO shapes VALUES (1, ST_PointFromText('POINT(1.5 -2)', 4326), ST_GeomFromText('POLYGON((0 0,0 5,5 5,0 0))'), ST_GeomFromText('LINESTRING(0 0,1 1)'));
CREATE TABLE keyless (a int, b varchar(5));
INSERT INTO keyless VALUES (1, 'one');
CREATE TABLE altered (id int PRIMARY KEY, a int, b varchar(10));
INSERT INTO altered VALUES (1, 10, 'before');
CREATE TABLE started (id int PRIMARY KEY, what varchar(20));
INSERT INTO started VALUES (1, 'begin')
