-- The column at is renamed to filed: the time under which the index has a task. Of a task that was
-- moved to a later time that is an earlier one, and its time is due: so a move need not touch the
-- index. Processes of an earlier version would take such a task for due; with the new name they
-- have an error instead, until they are replaced.
ALTER TABLE {s}.hw_tasks RENAME COLUMN at TO filed;
ALTER TABLE {s}.hw_tasks ADD COLUMN moved boolean NOT NULL DEFAULT false;

-- A task that is moved stays within its page.
ALTER TABLE {s}.hw_tasks SET (fillfactor = 70);

-- A row without NULLs is written to the log of changes without the map of them, eight bytes of some
-- ninety for a move: new ones have empty texts instead. Older ones stay as they are.
