-- The nodes, in the order of their numbers.
CREATE TABLE {members} (
  name   TEXT PRIMARY KEY,
  number INTEGER NOT NULL,
  topics TEXT NOT NULL,
  ttl    INTEGER NOT NULL,
  until  INTEGER NOT NULL
) WITHOUT ROWID;

-- The highest term in which somebody has asked for a slot, and when.
CREATE TABLE {fences} (
  topic INTEGER NOT NULL,
  slot  INTEGER NOT NULL,
  term  INTEGER NOT NULL,
  seen  INTEGER NOT NULL,
  PRIMARY KEY (topic, slot)
) WITHOUT ROWID;
