-- All numbers that nothing else may ever have again: versions and leases.
CREATE SEQUENCE {s}.hw_number CACHE 1;

CREATE TABLE {s}.hw_topics (
    no       integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- never used again
    name     text COLLATE "C" NOT NULL UNIQUE,
    attempts integer NOT NULL,
    paused   boolean NOT NULL,
    config   text NOT NULL -- JSON
);

-- The numbers of topics that are dropped, until their tasks are deleted.
CREATE TABLE {s}.hw_dropped (
    no integer PRIMARY KEY,
    at bigint NOT NULL
);

-- The column at is the action time of a task that is Pending, the end of the lease of one that
-- is Running, and for others when they came to an end. Times are milliseconds.
CREATE TABLE {s}.hw_tasks (
    at       bigint NOT NULL,
    due      bigint NOT NULL,
    version  bigint NOT NULL,
    lease    bigint NOT NULL, -- 0 for none
    topic    integer NOT NULL,
    attempts integer NOT NULL,
    slot     smallint NOT NULL, -- as if the topic had the most slots that are possible
    state    smallint NOT NULL, -- timeout.State
    was      smallint NOT NULL, -- before the last change of somebody who wanted to know
    id       text COLLATE "C" NOT NULL,
    node     text NOT NULL,
    error    text NOT NULL,
    callback text, -- JSON
    payload  bytea,
    PRIMARY KEY (topic, id)
);

-- What is due, what is upcoming, lists and counts.
CREATE INDEX hw_tasks_at ON {s}.hw_tasks (topic, state, at, id);

-- A task's row is written some three times within a short life, and each time in another place,
-- since an index has its state. What is dead is swept away before there is much of it. Rows are
-- not moved within their page, so no space is kept for that.
ALTER TABLE {s}.hw_tasks SET (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);

-- Attempts that have ended.
CREATE TABLE {s}.hw_executions (
    no      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      bigint NOT NULL, -- when it was written
    version bigint NOT NULL,
    started bigint NOT NULL, -- microseconds, by the node's clock
    took    bigint NOT NULL, -- nanoseconds
    topic   integer NOT NULL,
    attempt integer NOT NULL,
    outcome smallint NOT NULL,
    id      text COLLATE "C" NOT NULL,
    node    text NOT NULL,
    error   text NOT NULL
);
CREATE INDEX hw_executions_task ON {s}.hw_executions (topic, id, no);

-- The highest term that somebody has leased from a slot with, and when.
CREATE TABLE {s}.hw_fences (
    topic integer NOT NULL,
    slot  smallint NOT NULL,
    term  bigint NOT NULL,
    at    bigint NOT NULL,
    PRIMARY KEY (topic, slot)
);

CREATE TABLE {s}.hw_members (
    no     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name   text COLLATE "C" NOT NULL UNIQUE,
    topics text NOT NULL, -- JSON
    until  bigint NOT NULL
);

-- One row, which is locked while the members change.
CREATE TABLE {s}.hw_view (
    term bigint NOT NULL
);
INSERT INTO {s}.hw_view VALUES (0);
