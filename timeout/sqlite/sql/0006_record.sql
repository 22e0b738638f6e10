-- When a task was set, and how many calls and failures it had before its present life. Zero in created is
-- unknown: an earlier version has set the task. Programs of that version, while they still run, leave the
-- columns as they are. A new file has these columns before the payload, by 0001_tables.sql. Behind it, as here,
-- SQLite finds them only through all pages of the payload.
ALTER TABLE hw_tasks ADD COLUMN created INTEGER NOT NULL DEFAULT 0;

ALTER TABLE hw_tasks ADD COLUMN calls INTEGER NOT NULL DEFAULT 0;

ALTER TABLE hw_tasks ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;
