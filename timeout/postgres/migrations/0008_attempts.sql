-- A center decides how many attempts a task has. Processes of an earlier version compare attempts with this column: with such a
-- number they leave that to their centers, until they are replaced.
ALTER TABLE {s}.hw_topics ALTER COLUMN attempts SET DEFAULT 2147483647;
UPDATE {s}.hw_topics SET attempts = 2147483647;
