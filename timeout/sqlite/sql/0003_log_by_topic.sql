-- Each topic has its own RetainLog.
DROP INDEX hw_executions_by_time;

CREATE INDEX hw_executions_by_time ON hw_executions (topic, at);
