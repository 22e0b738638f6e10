-- When a task was set, and how many calls and failures it had before its present life. Zero in created is
-- unknown: an earlier version has set the task. Processes of that version leave the columns as they are.
-- The order of the columns needs the least padding. Wide rows have fewer in a page: then a planner without
-- statistics may take the index of states for what pkey is for.
ALTER TABLE {s}.hw_tasks
    ADD COLUMN calls integer NOT NULL DEFAULT 0,
    ADD COLUMN created bigint NOT NULL DEFAULT 0,
    ADD COLUMN failures integer NOT NULL DEFAULT 0;
