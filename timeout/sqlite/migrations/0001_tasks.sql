-- Counters. That of versions and leases is never set back.
CREATE TABLE {meta} (
  name  TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO {meta} VALUES ('number', 0), ('term', 0);

-- A topic without a name was dropped; its tasks are still to be deleted.
CREATE TABLE {topics} (
  id       INTEGER PRIMARY KEY AUTOINCREMENT,
  name     TEXT UNIQUE,
  slots    INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  retain   INTEGER NOT NULL,
  paused   INTEGER NOT NULL,
  settings TEXT NOT NULL,
  grown    TEXT -- up to which id tasks have their slots of after the topic has grown
);

-- at is the time that matters in the state: when a pending task is due, when the lease of a
-- running one ends, when another one became what it is. hash has the lowest ten bits of the
-- id's, and slot those of them that the topic's number of slots asked for when it was written.
CREATE TABLE {tasks} (
  topic    INTEGER NOT NULL,
  id       TEXT NOT NULL,
  state    INTEGER NOT NULL,
  hash     INTEGER NOT NULL,
  slot     INTEGER NOT NULL,
  at       INTEGER NOT NULL,
  due      INTEGER NOT NULL,
  version  INTEGER NOT NULL,
  lease    INTEGER NOT NULL DEFAULT 0,
  attempts INTEGER NOT NULL DEFAULT 0,
  span     INTEGER NOT NULL DEFAULT 0,
  node     TEXT NOT NULL DEFAULT '',
  error    TEXT NOT NULL DEFAULT '',
  callback TEXT NOT NULL,
  payload  BLOB,
  PRIMARY KEY (topic, id)
) WITHOUT ROWID;
CREATE INDEX {tasks_at} ON {tasks} (topic, state, slot, at);
