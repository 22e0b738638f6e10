-- A center decides how many attempts a task has. Processes of an earlier version have errors when they lease, until
-- they are replaced: with a number that nobody keeps up they would end tasks too soon.
ALTER TABLE {s}.hw_topics DROP COLUMN IF EXISTS attempts;
