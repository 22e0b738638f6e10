-- When a task was set, and how many calls and failures it had before its present life. Zero in created is
-- unknown: an earlier version has set the task. Programs of that version, while they still run, leave the
-- columns as they are.
ALTER TABLE hw_tasks ADD COLUMN created INTEGER NOT NULL DEFAULT 0;

ALTER TABLE hw_tasks ADD COLUMN calls INTEGER NOT NULL DEFAULT 0;

ALTER TABLE hw_tasks ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;
