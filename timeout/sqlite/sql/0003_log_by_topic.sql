-- Each topic says for how long its log is kept.
DROP INDEX hw_executions_by_time;

CREATE INDEX hw_executions_by_time ON hw_executions (topic, at);
