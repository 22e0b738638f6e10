-- The log of a task is deleted with it, by its key, and what is older than it has to be by its time:
-- the number is for the order of what one task has. Rows of tasks that were gone before stay until
-- they are that old.
ALTER TABLE {s}.hw_executions DROP CONSTRAINT hw_executions_pkey;
CREATE INDEX hw_executions_at ON {s}.hw_executions (topic, at);
ALTER TABLE {s}.hw_executions SET (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
);
