-- The attempts that have ended, of tasks that are still there: logged says which have any.
ALTER TABLE {tasks} ADD COLUMN logged INTEGER NOT NULL DEFAULT 0;
CREATE TABLE {executions} (
  topic   INTEGER NOT NULL,
  id      TEXT NOT NULL,
  lease   INTEGER NOT NULL,
  version INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  node    TEXT NOT NULL,
  started INTEGER NOT NULL,
  took    INTEGER NOT NULL,
  state   INTEGER NOT NULL,
  error   TEXT NOT NULL,
  ended   INTEGER NOT NULL,
  PRIMARY KEY (topic, id, lease)
) WITHOUT ROWID;
CREATE INDEX {executions_ended} ON {executions} (ended);
